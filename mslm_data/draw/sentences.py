"""Draws rows with their mentions and masks as HTML."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import tokenizers
from markupsafe import Markup

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged
from mslm_data.draw import macros
from mslm_data.draw.marked_rows import Pieces, Shade, draw_line, draw_lines

EPOCHS = 100
"""The shade of a token says in how many of these epochs it is hidden."""

_LOOKED_AT = 256
"""In so many rows a row to show is looked for."""

_USUAL = (6, 60)
"""Fewest and most tokens of a row of usual length."""

_BASE, _ENTITY = 1, 2
"""Kinds of masks, as `MaskKind` numbers them; 0 is a token that is not hidden."""


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


class Planner(Protocol):
    """A strategy, as far as drawing needs it."""

    def plan(self, examples: Examples, *, seed: int, epoch: int) -> Any:
        """Return a plan, whose `kinds` are the kind of each token."""
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
        examples: The rows.
        tokenizer: The tokenizer of their folder.
        labels: The names that `span_labels` index.
    """

    examples: Examples
    tokenizer: tokenizers.Tokenizer
    labels: Sequence[str]

    def heat(self, strategy: Planner, *, seed: int) -> Markup:
        """Return the rows, each token shaded by how many of `EPOCHS` epochs hide it."""
        times = np.zeros((3, len(self.examples.input_ids.values)), np.int64)
        for epoch in range(EPOCHS):
            kinds = strategy.plan(self.examples, seed=seed, epoch=epoch).kinds.values
            times[_ENTITY] += kinds == _ENTITY
            times[_BASE] += kinds == _BASE

        shades: list[dict[int, Shade]] = []
        for start, stop in itertools.pairwise(self.examples.input_ids.offsets.tolist()):
            of_row = zip(*times[1:, start:stop].tolist(), strict=True)
            shades.append({token: _often(blm, elm) for token, (blm, elm) in enumerate(of_row)})
        return self.shaded(shades)

    def shaded(self, shades: Sequence[Mapping[int, Shade]]) -> Markup:
        """Return the rows with their mentions, some tokens shaded.

        Args:
            shades: For each row, a token's place in it -> its shade.
        """
        pieces = Pieces(self.tokenizer)
        rows = [
            draw_line(self.examples, row, None, None, pieces, self.labels, shades=of_row)
            for row, of_row in enumerate(shades)
        ]
        return Markup().join(map(macros("rows.html").row, rows))

    def side_by_side(
        self, strategies: Mapping[str, Planner], *, seed: int, epoch: int = 0
    ) -> Markup:
        """Return each row once for each strategy, with the tokens that an epoch hides."""
        plans = {
            name: strategy.plan(self.examples, seed=seed, epoch=epoch).kinds
            for name, strategy in strategies.items()
        }
        return self.hidden(plans)

    def hidden(self, kinds: Mapping[str, Ragged]) -> Markup:
        """Return each row once for each plan.

        Args:
            kinds: Name of a plan -> the kinds of its tokens.
        """
        rows = draw_lines(self.examples, kinds, Pieces(self.tokenizer), self.labels)
        return Markup().join(map(macros("rows.html").ways, rows))

    def mentions(self) -> Markup:
        """Return the rows with their mentions, nothing hidden."""
        return self.shaded([{}] * len(self.examples))


def _often(blm: int, elm: int) -> Shade:
    """Return the shade of a token that is hidden so many times."""
    share = (elm + blm) / EPOCHS
    return Shade(share, f"hidden in {share:.0%}: as ELM {elm}, as BLM {blm}")
