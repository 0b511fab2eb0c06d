"""Makes the form of a strategy from the type, default and help of its options."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from msgspec import Meta, to_builtins

from mslm_data.errors import MslmDataError
from mslm_data.io.toml import inline
from mslm_data.mask.artefacts import iter_artefacts
from mslm_data.mask.table import STRATEGIES, make
from mslm_data.pipeline import parse_value
from mslm_data.registry import REQUIRED, Option, list_options

_WITHOUT_FORM = frozenset({"picks", "parts"})
"""Options with strategies or picks as values, which need a file."""
_DECIMAL = re.compile(r"\s*(\d*)[.,](\d+)\s*")
"""A decimal number as people type it: `0,3` or `.3`."""


@dataclass(frozen=True, slots=True)
class Field:
    """An input of the form.

    Attributes:
        name: Name of the option.
        kind: `rate`, a slider in `[0, 1]`; `words`, a list of values; or `text`.
        words: Values of the list; empty for other kinds.
        text: Value as text; "" for none.
        default: Default as text.
        help: Help text of the option.
    """

    name: str
    kind: str
    words: tuple[str, ...]
    text: str
    default: str
    help: str

    @property
    def share(self) -> float:
        """Position of the slider; 0 for a rate that changes during training."""
        value = parse_value(self.text)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return min(max(float(value), 0.0), 1.0) if is_number else 0.0


def strategy_names() -> list[str]:
    """Return the names of all strategies with a form, without versions."""
    names = set()
    for name in STRATEGIES.names():
        try:
            options = declared(name)
        except MslmDataError:  # a broken plug-in, which `doctor` lists
            continue
        if not any(option.name in _WITHOUT_FORM for option in options):
            names.add(name.rpartition(".v")[0] or name)
    return sorted(names)


@cache
def files_needed(name: str) -> tuple[str, ...]:
    """Return the lexicons and score columns that a strategy reads by default."""
    try:
        return tuple(iter_artefacts(make(name, {})))
    except MslmDataError:  # a strategy with a required option
        return ()


def declared(name: str) -> list[Option]:
    """Return the options of a registered strategy.

    Raises:
        PipelineError: Unknown strategy.
    """
    return list_options(STRATEGIES.load(name))


def fields(name: str, given: Mapping[str, str]) -> Iterator[Field]:
    """Yield the inputs of a strategy's form.

    Args:
        name: A registered strategy.
        given: Option -> value as text. Other options have their defaults.

    Raises:
        PipelineError: Unknown strategy.
    """
    for option in declared(name):
        default = to_text(option.default)
        kind, words = _kind(option)
        yield Field(option.name, kind, words, given.get(option.name, default), default, option.help)


def clean_options(name: str, given: Mapping[str, str]) -> dict[str, str]:
    """Write rates as TOML does, and remove options at their defaults.

    Options of an unknown strategy are returned as they are.
    """
    try:
        options = {option.name: option for option in declared(name)}
    except MslmDataError:
        return dict(given)

    cleaned = {}
    for option, text in given.items():
        declaration = options.get(option)
        number = _DECIMAL.fullmatch(text)
        if declaration is not None and _kind(declaration)[0] == "rate" and number:
            text = f"{number[1] or 0}.{number[2]}"  # noqa: PLW2901 - the same value
        if declaration is None or parse_value(text) != to_builtins(declaration.default):
            cleaned[option] = text
    return cleaned


def describe_error(name: str, option: str, text: str, error: Exception) -> str:
    """Return the message for a wrong value of an option, to show beside its field.

    Args:
        name: A registered strategy.
        option: Name of the option.
        text: The value.
        error: The error of the strategy.
    """
    kinds = {field.name: field.kind for field in fields(name, {})}
    value = parse_value(text)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # A table is a rate that changes during training, and its error names the part.
    if kinds.get(option) != "rate" or isinstance(value, dict) or (is_number and 0 <= value <= 1):
        return str(error)
    return f"{option}: expected a rate from 0 to 1, such as 0.3, got {text}"


def to_text(value: Any) -> str:
    """Return a value as `--set` takes it: TOML, or a bare string; "" for None."""
    if value is None or value is REQUIRED:
        return ""
    if isinstance(value, str) and parse_value(value) == value:
        return value
    return inline(to_builtins(value))


def _kind(option: Option) -> tuple[str, tuple[str, ...]]:
    """Return the kind of an option's input, and its list of values."""
    if _is_rate(option.type):
        return "rate", ()
    if option.words:
        return "words", tuple(map(to_text, option.words))
    if typing.get_args(option.type)[:1] == (bool,) or option.type is bool:
        return "words", ("true", "false")
    return "text", ()


def _is_rate(hint: Any) -> bool:
    """Return whether a type has numbers of at most 1."""
    marks = getattr(hint, "__metadata__", ())
    has_limit = any(1 in (mark.le, mark.lt) for mark in marks if isinstance(mark, Meta))
    return has_limit or any(map(_is_rate, typing.get_args(hint)))
