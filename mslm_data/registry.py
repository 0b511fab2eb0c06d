"""Registries of names, and checks of options at any depth, both with "did you mean".

A `Registry` maps `name -> "module:attribute"`, imported on use, and adds the plug-ins of installed
packages. A name may have a version (`joint.v1`); without one, it means the newest version.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib
import inspect
import itertools
import operator
import re
import types
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, TypeVar

import msgspec

from mslm_data.errors import PipelineError

if typing.TYPE_CHECKING:
    from mslm_data.plugins import Plugin

T = TypeVar("T")

_UNIONS = (typing.Union, types.UnionType)
_SHORTEST_BEGINNING = 3
"""Minimum length of a prefix to suggest names; shorter prefixes match too many."""


def did_you_mean(word: str, known: Collection[str]) -> str:
    """Return `; did you mean 'x'?` for the nearest known word, otherwise `; known: a, b, c`.

    Completions of the word come first, because a shortened word is more likely than a misspelt one.
    The last part of a path is compared too: `ncbi` and `blurb/ncbi` suggest `blurb/ncbi-disease`.
    """
    # A prefix is a surer sign than similar letters.
    near = _begun_with(word, known) or difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if near:
        return f"; did you mean '{near[0]}'?"
    return f"; known: {', '.join(sorted(known))}"


def _begun_with(word: str, known: Collection[str]) -> list[str]:
    """Return known words with this prefix, in the whole or the last part, shortest first."""
    last = word.rpartition("/")[2]
    if len(last) < _SHORTEST_BEGINNING:
        return []

    completions = [name for name in known if name.rpartition("/")[2].startswith(last)]
    return sorted(completions, key=lambda name: (not name.startswith(word), len(name), name))


@dataclasses.dataclass(frozen=True)
class Help:
    """Help text of an option, as part of its type: `rate: Annotated[float, Help("...")] = 0.5`.

    Fields of dataclasses and parameters of functions declare options in the same way.
    """

    text: str


REQUIRED = inspect.Parameter.empty
"""Default of an option that must be given."""


class Option(NamedTuple):
    """An option, as declared.

    Attributes:
        name: Name of the option.
        type: Its type, with annotations.
        default: Its default, or `REQUIRED`.
        help: Its help text, or "".
    """

    name: str
    type: Any
    default: Any
    help: str

    @property
    def words(self) -> tuple[Any, ...]:
        """The allowed words, if the option allows only a few; otherwise none."""
        return _words(self.type)


def declared_options(make: Callable[..., Any]) -> list[Option]:
    """Return the options of a function, or of a dataclass with its own before inherited ones.

    Fields with the metadata `option=False` are not options.
    """
    is_plain_class = isinstance(make, type) and not dataclasses.is_dataclass(make)
    declares = make.__init__ if is_plain_class else make
    hints = typing.get_type_hints(declares, include_extras=True)
    defaults = _defaults(make)
    return [
        Option(name, hints.get(name, Any), default, _help(hints.get(name, Any)))
        for name, default in defaults.items()
    ]


def _defaults(make: Callable[..., Any]) -> dict[str, Any]:
    """Return option -> default, in order."""
    if not dataclasses.is_dataclass(make):
        parameters = inspect.signature(make).parameters
        return {name: parameter.default for name, parameter in parameters.items()}

    fields = {
        field.name: field
        for field in dataclasses.fields(make)
        if field.init and field.metadata.get("option", True)
    }
    classes = typing.cast("type", make).__mro__
    # `dataclasses.fields` lists inherited fields first. Users look for a source's own options.
    own_first = dict.fromkeys(name for kind in classes for name in inspect.get_annotations(kind))
    return {name: _default(fields[name]) for name in own_first if name in fields}


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return REQUIRED if field.default is dataclasses.MISSING else field.default


def _help(hint: Any) -> str:
    texts = [mark.text for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, Help)]
    return texts[-1] if texts else ""


def _words(hint: Any) -> tuple[Any, ...]:
    """Return the words that a type allows; none if it allows other values too."""
    origin = typing.get_origin(hint)
    if origin is Literal:
        return typing.get_args(hint)
    members = typing.get_args(hint)
    inner = [_words(member) for member in (members[:1] if origin is Annotated else members)]
    return tuple(itertools.chain.from_iterable(inner)) if inner and all(inner) else ()


def from_options(
    make: Callable[..., T],
    options: Mapping[str, Any],
    *,
    where: str,
    also: Collection[str] = (),
    check: Callable[[str, Any, Any], None] | None = None,
) -> T:
    """Call `make` with options, after checking all names and values at any depth.

    Dataclasses may contain dataclasses, and tuples, lists, mappings and unions of them. In `{units
    = "words", budget = {rate = 0.1, overun = "cut"}}`, the error names `overun` in `budget`.

    Args:
        make: A dataclass, or a function with typed parameters. Its ValueErrors, and those of nested
            `__post_init__`, are reported as wrong options.
        options: Name -> value, as in TOML. Values may also have their final type already.
        where: Prefix of errors, such as `pipeline 'x', [source]`.
        also: Other names that the table may have, for "did you mean".
        check: Called with name, type and value of each option before `make`. Its ValueErrors are
            reported too, with the name of the option; those of `make` may have that of a part.

    Raises:
        PipelineError: A name is unknown or missing, or a value is wrong.
    """
    # Two passes: msgspec rejects unknown names in Structs only, and makes dataclasses only from
    # dataclass types.
    strict = _strict(make)
    try:
        msgspec.convert(options, strict, from_attributes=True)
        # Names and types are checked above, so this fails only for errors of a `__post_init__`.
        values = msgspec.convert(options, _typed(make))
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        kinds = _types_at(path, strict)
        problem = _in_words(message, path.strip(".`"), kinds, where=where, also=also)
        raise PipelineError(problem) from None

    try:
        if check is not None:
            for option in declared_options(make):
                if option.name in values:
                    check(option.name, option.type, values[option.name])
        return make(**values)
    except ValueError as error:
        raise PipelineError(f"{where}: {error}") from None


@functools.lru_cache(maxsize=256)
def _typed(make: Callable[..., Any]) -> Any:
    """Return a TypedDict type of the options."""
    types = {option.name: option.type for option in declared_options(make)}
    typed_dict: Any = TypedDict
    return typed_dict("Options", types, total=False)


@functools.lru_cache(maxsize=256)
def _strict(make: Callable[..., Any]) -> type[msgspec.Struct]:
    """Return a Struct type of the options that rejects unknown names, unlike dataclasses."""
    fields: list[Any] = []
    for option in declared_options(make):
        # Only the presence of a default matters: this type checks names, its values are not used.
        default = [] if option.default is REQUIRED else [None]
        fields.append((option.name, _strict_type(option.type), *default))
    return msgspec.defstruct("Options", fields, kw_only=True, forbid_unknown_fields=True)


def _strict_type(hint: Any) -> Any:
    """Return a type with each dataclass replaced by its strict Struct."""
    if dataclasses.is_dataclass(hint):
        return _strict(hint)  # type: ignore[arg-type]

    origin = typing.get_origin(hint)
    members = typing.get_args(hint)
    if origin is Literal or not members:
        return hint
    if origin is Annotated:  # drop the help text
        return _strict_type(members[0])
    strict = tuple(member if member is ... else _strict_type(member) for member in members)
    return functools.reduce(operator.or_, strict) if origin in _UNIONS else origin[strict]


def _types_at(path: str, whole: Any) -> list[Any]:
    """Return the possible types of a value at a path of msgspec, such as `.picks[0].budget`.

    Args:
        path: Names, and numbers or `...` in brackets.
        whole: The type at the beginning of the path, from `_strict`.
    """
    kinds = [whole]
    for name, number in re.findall(r"\.(\w+)|\[(\d+|\.{3})\]", path):
        kinds = [inner for kind in kinds for inner in _types_within(kind, name, number)]
    return kinds


def _types_within(kind: Any, name: str, number: str) -> list[Any]:
    """Return the types of a field, of an item by number, or (`...`) of a mapping's values."""
    if name:
        is_table = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
        inner = [typing.get_type_hints(kind)[name]] if is_table else []
    elif number == "...":
        inner = list(typing.get_args(kind)[-1:])
    else:
        items = typing.get_args(kind)
        is_fixed = typing.get_origin(kind) is tuple and ... not in items
        inner = [items[int(number)]] if is_fixed else list(items[:1])
    return [member for inner_kind in inner for member in _members(inner_kind)]


def _members(kind: Any) -> tuple[Any, ...]:
    """Return the members of a union, or the type itself."""
    return typing.get_args(kind) if typing.get_origin(kind) in _UNIONS else (kind,)


_UNKNOWN = re.compile(r"Object contains unknown field `(.+)`")
_WITHOUT = re.compile(r"Object missing required field `(.+)`")
_NO_WORD = re.compile(r"Invalid enum value (.+)", re.DOTALL)
_OTHER_KIND = re.compile(r"Expected `(.+)`(.*), got `(.+)`")
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}
"""Kind of value in messages of msgspec -> in our messages."""


def _in_words(
    message: str, place: str, kinds: Collection[Any], *, where: str, also: Collection[str]
) -> str:
    """Return an error message in words of TOML and Python users, instead of msgspec's.

    Args:
        message: Message of msgspec, or of a type's own check.
        place: Path of the value, such as `picks[0].budget`; "" for the whole table.
        kinds: The possible types of the value.
        where: Prefix of the message.
        also: Other names that the whole table may have.
    """
    if unknown := _UNKNOWN.fullmatch(message):
        known = [name for kind in kinds for name in getattr(kind, "__struct_fields__", ())]
        near = did_you_mean(unknown[1], known if place else [*known, *also])
        table = f"{where}, {place}" if place else where
        return f"{table}: unknown option '{unknown[1]}'{near}"

    if lacks := _WITHOUT.fullmatch(message):
        if not place:
            return f"{where}: expected the option '{lacks[1]}', got none"
        return f"{where}: expected '{lacks[1]}' in the table of option '{place}', got none"

    if word := _NO_WORD.fullmatch(message):
        words = [
            str(value)
            for kind in kinds
            if typing.get_origin(kind) is Literal
            for value in typing.get_args(kind)
        ]
        return f"{where}: expected one of {', '.join(words)} for option '{place}', got {word[1]}"

    if other := _OTHER_KIND.fullmatch(message):
        wanted, limit, got = other.groups()
        # Leave out null: a value was given, so it does not help that none is allowed.
        names = [_KINDS.get(name, name) for name in wanted.split(" | ") if name != "null"]
        expected = f"{' or '.join(names)}{limit}"
        hint = '; a list of one is written ["..."]' if (wanted, got) == ("array", "str") else ""
        return (
            f"{where}: expected {expected} for option '{place}', got {_KINDS.get(got, got)}{hint}"
        )
    return f"{where}: {message[:1].lower()}{message[1:]} for option '{place}'"


def check_names(option: str, names: object) -> None:
    """Check that a list of names is not a single string, which would be a list of letters.

    Raises:
        TypeError: It is a string.
    """
    if isinstance(names, str):
        raise TypeError(f"{option}: expected a list of names, got one; pass ['{names}']")


class Registry:
    """A table of names that pipelines and calls use, with plug-ins."""

    def __init__(
        self, kind: str, table: Mapping[str, str], *, plugins: str = "", has: Collection[str] = ()
    ) -> None:
        """Create a registry without importing anything.

        Args:
            kind: Noun for the names in messages, such as "strategy".
            table: Name, with its version if any -> "module:attribute".
            plugins: Group of entry points that add names. Default: none.
            has: Required attributes of plug-in classes. Default: none.
        """
        self.kind = kind
        self._table = dict(table)
        self._group = plugins
        self._has = has

    def names(self) -> list[str]:
        """Return all names, shipped and of plug-ins, sorted.

        Raises:
            PipelineError: A plug-in uses the name of another.
        """
        return sorted([*self._table, *self._plugins()])

    def __contains__(self, name: object) -> bool:
        return name in self._table or name in self._plugins()

    def resolve(self, name: str) -> str:
        """Return the full name: the newest version for a name without version, otherwise the name.

        Raises:
            PipelineError: The name is unknown.
        """
        full = _newest(name, self._table) or _newest(name, self._plugins())
        if full:
            return full
        bare = {_bare(full) for full in self.names()}
        raise PipelineError(f"unknown {self.kind} '{name}'{did_you_mean(name, bare)}")

    def plugin(self, name: str) -> Plugin | None:
        """Return the plug-in of a name; None for a shipped name.

        Raises:
            PipelineError: The name is unknown.
        """
        full = self.resolve(name)
        return None if full in self._table else self._plugins()[full]

    def load(self, name: str) -> Any:
        """Import and return the object of a name.

        Raises:
            PipelineError: The name is unknown, or its plug-in cannot be imported.
        """
        full = self.resolve(name)
        if full not in self._table:
            from mslm_data.plugins import load_plugin

            return load_plugin(self._plugins()[full], self._has)
        module, attribute = self._table[full].split(":")
        return getattr(importlib.import_module(module), attribute)

    def make(
        self,
        name: str,
        options: Mapping[str, Any],
        *,
        where: str | None = None,
        also: Collection[str] = (),
    ) -> Any:
        """Make the object of a name from options, checked by `from_options`."""
        where = where or f"{self.kind} '{name}'"
        return from_options(self.load(name), options, where=where, also=also)

    def _plugins(self) -> Mapping[str, Plugin]:
        """Return name -> plug-in.

        Raises:
            PipelineError: A plug-in uses a shipped name, or the name of another plug-in.
        """
        if not self._group:
            return {}
        from mslm_data.plugins import find_plugins

        plugins = find_plugins(self._group)
        shipped = {_bare(name) for name in self._table}
        for name, plugin in plugins.items():
            if _bare(name) in shipped:
                raise PipelineError(
                    f"{plugin}: the name '{_bare(name)}' is shipped with mslm-data; rename it, or "
                    f"uninstall {plugin.distribution}"
                )
        return plugins


def _bare(name: str) -> str:
    """Return a name without its version."""
    return re.sub(r"\.v\d+$", "", name)


def _newest(name: str, names: Collection[str]) -> str:
    """Return the name itself or its newest version; "" if neither is known."""
    if name in names:
        return name
    versions = [full for full in names if full != _bare(full) and _bare(full) == name]
    return max(versions, key=lambda full: int(full.rsplit(".v", 1)[1]), default="")
