"""The state of the page, encoded in its address."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from mslm_data.errors import CallError
from mslm_data.look.filters import known_filters
from mslm_data.look.options import clean_options
from mslm_data.registry import did_you_mean

if TYPE_CHECKING:
    from mslm_data.look.corpus import Corpus

MAX_STRATEGIES = 3
"""Maximum number of strategies side by side."""
ROWS = 50
"""Number of rows on a live page."""

_LARGEST = 2**63 - 1
_PLACES = tuple(f"s{number}" for number in range(1, MAX_STRATEGIES + 1))
_NUMBERS = ("row", "seed", "epoch", "least", "most", "terms")
_TEXTS = ("split", "label", "doc")
_FLAGS = ("seen", "back")
_TITLES = {
    "row": "first row",
    "least": "tokens, at least",
    "most": "tokens, at most",
    "terms": "% in mentions, at least",
}
"""Parameter -> its name on the page, where they differ."""


class FieldError(CallError):
    """A field of the form, or a parameter of the address, has a wrong value.

    Attributes:
        field: Id of the field.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class Choice:
    """A strategy and its options that were set, as text."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> tuple[Any, ...]:
        """The choice as a dictionary key."""
        return self.name, *sorted(self.options.items())

    def without(self, *options: str) -> Choice:
        """Return the choice with some options at their defaults."""
        kept = {name: text for name, text in self.options.items() if name not in options}
        return Choice(self.name, kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """View, strategies and filters of the page.

    Attributes:
        view: Name of the view.
        split: Name of the split.
        row: First row to scan.
        back: Show the last rows before `row` instead. An address of the page has no such parameter.
        strategies: One to three strategies. Views leave out those that cannot be made.
        seed: Seed of the masks.
        epoch: Epoch of the masks.
        seen: Show rows as the model sees them, with masked tokens replaced.
        label: Show rows with a mention of this label. Default: any.
        doc: Show documents with this text in their id. Default: any.
        least: Minimum number of tokens. Default: no limit.
        most: Maximum number of tokens. Default: no limit.
        terms: Minimum share of the document's tokens in mentions, in percent; of mentions of the
            label if one is set. Default: no limit.
        only: Further filters: keys of `FILTERS`.
    """

    view: str = "rows"
    split: str = "train"
    row: int = 0
    back: bool = False
    strategies: tuple[Choice, ...] = (Choice("joint"),)
    seed: int = 0
    epoch: int = 0
    seen: bool = False
    label: str = ""
    doc: str = ""
    least: int | None = None
    most: int | None = None
    terms: int | None = None
    only: tuple[str, ...] = ()

    def change(self, **changes: Any) -> State:
        """Return a copy with some changes."""
        return replace(self, **changes)

    def address(self, **changes: Any) -> str:
        """Return the query of this state's address, with some changes."""
        state = replace(self, **changes)
        pairs: list[tuple[str, object]] = []
        for name, default in (("split", "train"), ("row", 0), ("seed", 0), ("epoch", 0)):
            if getattr(state, name) != default:
                pairs.append((name, getattr(state, name)))

        for place, choice in zip(_PLACES, state.strategies, strict=False):
            pairs.append((place, choice.name))
            pairs += [(f"{place}.{name}", value) for name, value in choice.options.items()]

        for name in ("label", "doc", "least", "most", "terms"):
            if getattr(state, name) not in ("", None):
                pairs.append((name, getattr(state, name)))
        pairs += [("only", name) for name in state.only]
        pairs += [(name, 1) for name in _FLAGS if getattr(state, name)]
        return urlencode(pairs)


def read_state(
    corpus: Corpus, pairs: Iterable[tuple[str, str]], *, view: str, start: State
) -> State:
    """Read the state from the query of an address or a form.

    Args:
        corpus: The folder, whose splits, labels and filters are known.
        pairs: Names and values. Empty values, as of a form's empty fields, are ignored.
        view: Name of the view.
        start: Default values.

    Raises:
        FieldError: A parameter or its value is unknown, or a number is out of range. Strategies and
            their options are not checked.
    """
    given: dict[str, Any] = {"view": view}
    only: list[str] = []
    choices: dict[str, str] = {}
    for name, value in pairs:
        if value == "":
            continue
        if name in _NUMBERS:
            given[name] = _number(name, value)
        elif name in _TEXTS:
            given[name] = value
        elif name == "only":
            only.append(value)
        elif name in _FLAGS:
            given[name] = True
        elif re.match(r"s[0-9]+(\.|$)", name):
            choices[name] = value
        else:
            parameters = (*_NUMBERS, *_TEXTS, "only", "seen", *_PLACES)
            raise FieldError(name, f"unknown parameter '{name}'{did_you_mean(name, parameters)}")

    strategies = _read_choices(corpus, choices) or start.strategies
    state = replace(start, **given, strategies=strategies, only=tuple(only))
    _check(corpus, state)
    return state


def _read_choices(corpus: Corpus, given: Mapping[str, str]) -> tuple[Choice, ...]:
    """Read the strategies and their options, without those at their defaults.

    Raises:
        FieldError: There are too many strategies, or options without one.
    """
    options: dict[str, dict[str, str]] = {place: {} for place in _PLACES if place in given}
    for name, value in given.items():
        place, _, option = name.partition(".")
        if place not in _PLACES:
            places = f"{_PLACES[0]} to {_PLACES[-1]}"
            raise FieldError(
                name, f"{name}: expected at most {MAX_STRATEGIES} strategies, {places}"
            )
        if place not in options:
            raise FieldError(name, f"{name}: expected a strategy '{place}' beside it, got none")
        if option:
            options[place][option] = value
    return tuple(
        # Strategies of the command have no form, and their options stay as they are.
        Choice(
            given[place], own if given[place] in corpus.added else clean_options(given[place], own)
        )
        for place, own in options.items()
    )


def _check(corpus: Corpus, state: State) -> None:
    """Check that a state has only values that the folder has.

    Raises:
        FieldError: A value is unknown, or the first row is behind the last one.
    """
    shards = corpus.shards
    known: list[tuple[str, str, Collection[str]]] = [("split", state.split, shards.splits)]
    known += [("label", state.label, shards.labels)] if state.label else []
    known += [("only", name, known_filters(corpus)) for name in state.only]
    for name, value, values in known:
        if value not in values:
            raise FieldError(name, f"{name}: no '{value}'{did_you_mean(value, values)}")

    last = max(len(shards[state.split]) - 1, 0)
    if state.row > last:
        message = f"first row: expected at most {last}, the last of {state.split}, got {state.row}"
        raise FieldError("row", message)


def _number(name: str, value: str) -> int:
    """Parse a whole number of 0 or more.

    Raises:
        FieldError: Not such a number, or too large.
    """
    number = int(value) if value.isascii() and value.isdecimal() and len(value) < 20 else -1
    if not 0 <= number <= _LARGEST:
        raise FieldError(name, f"{_TITLES.get(name, name)}: expected a whole number of 0 or more")
    return number
