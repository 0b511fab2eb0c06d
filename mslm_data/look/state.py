"""The state of the page, which an address holds whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from mslm_data.errors import CallError
from mslm_data.registry import did_you_mean

MOST_STRATEGIES = 3
"""Maximum number of strategies side by side."""
ROWS = 50
"""Rows that the live page shows at a time."""
ONLY = {
    "no-mention": "rows without a mention",
    "no-mask": "rows without a mask",
    "under-budget": "rows under budget",
    "differ": "rows in which the strategies differ",
    "unseen": "rows with a mention never seen in training text",
}
"""Filter -> its label in the form. Context flags of mentions are filters too."""
GOLD_FILTERS = {
    "found": "rows with a gold mention that was found",
    "missed": "rows with a gold mention that was missed",
    "wrong": "rows with a mention that gold lacks",
}
"""Filter on the comparison with a gold folder -> its label in the form."""
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Choice:
    """A strategy and the options that were set, as text, as a form or a command has them."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> tuple[Any, ...]:
        """The same, as a key of a dictionary."""
        return self.name, *sorted(self.options.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What the page shows.

    Attributes:
        view: Name of the view.
        split: Name of the split.
        row: The first row that is looked at.
        strategies: One to three.
        seed: Of the masks.
        epoch: Of the masks.
        label: Rows with a mention of this label; "" for any.
        doc: Rows of documents whose id holds this; "" for any.
        least: Minimum number of tokens; None for any.
        most: Maximum number of tokens; None for any.
        only: Further filters, keys of `ONLY` or flags of a context.
        extra: Parameters of a view's own, by names that begin with the view's and a dot.
    """

    view: str = "rows"
    split: str = "train"
    row: int = 0
    strategies: tuple[Choice, ...] = (Choice("joint"),)
    seed: int = 0
    epoch: int = 0
    label: str = ""
    doc: str = ""
    least: int | None = None
    most: int | None = None
    only: tuple[str, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)

    def change(self, **changes: Any) -> State:
        """Return the state with some changes."""
        return replace(self, **changes)

    def address(self, **changes: Any) -> str:
        """Return the query of an address that restores this state, with some changes."""
        state = replace(self, **changes)
        pairs: list[tuple[str, object]] = []
        for name, default in (("split", "train"), ("row", 0), ("seed", 0), ("epoch", 0)):
            if getattr(state, name) != default:
                pairs.append((name, getattr(state, name)))

        for number, choice in enumerate(state.strategies, 1):
            pairs.append((f"s{number}", choice.name))
            pairs += [(f"s{number}.{name}", value) for name, value in choice.options.items()]

        for name in ("label", "doc", "least", "most"):
            if getattr(state, name) not in ("", None):
                pairs.append((name, getattr(state, name)))
        pairs += [("only", name) for name in state.only]
        pairs += state.extra.items()
        return urlencode(pairs)


def read_state(
    pairs: Iterable[tuple[str, str]], *, view: str, splits: Sequence[str], start: State
) -> State:
    """Return the state that the pairs of an address or a form name; what is not named is `start`'s.

    Args:
        pairs: Names and values, as a query has them. Empty values are ignored.
        view: Name of the view.
        splits: Names of the folder's splits.
        start: The state of an address without a query.

    Raises:
        CallError: A split that the folder does not have, or a number out of range.
    """
    given: dict[str, Any] = {"view": view}
    names: dict[str, str] = {}
    options: dict[str, dict[str, str]] = {}
    only: list[str] = []
    extra: dict[str, str] = {}
    for name, value in pairs:
        whose, dot, option = name.partition(".")
        if value == "":
            continue
        if name in ("row", "seed", "epoch", "least", "most"):
            given[name] = _number(name, value)
        elif name in ("split", "label", "doc"):
            given[name] = value
        elif name == "only":
            only.append(value)
        elif name in _CHOICES:
            names[name] = value
        elif dot and whose in _CHOICES:
            options.setdefault(whose, {})[option] = value
        elif dot:
            extra[name] = value

    if "split" in given and given["split"] not in splits:
        raise CallError(f"split: no '{given['split']}'{did_you_mean(given['split'], splits)}")
    if names:
        given["strategies"] = tuple(
            Choice(names[place], options.get(place, {})) for place in _CHOICES if place in names
        )
    return replace(start, **given, only=tuple(only), extra=extra)


_CHOICES = tuple(f"s{number}" for number in range(1, MOST_STRATEGIES + 1))


def _number(name: str, value: str) -> int:
    """Return a whole number of 0 or more.

    Raises:
        CallError: Something else.
    """
    number = int(value) if value.isascii() and value.isdecimal() and len(value) < 20 else -1
    if not 0 <= number <= _LARGEST:
        raise CallError(f"{name}: expected a whole number of 0 or more")
    return number
