"""Options as data, and registries of names; errors in both have a "did you mean".

Options are declared once, as a `msgspec.Struct` or as the parameters of a function:

    class Lines(Options, kw_only=True):
        longest: Annotated[int, Meta(ge=1, description="Maximum length of a line.")] = 80

Type, range, help and unknown names come from this declaration, for pipelines, commands, pages and
forms. A `Registry` maps `name -> "module:attribute"`, imported on use, and adds the plug-ins of
installed packages. A name may have a version (`joint.v1`); without one, it means the newest.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import re
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec

from mslm_data.errors import PipelineError

if typing.TYPE_CHECKING:
    from mslm_data.plugins import Plugin

T = TypeVar("T")

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
    return f"; known: {', '.join(sorted(known)) or 'none'}"


def _begun_with(word: str, known: Collection[str]) -> list[str]:
    """Return known words with this prefix, in the whole or the last part, shortest first."""
    last = word.rpartition("/")[2]
    if len(last) < _SHORTEST_BEGINNING:
        return []

    completions = [name for name in known if name.rpartition("/")[2].startswith(last)]
    return sorted(completions, key=lambda name: (not name.startswith(word), len(name), name))


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base class of options.

    `msgspec.convert` checks types and ranges, as do all functions here; a direct call of the class
    checks only what `__post_init__` does: relations between options.
    """


@lru_cache(maxsize=256)
def options_of(make: Callable[..., Any]) -> type[msgspec.Struct]:
    """Return the options of a function or class as a Struct type: itself, or its parameters."""
    if isinstance(make, type) and issubclass(make, msgspec.Struct):
        return make

    fields: list[Any] = []
    for name, parameter in inspect.signature(make, eval_str=True).parameters.items():
        hint = Any if parameter.annotation is parameter.empty else parameter.annotation
        default = [] if parameter.default is parameter.empty else [parameter.default]
        fields.append((name, hint, *default))
    return msgspec.defstruct("Options", fields, bases=(Options,), kw_only=True)


class Option(NamedTuple):
    """An option, as declared.

    Attributes:
        name: Name of the option.
        type: Its type, with annotations.
        default: Its default, or `REQUIRED`.
        help: Its help text, or "".
        words: The allowed words, if it allows only a few; otherwise none.
        limits: The limits of its numbers, such as `>= 0, <= 1`, or "".
    """

    name: str
    type: Any
    default: Any
    help: str
    words: tuple[Any, ...]
    limits: str


REQUIRED = msgspec.NODEFAULT
"""Default of an option that must be given."""


def list_options(make: Callable[..., Any]) -> list[Option]:
    """Return the options of a function or class, a class's own before inherited ones.

    Fields whose name begins with `_` are not options.
    """
    struct = options_of(make)
    fields = {field.name: field for field in msgspec.structs.fields(struct)}
    own_first = dict.fromkeys(
        name for kind in struct.__mro__ for name in inspect.get_annotations(kind)
    )

    options = []
    for name in own_first:
        if name not in fields or name.startswith("_"):
            continue
        field = fields[name]
        has_factory = field.default_factory is not REQUIRED
        default = field.default_factory() if has_factory else field.default
        hint = field.type
        options.append(Option(name, hint, default, _help(hint), _words(hint), _listed_limits(hint)))
    return options


def _help(hint: Any) -> str:
    descriptions = [mark.description for mark in _marks(hint) if mark.description]
    return descriptions[-1] if descriptions else ""


def _marks(hint: Any) -> list[msgspec.Meta]:
    marks = getattr(hint, "__metadata__", ())
    return [mark for mark in marks if isinstance(mark, msgspec.Meta)]


def _listed_limits(hint: Any) -> str:
    return ", ".join(dict.fromkeys(_limits(hint)))


def _limits(hint: Any) -> Iterator[str]:
    for mark in _marks(hint):
        limits = {">=": mark.ge, ">": mark.gt, "<=": mark.le, "<": mark.lt}
        yield from (f"{sign} {limit}" for sign, limit in limits.items() if limit is not None)
    for member in typing.get_args(hint):
        yield from _limits(member)


def _words(hint: Any) -> tuple[Any, ...]:
    """Return the words that a type allows; none if it allows other values too."""
    kinds = [*_members(hint)]
    if not all(map(_is_literal, kinds)):
        return ()
    return tuple(word for kind in kinds for word in typing.get_args(kind))


def _members(hint: Any) -> Iterator[Any]:
    """Yield the members of a union, or the type itself, without annotations."""
    origin = typing.get_origin(hint)
    if origin is Annotated:
        yield from _members(typing.get_args(hint)[0])
    elif origin in (typing.Union, types.UnionType):
        for member in typing.get_args(hint):
            yield from _members(member)
    else:
        yield hint


def from_options(
    make: Callable[..., T],
    options: Mapping[str, Any],
    *,
    where: str,
    also: Collection[str] = (),
) -> T:
    """Call a function or class with options, after checking all names and values at any depth.

    In `{units = "words", budget = {rate = 0.1, overun = "cut"}}`, the error names `overun` in
    `budget`. Errors have the place of a value, but never the value itself.

    Args:
        make: The function or class. Its ValueErrors, and those of nested `__post_init__`, are
            reported as wrong options.
        options: Name -> value, as in TOML. Values may also have their final type already.
        where: Prefix of errors, such as `pipeline 'x', [source]`.
        also: Other names that the table may have, for "did you mean".

    Raises:
        PipelineError: A name is unknown or missing, or a value is wrong.
    """
    struct = options_of(make)
    try:
        made: Any = msgspec.convert(options, struct)
        if struct is not make:
            made = make(**msgspec.structs.asdict(made))
    except msgspec.ValidationError as error:
        raise PipelineError(f"{where}{_explain(str(error), struct, also)}") from None
    except ValueError as error:
        raise PipelineError(f"{where}: {error}") from None
    return typing.cast("T", made)


def _explain(message: str, struct: type[msgspec.Struct], also: Collection[str]) -> str:
    """Return the end of an error message: the place, the problem, and what to do.

    Args:
        message: Message of msgspec, or of a `__post_init__`.
        struct: Type of the whole table.
        also: Other names that the whole table may have.
    """
    # A wrong value, which the message has too, may contain such a place.
    problem, *places = re.split(r" - at `\$([^`]*)`\Z", message)
    place = "".join(places).strip(".")
    table = f", {place}" if place else ""
    option = f" for option '{place}'" if place else ""

    if field := re.fullmatch(r"Object (contains unknown|missing required) field `(.+)`", problem):
        if field[1] == "missing required":
            return f"{table}: expected the option '{field[2]}', got none"
        structs = [*filter(_is_struct, _types_at(struct, place))]
        known = [option.name for kind in structs for option in list_options(kind)]
        near = did_you_mean(field[2], known if place else [*known, *also])
        if field[2] in known:  # of another pick or schedule, which `use` or `shape` would name
            near = f" for this '{structs[0].__struct_config__.tag_field}'"
        return f"{table}: unknown option '{field[2]}'{near}"

    if word := re.fullmatch(r"Invalid (?:enum )?value (.+)", problem, re.DOTALL):
        literals = filter(_is_literal, _types_at(struct, place))
        known = [str(value) for kind in literals for value in typing.get_args(kind)]
        near = did_you_mean(word[1].strip("'"), known)
        return f": invalid value{option}{near}"

    if problem in ("Expected `str`, got `int`", "Expected `str`, got `float`"):
        option += "; text is written in quotes, as in '\"0\"'"
    if problem == "Expected `array`, got `str`":
        option += '; a list of one is written ["..."]'
    return f": {problem[:1].lower()}{problem[1:]}{option}"


def _is_literal(kind: Any) -> bool:
    return typing.get_origin(kind) is Literal


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _types_at(struct: Any, place: str) -> list[Any]:
    """Return the possible types of a value at a place such as `picks[0].budget`."""
    kinds = [struct]
    for step in re.findall(r"\[[^]]*\]|\w+", place):
        if step.startswith("["):  # the values of a list or a mapping
            hints = [hint for kind in kinds for hint in typing.get_args(kind)]
        else:
            hints = [hint for kind in filter(_is_struct, kinds) for hint in _hints(kind, step)]
        kinds = [member for hint in hints for member in _members(hint)]
    return kinds


def _hints(struct: type[msgspec.Struct], name: str) -> list[Any]:
    """Return the type of a field, or of the tag of a struct."""
    if struct.__struct_config__.tag_field == name:
        return [Literal[struct.__struct_config__.tag]]
    return [field.type for field in msgspec.structs.fields(struct) if field.encode_name == name]


def check_names(option: str, names: object) -> None:
    """Check that a list of names is not a single string, which would be a list of letters.

    Raises:
        TypeError: It is a string.
    """
    if isinstance(names, str):
        raise TypeError(f"{option}: expected a list of names, got one; pass ['{names}']")


class Registry:
    """A table of names that pipelines and calls use, with plug-ins."""

    def __init__(self, kind: str, table: Mapping[str, str], *, plugins: str = "") -> None:
        """Create a registry without importing anything.

        Args:
            kind: Noun for the names in messages, such as "strategy".
            table: Name, with its version if any -> "module:attribute".
            plugins: Group of entry points that add names. Default: none.
        """
        self.kind = kind
        self._table = dict(table)
        self._group = plugins

    def names(self) -> list[str]:
        """Return all names that can be used, shipped and of plug-ins, sorted."""
        usable = [name for name, (_, problem) in self.plugins().items() if not problem]
        return sorted([*self._table, *usable])

    def plugins(self) -> dict[str, tuple[Plugin, str]]:
        """Return the name of each plug-in -> it, and why it cannot be used, or ""."""
        checked = {}
        for name, plugin in self._plugins().items():
            problem = ""
            try:
                self._load_plugin(plugin)
            except PipelineError as error:
                problem = str(error)
            checked[name] = plugin, problem
        return checked

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
            PipelineError: The name is unknown, or its plug-in cannot be used.
        """
        full = self.resolve(name)
        if full not in self._table:
            return self._load_plugin(self._plugins()[full])
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
        """Return name -> plug-in."""
        if not self._group:
            return {}
        from mslm_data.plugins import find_plugins

        return find_plugins(self._group)

    def _load_plugin(self, plugin: Plugin) -> Any:
        """Import and return the object of a plug-in.

        Raises:
            PipelineError: Its name is shipped, it cannot be imported, or its options cannot be
                read.
        """
        name = _bare(plugin.entry_point.name)
        if name in map(_bare, self._table):
            raise PipelineError(
                f"{plugin}: the name '{name}' is shipped with mslm-data; rename it, or "
                f"uninstall {plugin.distribution}"
            )

        loaded = plugin.load()
        try:
            options_of(loaded)
        except Exception as error:  # noqa: BLE001 - its annotations are evaluated
            raise PipelineError(
                f"{plugin}: expected parameters with types, got {type(error).__name__} at them"
            ) from None
        return loaded


def _bare(name: str) -> str:
    """Return a name without its version."""
    return re.sub(r"\.v\d+$", "", name)


def _newest(name: str, names: Collection[str]) -> str:
    """Return the name itself or its newest version; "" if neither is known."""
    if name in names:
        return name
    versions = [full for full in names if full != _bare(full) and _bare(full) == name]
    return max(versions, key=lambda full: int(full.rsplit(".v", 1)[1]), default="")
