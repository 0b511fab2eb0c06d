"""The form of a strategy, made from what its options declare: type, default and help."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mslm_data.mask.table import STRATEGIES
from mslm_data.mask.toml import inline, plain
from mslm_data.pipeline import parse_value
from mslm_data.registry import REQUIRED, Option, declared_options

_WITHOUT_FORM = frozenset({"picks", "parts"})
"""Options that are strategies or picks themselves; a file says them."""


@dataclass(frozen=True, slots=True)
class Field:
    """An input of the form.

    Attributes:
        name: The option.
        kind: `rate` for a slider in `[0, 1]`, `words` for one of a few values, or `text`.
        words: The values to choose from; empty for other kinds.
        text: Its value as text; "" for none.
        default: Its default as text.
        help: What it does.
    """

    name: str
    kind: str
    words: tuple[str, ...]
    text: str
    default: str
    help: str

    @property
    def share(self) -> float:
        """The value of a slider; 0 for a rate that changes."""
        value = parse_value(self.text)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return min(max(float(value), 0.0), 1.0) if is_number else 0.0


def strategy_names() -> list[str]:
    """Return the names of all strategies that a form can make, without versions."""
    return sorted(
        name.rpartition(".v")[0] or name
        for name in STRATEGIES.names()
        if not any(option.name in _WITHOUT_FORM for option in declared(name))
    )


def declared(name: str) -> list[Option]:
    """Return the options of a registered strategy.

    Raises:
        PipelineError: The name is unknown.
    """
    options = declared_options(STRATEGIES.load(name))
    return [option for option in options if option.name != "origin"]


def fields(name: str, given: Mapping[str, str]) -> Iterator[Field]:
    """Yield the inputs of a strategy's form.

    Args:
        name: A registered strategy.
        given: Option -> its value as text, for those that are not at their default.

    Raises:
        PipelineError: The name is unknown.
    """
    for option in declared(name):
        default = text_of(option.default)
        kind, words = _kind(option)
        yield Field(option.name, kind, words, given.get(option.name, default), default, option.help)


def drop_defaults(name: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a strategy that are not at their default.

    Raises:
        PipelineError: The name is unknown.
    """
    defaults = {option.name: plain(option.default) for option in declared(name)}
    return {
        option: text
        for option, text in given.items()
        if option not in defaults or parse_value(text) != defaults[option]
    }


def text_of(value: Any) -> str:
    """Return a value as `--set` takes it: TOML, or a bare text; "" for nothing."""
    if value is None or value is REQUIRED:
        return ""
    if isinstance(value, str) and parse_value(value) == value:
        return value
    return inline(plain(value))


def _kind(option: Option) -> tuple[str, tuple[str, ...]]:
    """Return the kind of an option's input, and the values to choose from."""
    marks = getattr(option.type, "__metadata__", ())
    if "rate" in marks or "share" in marks:
        return "rate", ()
    if option.words:
        return "words", tuple(map(text_of, option.words))
    if typing.get_args(option.type)[:1] == (bool,) or option.type is bool:
        return "words", ("true", "false")
    return "text", ()
