"""Tables of names, and options that are checked at every depth, both with "did you mean".

A `Registry` is a literal dict of `name -> "module:attribute"`, imported on use, and beside it the
plug-ins of installed packages. A name may carry a version (`joint.v1`); the bare name means the
newest of its versions.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import inspect
import re
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Literal, TypeVar

import msgspec

from mslm_data.errors import PipelineError

if typing.TYPE_CHECKING:
    from mslm_data.plugins import Plugin

T = TypeVar("T")

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
    wanted = _types_of(make)
    _refuse_unknown(options, [*wanted, *also], wanted, where=where)

    values: dict[str, Any] = {}
    for name, value in options.items():
        _check(value, wanted[name], where=where, place=name)
        values[name] = _converted(value, wanted[name], where=where, place=name)

    missing = [name for name in _required(make) if name not in values]
    if missing:
        raise PipelineError(f"{where}: expected the option '{missing[0]}', got none")

    try:
        return make(**values)
    except ValueError as error:
        raise PipelineError(f"{where}: {error}") from None


def _types_of(make: Callable[..., Any]) -> dict[str, Any]:
    """Return the type of each option, in the order in which they are declared.

    A field of a dataclass whose metadata say `option=False` is for the program alone.
    """
    is_plain_class = isinstance(make, type) and not dataclasses.is_dataclass(make)
    declares = make.__init__ if is_plain_class else make
    hints = typing.get_type_hints(declares, include_extras=True)
    if dataclasses.is_dataclass(make):
        fields = [field for field in dataclasses.fields(make) if field.init]
        given = [field.name for field in fields if field.metadata.get("option", True)]
        return {name: hints[name] for name in given}
    return {name: hints.get(name, Any) for name in inspect.signature(make).parameters}


def _required(make: Callable[..., Any]) -> Iterator[str]:
    """Yield the options without a default."""
    for name, parameter in inspect.signature(make).parameters.items():
        if parameter.default is inspect.Parameter.empty:
            yield name


def _refuse_unknown(
    options: Mapping[str, Any], listed: Collection[str], known: Collection[str], *, where: str
) -> None:
    """Raise if a table has an unknown name; the error suggests one of the listed names."""
    for name in options:
        if name not in known:
            raise PipelineError(f"{where}: unknown option '{name}'{did_you_mean(name, listed)}")


def _check(value: Any, wanted: Any, *, where: str, place: str) -> None:
    """Refuse unknown names in the tables of a value, and words that are not among the wanted ones.

    msgspec checks all else, but ignores unknown fields of dataclasses and does not say which words
    it knows.

    Args:
        value: As TOML has it.
        wanted: The type that it is to have.
        where: What an error names first.
        place: The path to the value, such as `stages[0].budget`.
    """
    options = _alternatives(wanted)
    if isinstance(value, Mapping):
        for option in options:
            _check_table(value, option, where=where, place=place)
    elif isinstance(value, list | tuple):
        for option in options:
            _check_list(value, option, where=where, place=place)
    elif isinstance(value, str):
        _check_word(value, options, where=where, place=place)


def _check_table(table: Mapping[str, Any], option: Any, *, where: str, place: str) -> None:
    """Check the names and values of a table that is to become a dataclass or a mapping."""
    if dataclasses.is_dataclass(option):
        fields = _types_of(option)  # type: ignore[arg-type]
        _refuse_unknown(table, fields, fields, where=f"{where}, {place}")
    elif _is_of(option, Mapping):
        of_items = typing.get_args(option)[1:] or (Any,)
        fields = dict.fromkeys(table, of_items[0])
    else:
        return
    for name, item in table.items():
        _check(item, fields[name], where=where, place=f"{place}.{name}")


def _check_list(values: Collection[Any], option: Any, *, where: str, place: str) -> None:
    """Check the items of a list."""
    if _is_of(option, Collection) and not _is_of(option, Mapping):
        for number, (item, of_item) in enumerate(_items(values, option)):
            _check(item, of_item, where=where, place=f"{place}[{number}]")


def _check_word(value: str, options: Collection[Any], *, where: str, place: str) -> None:
    """Refuse a text that is not one of the words wanted, unless any text is."""
    if any(option in (str, Any) for option in options):
        return
    words = [
        word
        for option in options
        if typing.get_origin(option) is Literal
        for word in typing.get_args(option)
        if isinstance(word, str)
    ]
    if words and value not in words:
        raise PipelineError(
            f"{where}: expected one of {', '.join(words)} for option '{place}', got '{value}'"
        )


def _alternatives(wanted: Any) -> list[Any]:
    """Return the types that a type allows: the members of a union, or only itself."""
    origin = typing.get_origin(wanted)
    if origin is typing.Annotated:
        return _alternatives(wanted.__origin__)
    if origin in (typing.Union, types.UnionType):
        return [option for member in typing.get_args(wanted) for option in _alternatives(member)]
    return [wanted]


def _is_of(option: Any, kind: type) -> bool:
    """Return whether a type, with or without arguments, is a kind of collection."""
    base = typing.get_origin(option) or option
    return isinstance(base, type) and base is not str and issubclass(base, kind)


def _items(values: Collection[Any], option: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each item of a list with the type that the item is to have."""
    arguments = typing.get_args(option) or (Any,)
    fixed = _is_of(option, tuple) and arguments[-1] is not Ellipsis
    for number, value in enumerate(values):
        if not fixed:
            yield value, arguments[0]
        elif number < len(arguments):
            yield value, arguments[number]


def _converted(value: Any, wanted: Any, *, where: str, place: str) -> Any:
    """Return a value as the type that it is to have."""
    try:
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        raise PipelineError(f"{where}: {_in_words(message, place + path.rstrip('`'))}") from None


_OTHER_KIND = re.compile(r"Expected `(.+)`(.*), got `(.+)`")
_WITHOUT = re.compile(r"Object missing required field `(.+)`")
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


def _in_words(message: str, place: str) -> str:
    """Return what msgspec, or a type's own check, says of an option, without msgspec's words."""
    kinds = _OTHER_KIND.fullmatch(message)
    if kinds:
        wanted, limit, came = kinds.groups()
        # That an option may also be left out does not help whoever set it.
        names = [_KINDS.get(name, name) for name in wanted.split(" | ") if name != "null"]
        expected = f"{' or '.join(names)}{limit}"
        hint = '; a list of one is written ["..."]' if (wanted, came) == ("array", "str") else ""
        return f"expected {expected} for option '{place}', got {_KINDS.get(came, came)}{hint}"

    lacks = _WITHOUT.fullmatch(message)
    if lacks:
        return f"expected '{lacks[1]}' in the table of option '{place}', got none"
    return f"{message[:1].lower()}{message[1:]} for option '{place}'"


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
