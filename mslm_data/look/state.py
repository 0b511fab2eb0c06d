"""The state of the page, encoded in its address."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from mslm_data.errors import CallError
from mslm_data.registry import did_you_mean

MAX_STRATEGIES = 3
"""Maximum number of strategies side by side."""
ROWS = 50
"""Number of rows on a live page."""
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


_TITLES = {"row": "first row", "least": "tokens, at least", "most": "tokens, at most"}
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


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """View, strategies and filters of the page.

    Attributes:
        view: Name of the view.
        split: Name of the split.
        row: First row to scan.
        strategies: One to three strategies; fewer if some are `unusable`.
        unusable: Place, counted from 1 -> a strategy that cannot be made, such as one without its
            lexicon. The form and the address keep it, views do not show it.
        seed: Seed of the masks.
        epoch: Epoch of the masks.
        label: Show rows with a mention of this label. Default: any.
        doc: Show documents with this text in their id. Default: any.
        least: Minimum number of tokens. Default: no limit.
        most: Maximum number of tokens. Default: no limit.
        only: Further filters: keys of `ONLY` and `GOLD_FILTERS`, and context flags.
        extra: Parameters of single views, named `view.parameter`.
    """

    view: str = "rows"
    split: str = "train"
    row: int = 0
    strategies: tuple[Choice, ...] = (Choice("joint"),)
    unusable: Mapping[int, Choice] = field(default_factory=dict)
    seed: int = 0
    epoch: int = 0
    label: str = ""
    doc: str = ""
    least: int | None = None
    most: int | None = None
    only: tuple[str, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def choices(self) -> list[Choice]:
        """All chosen strategies by place, usable or not."""
        usable = iter(self.strategies)
        places = range(1, len(self.strategies) + len(self.unusable) + 1)
        return [self.unusable.get(place) or next(usable) for place in places]

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

        for number, choice in enumerate(state.choices, 1):
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
    """Read the state from the query of an address or a form.

    Args:
        pairs: Names and values. Empty values are ignored.
        view: Name of the view.
        splits: Names of the folder's splits.
        start: Default values.

    Raises:
        CallError: An unknown split, a number out of range, or too many strategies.
    """
    given: dict[str, Any] = {"view": view}
    names: dict[str, str] = {}
    options: dict[str, dict[str, str]] = {}
    only: list[str] = []
    extra: dict[str, str] = {}
    for name, value in pairs:
        whose, dot, option = name.partition(".")
        # Forms send empty fields too; they mean the default.
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
        elif re.fullmatch(r"s[0-9]+", whose):
            raise CallError(f"{name}: expected at most {MAX_STRATEGIES} strategies, {_PLACES}")
        elif dot:
            extra[name] = value

    if "split" in given and given["split"] not in splits:
        raise FieldError(
            "split", f"split: no '{given['split']}'{did_you_mean(given['split'], splits)}"
        )
    if names:
        given["strategies"] = tuple(
            Choice(names[place], options.get(place, {})) for place in _CHOICES if place in names
        )
    return replace(start, **given, only=tuple(only), extra=extra)


_CHOICES = tuple(f"s{number}" for number in range(1, MAX_STRATEGIES + 1))
_PLACES = f"{_CHOICES[0]} to {_CHOICES[-1]}"


def _number(name: str, value: str) -> int:
    """Parse a whole number of 0 or more.

    Raises:
        FieldError: Not such a number, or too large.
    """
    number = int(value) if value.isascii() and value.isdecimal() and len(value) < 20 else -1
    if not 0 <= number <= _LARGEST:
        raise FieldError(name, f"{_TITLES.get(name, name)}: expected a whole number of 0 or more")
    return number
