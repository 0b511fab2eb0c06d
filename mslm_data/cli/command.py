r"""Makes commands from options: a command is a function from an options struct to a result.

    class Verify(Options, frozen=True, kw_only=True):
        folder: AnyFolder
        depth: Annotated[Positive, option("Number of levels to check.", metavar="N")] = 1


    @make_command("verify", Verify)
    def command(options: Verify) -> Verified:
        r'''Check a built folder.

        \b
        Example:
            mslm-data verify shards/ncbi
        '''
        from mslm_data.builds.verify import verify  # heavy imports are late

        return Verified(...)

The fields are the options: `num_rows: int` is `--num-rows`, checked by msgspec as in TOML. Types
that several commands share are in `cli.options`. How a type is written in the shell:

* `bool`: `--name`; with the default True or None, also `--no-name`.
* `Literal`: one of its words.
* `tuple[T, ...]`: the option is repeated; with a `separator`, one value holds all items.
* `Annotated[…, argument("DIR")]`: a value by its place, without a name.
* Paths and others that need own checks name a type of click: `option("…", type=FileOrFolder())`.

Options that contradict each other raise `CallError`, in `__post_init__` or in the function.

The result (`mslm_data.results.Result`) is a dataclass. `--json`, which each command has, prints its
`to_json()`; otherwise its `tables()` are printed. Its `exit_code` is that of the command. Warnings
are printed by `echo(…, err=True)`, before the result. The name of the module is in `cli.COMMANDS`.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Annotated, Any, Literal, TypeVar

import click
import msgspec
from msgspec import Meta

from mslm_data.cli.output import report
from mslm_data.registry import REQUIRED, Option, list_options
from mslm_data.results import Result

OptionsT = TypeVar("OptionsT", bound=msgspec.Struct)

_NOUNS = {"`int`": "an integer", "`float`": "a number", "`str`": "text", "`array`": "a list"}
"""Type in a message of msgspec -> words for the command line."""


def option(
    text: str,
    *,
    metavar: str | None = None,
    type: click.ParamType[Any] | None = None,
    separator: str = "",
    flags: str = "",
    default: str = "",
) -> Meta:
    """Describe a field that is an option.

    Args:
        text: Its help text.
        metavar: Placeholder of its value in the help. Default: the name of its type.
        type: Type of click that converts its value. Default: msgspec checks it.
        separator: Text between the items of a tuple, such as ",". Default: the option is repeated.
        flags: Its names, as click writes them. Default: made of the field's name.
        default: Words for its default in the help, if the field's default is none.
    """
    extra = {
        "metavar": metavar,
        "type": type,
        "separator": separator,
        "flags": flags,
        "default": default,
    }
    return Meta(description=text, extra=extra)


def argument(metavar: str, *, type: click.ParamType[Any] | None = None) -> Meta:
    """Describe a field that is given by its place: `metavar` names it in the help."""
    return Meta(extra={"metavar": metavar, "type": type, "is_argument": True})


def make_command(
    name: str, options: type[OptionsT], *, has_json: bool = True
) -> Callable[[Callable[[OptionsT], Result]], click.Command]:
    """Make a command of a function from options to a result; see the module.

    Args:
        name: Name of the command.
        options: Type of the options.
        has_json: Whether the command has `--json`. Default: True.
    """
    parameters = [_parameter(declared) for declared in list_options(options)]
    if has_json:
        text = "Print one JSON object instead of text."
        parameters.append(click.Option(["--json", "as_json"], is_flag=True, help=text))

    def decorate(run: Callable[[OptionsT], Result]) -> click.Command:
        def call(as_json: bool = False, **values: Any) -> int:
            result = run(options(**values))
            report(result, as_json=as_json)
            return result.exit_code

        # `\b` keeps the lines of a paragraph. As written in a docstring, it is two characters.
        text = inspect.cleandoc(run.__doc__ or "").replace("\\b\n", "\b\n")
        return click.Command(name, callback=call, params=parameters, help=text)

    return decorate


def _parameter(declared: Option) -> click.Parameter:
    """Return the parameter of click for an option."""
    parts = [*_parts(declared.type)]
    settings = _settings(declared.type)
    separator = settings.get("separator", "")
    several = [part for part in parts if typing.get_origin(part) in (tuple, frozenset)]
    items = [typing.get_args(part)[0] for part in several]
    is_repeated = bool(items) and not separator

    # `declared.words` are those of a Literal.
    kind = settings.get("type")
    if kind is None:
        hint = items[0] if is_repeated else declared.type
        kind = click.Choice(declared.words) if declared.words else _Value(hint, separator)
    if settings.get("is_argument"):
        return click.Argument(
            [declared.name],
            type=kind,
            metavar=settings["metavar"],
            nargs=-1 if is_repeated else 1,
            required=declared.default is REQUIRED,
        )

    flag = "--" + declared.name.replace("_", "-")
    if bool in parts:
        both = flag if declared.default is False else f"{flag}/--no-{flag[2:]}"
        names = settings.get("flags") or both
        return click.Option(
            [names, declared.name], is_flag=True, default=declared.default, help=declared.help
        )
    # To click, an option with the default None is not missing.
    is_required = declared.default is REQUIRED
    needed: dict[str, Any] = {"required": True} if is_required else {"default": declared.default}
    return click.Option(
        [settings.get("flags") or flag, declared.name],
        type=kind,
        metavar=settings.get("metavar"),
        multiple=is_repeated,
        help=declared.help + _bracket(declared),
        **needed,
    )


def _bracket(declared: Option) -> str:
    """Return the default and the limits of an option, for the end of its help text."""
    notes = []
    words = _settings(declared.type).get("default")
    if words:
        notes.append(f"default: {words}")
    elif declared.default not in (REQUIRED, None, (), ""):
        default = declared.default
        shown = ", ".join(map(str, default)) if isinstance(default, tuple) else str(default)
        notes.append(f"default: {shown}")
    if declared.limits:
        notes.append(declared.limits)
    return f"  [{'; '.join(notes)}]" if notes else ""


class _Value(click.ParamType[Any]):
    """A value of the command line, checked by msgspec."""

    def __init__(self, hint: Any, separator: str) -> None:
        """Keep the type of a value, and the text between the items of one that is a tuple."""
        parts = [*_parts(hint)]
        self._hint = hint
        self._separator = separator
        self._number = next((kind for kind in (int, float) if kind in parts), None)
        self.name = "text" if self._number is None else self._number.__name__

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value, or fail with its limits."""
        if not isinstance(value, str):  # a default
            return value

        given: Any = self._parse(value)
        if self._separator:
            given = [self._parse(item.strip()) for item in value.split(self._separator)]
        try:
            return msgspec.convert(given, self._hint)
        except msgspec.ValidationError as error:
            self.fail(f"{_in_words(str(error))}, got '{value}'", param, ctx)

    def _parse(self, text: str) -> Any:
        """Return a number if one is expected and the text is one, otherwise the text."""
        if self._number is not None:
            with suppress(ValueError):
                return self._number(text)
        return text


def _settings(hint: Any) -> dict[str, Any]:
    """Return what `option` and `argument` say of a field."""
    settings: dict[str, Any] = {}
    for mark in getattr(hint, "__metadata__", ()):
        settings |= mark.extra or {}
    return settings


def _parts(hint: Any) -> Iterator[Any]:
    """Yield a type and all types within it, without annotations."""
    origin = typing.get_origin(hint)
    if origin is Annotated:
        yield from _parts(typing.get_args(hint)[0])
        return

    yield hint
    if origin is not Literal:
        for part in typing.get_args(hint):
            yield from _parts(part)


def _in_words(problem: str) -> str:
    """Return ``Expected `int | null`, got `str` `` as `expected an integer`."""
    words = problem.partition(" - at `")[0].partition(", got")[0].replace(" | null", "")
    for kind, noun in _NOUNS.items():
        words = words.replace(kind, noun)
    return f"{words[:1].lower()}{words[1:]}"
