"""Tables of names, and options that are checked at every depth, both with "did you mean".

A `Registry` is a literal dict of `name -> "module:attribute"`, imported on use, and beside it the
plug-ins of installed packages. A name may carry a version (`joint.v1`); the bare name means the
newest of its versions.
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
"""Fewer characters begin too many words to say which was meant."""


def did_you_mean(word: str, known: Collection[str]) -> str:
    """Return `; did you mean 'x'?` for the nearest known word, else `; known: a, b, c`.

    A known word that begins with the wrong one is nearest, as a word cut short is more likely than
    a misspelt one. Of paths the last part may be compared alone: `ncbi` and `blurb/ncbi` are near
    `blurb/ncbi-disease`.
    """
    near = _begun_with(word, known) or difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if near:
        return f"; did you mean '{near[0]}'?"
    return f"; known: {', '.join(sorted(known))}"


def _begun_with(word: str, known: Collection[str]) -> list[str]:
    """Return known words that begin with a word, whole or in their last part, shortest first."""
    last = word.rpartition("/")[2]
    if len(last) < _SHORTEST_BEGINNING:
        return []

    begun = [name for name in known if name.rpartition("/")[2].startswith(last)]
    return sorted(begun, key=lambda name: (not name.startswith(word), len(name), name))


@dataclasses.dataclass(frozen=True)
class Help:
    """The help text of an option, in its type: `rate: Annotated[float, Help("...")] = 0.5`.

    Fields of dataclasses and parameters of functions declare their options alike.
    """

    text: str


REQUIRED = inspect.Parameter.empty
"""In place of the default of an option that has none."""


class Option(NamedTuple):
    """An option of a table, as its declaration says.

    Attributes:
        name: Its name.
        type: Its type, with what annotates it.
        default: Its default, or `REQUIRED`.
        help: Its help text; "" if there is none.
    """

    name: str
    type: Any
    default: Any
    help: str

    @property
    def words(self) -> tuple[Any, ...]:
        """Return the values of an option that accepts only a few words; else none."""
        return _words(self.type)


def declared_options(make: Callable[..., Any]) -> list[Option]:
    """Return the options of a dataclass, those of its own before those of its bases; or a function.

    A field of a dataclass whose metadata say `option=False` is for the program alone.
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
    """Return the default of each option, in order."""
    if not dataclasses.is_dataclass(make):
        parameters = inspect.signature(make).parameters
        return {name: parameter.default for name, parameter in parameters.items()}

    fields = {
        field.name: field
        for field in dataclasses.fields(make)
        if field.init and field.metadata.get("option", True)
    }
    classes = typing.cast("type", make).__mro__
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
    """Return the words that a type allows, none if it allows other values too."""
    origin = typing.get_origin(hint)
    if origin is Literal:
        return typing.get_args(hint)
    members = typing.get_args(hint)
    inner = [_words(member) for member in (members[:1] if origin is Annotated else members)]
    return tuple(itertools.chain.from_iterable(inner)) if inner and all(inner) else ()


def from_options(
    make: Callable[..., T], options: Mapping[str, Any], *, where: str, also: Collection[str] = ()
) -> T:
    """Call `make` with the options of a table, after checking every name and value at every depth.

    Dataclasses may hold dataclasses, and tuples, lists, mappings and unions of them: the table
    `{hide = "words", budget = {rate = 0.1, overun = "cut"}}` is refused for `overun` in `budget`.

    Args:
        make: A dataclass, or a function whose parameters all have a name and a type. A ValueError
            that it raises, or that the `__post_init__` of a nested dataclass raises, is reported as
            a wrong option.
        options: Name -> value, as TOML gives them. A value may also have its final type already.
        where: What an error names first, such as `pipeline 'x', [source]`.
        also: Further names that the same table may have, for "did you mean".

    Raises:
        PipelineError: An unknown name, a missing one, a wrong type, or a value that the type
            refuses.
    """
    strict = _strict(inspect.unwrap(make))
    try:
        msgspec.convert(options, strict, from_attributes=True)
        # All names are known now, so that this refuses only what a `__post_init__` refuses.
        values = msgspec.convert(options, _typed(inspect.unwrap(make)))
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        kinds = _types_at(path, strict)
        says = _in_words(message, path.strip(".`"), kinds, where=where, also=also)
        raise PipelineError(says) from None

    try:
        return make(**values)
    except ValueError as error:
        raise PipelineError(f"{where}: {error}") from None


@functools.lru_cache(maxsize=256)
def _typed(make: Callable[..., Any]) -> Any:
    """Return the type of a dict of options, each of its own type."""
    types = {option.name: option.type for option in declared_options(make)}
    typed_dict: Any = TypedDict
    return typed_dict("Options", types, total=False)


@functools.lru_cache(maxsize=256)
def _strict(make: Callable[..., Any]) -> type[msgspec.Struct]:
    """Return a type with the same options that refuses unknown names, which dataclasses ignore."""
    fields: list[Any] = []
    for option in declared_options(make):
        default = [] if option.default is REQUIRED else [None]
        fields.append((option.name, _strict_type(option.type), *default))
    return msgspec.defstruct("Options", fields, kw_only=True, forbid_unknown_fields=True)


def _strict_type(hint: Any) -> Any:
    """Return a type in which each dataclass is replaced by its strict twin."""
    if dataclasses.is_dataclass(hint):
        return _strict(hint)  # type: ignore[arg-type]

    origin = typing.get_origin(hint)
    members = typing.get_args(hint)
    if origin is Literal or not members:
        return hint
    if origin is Annotated:
        return _strict_type(members[0])
    strict = tuple(member if member is ... else _strict_type(member) for member in members)
    return functools.reduce(operator.or_, strict) if origin in _UNIONS else origin[strict]


def _types_at(path: str, whole: Any) -> list[Any]:
    """Return the types that a value may have at a path as of msgspec, such as `.picks[0].budget`.

    Args:
        path: Names, and numbers or `...` in brackets.
        whole: The type at its beginning, as of `_strict`.
    """
    found = [whole]
    for name, number in re.findall(r"\.(\w+)|\[(\d+|\.{3})\]", path):
        found = [inner for kind in found for inner in _types_within(kind, name, number)]
    return found


def _types_within(kind: Any, name: str, number: str) -> list[Any]:
    """Return the types of a field by its name, or of an item by its number, `...` in a mapping."""
    if name:
        is_table = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
        inner = [typing.get_type_hints(kind)[name]] if is_table else []
    elif number == "...":
        inner = list(typing.get_args(kind)[-1:])
    else:
        items = typing.get_args(kind)
        is_fixed = typing.get_origin(kind) is tuple and ... not in items
        inner = [items[int(number)]] if is_fixed else list(items[:1])
    return [member for one in inner for member in _members(one)]


def _members(kind: Any) -> tuple[Any, ...]:
    """Return the members of a union, or a type itself."""
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
"""Kind of value, as msgspec calls it -> as those do who write TOML or Python."""


def _in_words(
    message: str, place: str, kinds: Collection[Any], *, where: str, also: Collection[str]
) -> str:
    """Return what msgspec, or a type's own check, says of an option, without msgspec's words.

    Args:
        message: As of msgspec.
        place: Path to the value, such as `picks[0].budget`; "" for the whole table.
        kinds: The types that the value may have.
        where: What the error names first.
        also: Further names that the whole table may have.
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
        wanted, limit, came = other.groups()
        # That an option may also be left out does not help whoever set it.
        names = [_KINDS.get(name, name) for name in wanted.split(" | ") if name != "null"]
        expected = f"{' or '.join(names)}{limit}"
        hint = '; a list of one is written ["..."]' if (wanted, came) == ("array", "str") else ""
        return (
            f"{where}: expected {expected} for option '{place}', got {_KINDS.get(came, came)}{hint}"
        )
    return f"{where}: {message[:1].lower()}{message[1:]} for option '{place}'"


def check_names(option: str, names: object) -> None:
    """Refuse one name where a list of names is meant, as a text is a list of its letters.

    Raises:
        TypeError: A text.
    """
    if isinstance(names, str):
        raise TypeError(f"{option}: expected a list of names, got one; pass ['{names}']")


class Registry:
    """A literal table of what a pipeline or a call can name, and the plug-ins beside it."""

    def __init__(
        self, kind: str, table: Mapping[str, str], *, plugins: str = "", has: Collection[str] = ()
    ) -> None:
        """Keep the table; nothing is imported before a name is used.

        Args:
            kind: What the names are, for messages ("strategy").
            table: Name, with its version if it has one -> "module:attribute".
            plugins: Group of entry points that add names; "" for none.
            has: Attributes that the class of a plug-in must have.
        """
        self.kind = kind
        self._table = dict(table)
        self._group = plugins
        self._has = has

    def names(self) -> list[str]:
        """Return every name, shipped or of a plug-in, sorted.

        Raises:
            PipelineError: A plug-in has the name of another.
        """
        return sorted([*self._table, *self._plugins()])

    def __contains__(self, name: object) -> bool:
        return name in self._table or name in self._plugins()

    def resolve(self, name: str) -> str:
        """Return the full name: the newest version of a bare name, any other name as it is.

        Raises:
            PipelineError: The name is not registered.
        """
        full = _newest(name, self._table) or _newest(name, self._plugins())
        if full:
            return full
        bare = {_bare(full) for full in self.names()}
        raise PipelineError(f"unknown {self.kind} '{name}'{did_you_mean(name, bare)}")

    def plugin(self, name: str) -> Plugin | None:
        """Return the plug-in that a name stands for, None for a shipped name.

        Raises:
            PipelineError: The name is not registered.
        """
        full = self.resolve(name)
        return None if full in self._table else self._plugins()[full]

    def load(self, name: str) -> Any:
        """Import and return what a name stands for.

        Raises:
            PipelineError: The name is not registered, or its plug-in cannot be imported.
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
        """Make the named thing from its options, which `from_options` checks."""
        where = where or f"{self.kind} '{name}'"
        return from_options(self.load(name), options, where=where, also=also)

    def _plugins(self) -> Mapping[str, Plugin]:
        """Return name -> plug-in.

        Raises:
            PipelineError: A plug-in has a name that is shipped, or that of another.
        """
        if not self._group:
            return {}
        from mslm_data.plugins import find_plugins

        plugins = find_plugins(self._group)
        shipped = {_bare(name) for name in self._table}
        for name, plugin in plugins.items():
            if _bare(name) in shipped:
                raise PipelineError(
                    f"{plugin}: expected another name than those of mslm-data itself, got "
                    f"'{name}'; rename it, or uninstall {plugin.distribution}"
                )
        return plugins


def _bare(name: str) -> str:
    """Return a name without its version."""
    return re.sub(r"\.v\d+$", "", name)


def _newest(name: str, names: Collection[str]) -> str:
    """Return a name itself, or the newest of its versions; "" if there is neither."""
    if name in names:
        return name
    versions = [full for full in names if full != _bare(full) and _bare(full) == name]
    return max(versions, key=lambda full: int(full.rsplit(".v", 1)[1]), default="")
