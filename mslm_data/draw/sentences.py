"""Draw rows with their mentions and masks as HTML."""

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
from mslm_data.draw import macros
from mslm_data.draw.marked_rows import Pieces, Shade, draw_line, draw_lines

EPOCHS = 100
"""Number of epochs that determine the shade of a token."""

_SEARCHED_ROWS = 256
"""Maximum number of rows to search for each row to show."""

_USUAL_LENGTHS = (6, 60)
"""Minimum and maximum number of tokens in a row to show."""

_BASE, _ENTITY = 1, 2
"""Numbers of `MaskKind`; 0 is a token that is not masked."""


class DrawnRows(Protocol):
    """Protocol of a split or a mix, with the methods needed to choose and draw rows."""

    @property
    def stored(self) -> int:
        """Number of rows."""
        ...

    def take(self, rows: npt.NDArray[np.int64]) -> Examples:
        """Return rows by number."""
        ...


class Planner(Protocol):
    """Protocol of a strategy, with the method needed to draw its masks."""

    def plan(self, examples: Examples, *, seed: int, epoch: int) -> Any:
        """Return a plan, whose `kinds` are the kind of each token."""
        ...


def choose_rows(split: DrawnRows, count: int) -> npt.NDArray[np.int64]:
    """Choose rows to show, spread over the split or mix.

    The split is divided into parts. Each row is the first of its part with a mention and 6 to 60
    tokens, or the part's first row.

    Args:
        split: The rows.
        count: Number of rows. A smaller split gives fewer.

    Returns:
        Row numbers, ascending.
    """
    count = min(count, split.stored)
    starts = [split.stored * k // count for k in range(count + 1)] if count else []

    chosen = []
    for start, stop in itertools.pairwise(starts):
        searched = np.arange(start, min(stop, start + _SEARCHED_ROWS))
        examples = split.take(searched)
        lengths = examples.input_ids.lengths
        shortest, longest = _USUAL_LENGTHS
        is_usual = (lengths >= shortest) & (lengths <= longest)
        is_good = (examples.span_starts.lengths > 0) & is_usual
        # The first good row, or row 0 if there is none.
        chosen.append(start + int(np.argmax(is_good)))

    return np.array(chosen, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Sentences:
    """Rows to draw, with tokenizer and labels.

    Attributes:
        examples: The rows.
        tokenizer: Tokenizer of their folder.
        labels: Labels, by `span_labels`.
    """

    examples: Examples
    tokenizer: tokenizers.Tokenizer
    labels: Sequence[str]

    def heat(self, strategy: Planner, *, seed: int) -> Markup:
        """Draw the rows, with each token shaded by its number of masks in `EPOCHS` epochs."""
        times = np.zeros((3, len(self.examples.input_ids.values)), np.int64)
        for epoch in range(EPOCHS):
            kinds = strategy.plan(self.examples, seed=seed, epoch=epoch).kinds.values
            times[_ENTITY] += kinds == _ENTITY
            times[_BASE] += kinds == _BASE

        shades: list[dict[int, Shade]] = []
        for start, stop in itertools.pairwise(self.examples.input_ids.offsets.tolist()):
            counts = zip(*times[1:, start:stop].tolist(), strict=True)
            shades.append({token: _shade(blm, elm) for token, (blm, elm) in enumerate(counts)})
        return self.shaded(shades)

    def shaded(self, shades: Sequence[Mapping[int, Shade]]) -> Markup:
        """Draw the rows with their mentions, some tokens shaded.

        Args:
            shades: For each row, index of a token in the row -> shade.
        """
        pieces = Pieces(self.tokenizer)
        rows = [
            draw_line(self.examples, row, None, None, pieces, self.labels, shades=row_shades)
            for row, row_shades in enumerate(shades)
        ]
        return Markup().join(map(macros("rows.html").row, rows))

    def side_by_side(
        self, strategies: Mapping[str, Planner], *, seed: int, epoch: int = 0
    ) -> Markup:
        """Draw each row once for each strategy, with its masks in an epoch."""
        kinds = {
            name: strategy.plan(self.examples, seed=seed, epoch=epoch).kinds
            for name, strategy in strategies.items()
        }
        rows = draw_lines(self.examples, kinds, Pieces(self.tokenizer), self.labels)
        return Markup().join(map(macros("rows.html").ways, rows))

    def mentions(self) -> Markup:
        """Draw the rows with their mentions, without masks."""
        return self.shaded([{}] * len(self.examples))


def _shade(blm: int, elm: int) -> Shade:
    """Return the shade of a token from its numbers of masks in `EPOCHS` epochs."""
    share = (elm + blm) / EPOCHS
    return Shade(share, f"masked in {share:.0%}: as ELM {elm}, as BLM {blm}")
