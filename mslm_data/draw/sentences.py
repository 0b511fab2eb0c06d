"""Draws rows with their mentions and masks as HTML."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import tokenizers

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, Ragged
from mslm_data.draw.parts import text

EPOCHS = 100
"""The shade of a token says in how many of these epochs it is hidden."""

_LOOKED_AT = 256
"""In so many rows a row to show is looked for."""

_USUAL = (6, 60)
"""Fewest and most tokens of a row of usual length."""


_NARROW = "\u202f"
"""A narrow space at which no line is broken."""
_BASE, _ENTITY = 1, 2
"""Kinds of masks, as `MaskKind` numbers them; 0 is a token that is not hidden."""
_MARKS = ("", ' class="b" title="BLM"', ' class="e" title="ELM"')
"""The attributes of a token of each kind."""

HIDDEN = (
    '<div class="key"><span><mark class="e">hidden as a term (ELM)</mark></span> '
    '<span><mark class="b">hidden as another word (BLM)</mark></span> '
    '<span><u class="m">mention</u></span></div>'
)
"""Legend of rows with what is hidden in one epoch."""
OFTEN = '<div class="key"><span>never <span class="ramp"></span> in every epoch</span></div>'
"""Legend of rows whose tokens are shaded."""


class DrawnRows(Protocol):
    """Rows of a split or a mix, as far as choosing and drawing some needs them."""

    def __len__(self) -> int: ...

    def take(self, rows: npt.NDArray[np.int64]) -> Examples:
        """Return rows by their numbers."""
        ...

    def epoch_rows(
        self, rows: npt.NDArray[np.int64], *, seed: int, epoch: int
    ) -> npt.NDArray[np.int64]:
        """Return the numbers of rows in an epoch."""
        ...


class PlannedKinds(Protocol):
    """The kind of each token, as a strategy plans it."""

    @property
    def kinds(self) -> Ragged:
        """Return the kinds."""
        ...


class Planner(Protocol):
    """A strategy, as far as drawing needs it."""

    def plan(self, examples: Examples, *, seed: int, epoch: int) -> Any:
        """Return a plan, as `PlannedKinds`."""
        ...


def choose_rows(split: DrawnRows, count: int, *, seed: int = 0) -> npt.NDArray[np.int64]:
    """Return the numbers of rows to show, sorted and spread over the split or the mix's epoch 0.

    Each is the first row of its part of the split that has a mention and is of usual length, or the
    part's very first if there is none.

    Args:
        split: The rows.
        count: How many; fewer if the split has fewer.
        seed: As in training; it says which rows an epoch of a mix has.
    """
    count = min(count, len(split))
    starts = [len(split) * k // count for k in range(count + 1)] if count else []

    chosen = []
    for start, stop in itertools.pairwise(starts):
        looked_at = np.arange(start, min(stop, start + _LOOKED_AT))
        examples = split.take(split.epoch_rows(looked_at, seed=seed, epoch=0))
        lengths = examples.input_ids.lengths
        usual = (lengths >= _USUAL[0]) & (lengths <= _USUAL[1])
        good = (examples.span_starts.lengths > 0) & usual
        chosen.append(start + int(np.argmax(good)))

    return np.array(chosen, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Sentences:
    """Rows to draw, and what is needed to draw them.

    Attributes:
        rows: The numbers of the rows in their split.
        examples: The rows.
        tokenizer: The tokenizer of their folder.
        labels: The names that `span_labels` index.
    """

    rows: Sequence[int]
    examples: Examples
    tokenizer: tokenizers.Tokenizer
    labels: Sequence[str]

    def heat(self, strategy: Planner, *, seed: int) -> str:
        """Return the rows, each token shaded by how many of `EPOCHS` epochs hide it."""
        times = np.zeros((3, len(self.examples.input_ids.values)), np.int64)
        for epoch in range(EPOCHS):
            kinds = strategy.plan(self.examples, seed=seed, epoch=epoch).kinds.values
            times[_ENTITY] += kinds == _ENTITY
            times[_BASE] += kinds == _BASE
        offsets = self.examples.input_ids.offsets

        def attributes(row: int, token: int) -> str:
            place = offsets[row] + token
            elm = times[_ENTITY, place]
            blm = times[_BASE, place]
            share = (elm + blm) / EPOCHS
            tip = f"hidden in {share:.0%}: as ELM {elm}, as BLM {blm}"
            return f' style="--f:{share:.2f}" title="{tip}"'

        return self.shaded(attributes)

    def shaded(self, attributes: Callable[[int, int], str]) -> str:
        """Return the rows, with attributes of the caller's on each token.

        Args:
            attributes: Called with a row's place among these rows and a token's place in the row;
                returns HTML attributes, escaped already, or "" for none.
        """
        drawn = []
        for row in range(len(self.rows)):
            line = self._line(row, functools.partial(_shade, attributes, row), "span")
            drawn.append(f'<div class="row">{line}</div>')
        return "".join(drawn)

    def side_by_side(self, strategies: Mapping[str, Planner], *, seed: int, epoch: int = 0) -> str:
        """Return each row once for each strategy, with the tokens that an epoch hides."""
        plans = {
            name: strategy.plan(self.examples, seed=seed, epoch=epoch).kinds
            for name, strategy in strategies.items()
        }
        return self.hidden(plans)

    def hidden(self, kinds: Mapping[str, Ragged]) -> str:
        """Return each row once for each plan.

        Args:
            kinds: Name of a plan -> the kinds of its tokens.
        """
        drawn = []
        for row in range(len(self.rows)):
            lines = [
                f"<b>{text(name)}</b>" + self._line(row, _by_kind(of_plan[row]), "mark")
                for name, of_plan in kinds.items()
            ]
            drawn.append(f'<div class="row ways">{"".join(lines)}</div>')
        return "".join(drawn)

    def mentions(self) -> str:
        """Return the rows with their mentions, nothing hidden."""
        return self.shaded(lambda *_: "")

    def _line(self, row: int, attributes: Callable[[int], str], element: str) -> str:
        """Return one row: a space before each word, mentions underlined, specials left out.

        Args:
            row: Its place among these rows.
            attributes: Called with a token's place in the row; returns HTML attributes, or "" for
                a token that needs no element of its own.
            element: The name of that element.
        """
        examples = self.examples
        ids = examples.input_ids[row].tolist()
        words = examples.word_ids[row].tolist()
        spans = zip(
            examples.span_starts[row],
            examples.span_ends[row],
            examples.span_labels[row],
            strict=True,
        )
        mentions = {int(start): (int(end), self.labels[label]) for start, end, label in spans}

        stop, label = -1, ""
        out: list[str] = []
        for t, (id_, word) in enumerate(zip(ids, words, strict=True)):
            if word < 0:
                continue

            if out and word != words[t - 1]:
                out.append(" ")
            if t in mentions:
                stop, label = mentions[t]
                out.append('<u class="m">')

            given = attributes(t)
            piece = text(self._readable(id_))
            out.append(f"<{element}{given}>{piece}</{element}>" if given else piece)

            # No line ends between a mention and its label.
            if t + 1 == stop:
                out.append(f'</u>{_NARROW}<small class="l">{text(label)}</small>')

        return f'<p class="s" dir="auto">{"".join(out)}</p>'

    def _readable(self, token: int) -> str:
        """Return a piece without the marks of its tokenizer, bytes as characters."""
        decoded: str = self.tokenizer.decode([token], skip_special_tokens=False)
        piece = decoded.strip().removeprefix("##")
        return piece or str(self.tokenizer.id_to_token(token))


def _shade(attributes: Callable[[int, int], str], row: int, token: int) -> str:
    """Return the attributes of a token that is shaded; "" for one that is not."""
    given = attributes(row, token)
    return f' class="t"{given}' if given else ""


def _by_kind(kinds: Array) -> Callable[[int], str]:
    """Return a function of a token's place that gives the attributes of its kind of mask."""
    return lambda t: _MARKS[kinds[t]]
