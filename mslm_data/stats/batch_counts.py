"""Counts the batches that a model will be given in an epoch, without masking or padding any.

`batch_stats` sums them up, and `first_batches` gives the shapes of some, to be drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mslm_data.batches.batch_options import BatchOptions
from mslm_data.batches.order import EpochOrder, Place, Step
from mslm_data.shard.row_protocol import Rows
from mslm_data.stats.tally import check_epochs

Lengths = npt.NDArray[np.int64]

_STEPS_AT_ONCE = 256
"""Steps whose lengths one call reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStats:
    """Counts of the batches of one rank that trains alone, over all epochs counted.

    Attributes:
        shape: What a batch is made of, in words.
        bucketed: Whether rows of like length share a batch.
        epochs: How many epochs are counted.
        steps: Number of batches.
        rows: Rows given.
        packed_rows: Rows of the batches' rectangles that these were packed into; None where each
            row is padded by itself.
        tokens: Tokens given, special ones included and padding not.
        positions: Places of all rectangles: tokens and padding.
        fewest_tokens: Tokens of the step that has fewest; 0 if there is no step.
        most_tokens: Tokens of the step that has most; 0 if there is no step.
        share: Share of the epochs' rows that was counted: below 1 where `most_steps` ended it.
    """

    shape: str
    bucketed: bool
    epochs: int
    steps: int
    rows: int
    packed_rows: int | None
    tokens: int
    positions: int
    fewest_tokens: int
    most_tokens: int
    share: float = 1.0

    @property
    def steps_per_epoch(self) -> float:
        """The average number of steps of an epoch; an estimate where `share` is below 1."""
        return self.steps / self.epochs / self.share

    @property
    def rows_per_step(self) -> float:
        """The average number of rows of a step; 0 if there is no step."""
        return self.rows / max(self.steps, 1)

    @property
    def tokens_per_step(self) -> float:
        """The average number of tokens of a step, padding not counted; 0 if there is no step."""
        return self.tokens / max(self.steps, 1)

    @property
    def rows_per_packed_row(self) -> float | None:
        """The average number of rows of a packed row; None where rows are not packed."""
        if self.packed_rows is None:
            return None
        return self.rows / max(self.packed_rows, 1)

    @property
    def padding(self) -> float:
        """Share of the places that are padding; 0 if there is no place."""
        return (self.positions - self.tokens) / max(self.positions, 1)


class BatchShape(NamedTuple):
    """How the rows of a batch lie in its rectangle.

    Attributes:
        lines: Tokens of the rows of each line, from left to right: of one row where it is padded by
            itself, of several where they are packed.
        width: Width of the rectangle, in tokens.
    """

    lines: tuple[tuple[int, ...], ...]
    width: int

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(map(len, self.lines))

    @property
    def tokens(self) -> int:
        """Number of tokens, padding not counted."""
        return sum(map(sum, self.lines))

    @property
    def padding(self) -> float:
        """Share of the rectangle that is padding."""
        return 1 - self.tokens / (self.width * len(self.lines))


def first_batches(
    split: Rows, options: BatchOptions, *, epoch: int = 0, count: int = 3
) -> list[BatchShape]:
    """Return the shapes of the first batches that `md.Batches` gives in an epoch.

    Args:
        split: Which rows.
        options: As in training.
        epoch: Which epoch.
        count: Maximum number of batches.

    Raises:
        ValueError: A row has more tokens than there is room.
        ShardError: A shard is missing or damaged, or has changed meanwhile.
    """
    steps = islice(EpochOrder.from_options(split, options).batches(Place(epoch)), count)
    shapes = []
    for step, lengths in _with_lengths(split, steps):
        bounds = np.arange(len(lengths) + 1) if step.batch.packs is None else step.batch.packs
        lines = tuple(tuple(line.tolist()) for line in np.split(lengths, bounds[1:-1]))
        shapes.append(BatchShape(lines, options.width(max(map(sum, lines)))))
    return shapes


def batch_stats(
    split: Rows, options: BatchOptions, *, epochs: int = 1, most_steps: int | None = None
) -> BatchStats:
    """Count the batches of `md.Batches` with the same options, from the lengths of rows alone.

    Args:
        split: Which rows.
        options: As in training.
        epochs: Epochs `[0, epochs)` are counted.
        most_steps: Maximum number of steps to count, for splits of many rows. None: all.

    Raises:
        ValueError: There is no epoch to count, or a row has more tokens than there is room.
        ShardError: A shard is missing or damaged, or has changed meanwhile.
    """
    check_epochs(epochs)
    order = EpochOrder.from_options(split, options)

    split.check()
    split.bring()
    steps = chain.from_iterable(order.batches(Place(epoch)) for epoch in range(epochs))
    counted = (
        _counted(own, step.batch.packs, options)
        for step, own in _with_lengths(split, islice(steps, most_steps))
    )
    table = np.fromiter(counted, np.dtype((np.int64, 4)))
    is_whole = next(steps, None) is None
    split.check()

    rows, lines, tokens, positions = table.sum(axis=0).tolist()
    return BatchStats(
        shape=options.describe_size(),
        bucketed=options.bucketed,
        epochs=epochs,
        steps=len(table),
        rows=rows,
        packed_rows=lines if options.is_packed else None,
        tokens=tokens,
        positions=positions,
        fewest_tokens=int(table[:, 2].min()) if len(table) else 0,
        most_tokens=int(table[:, 2].max(initial=0)),
        share=1.0 if is_whole else rows / (len(split) * epochs),
    )


def _with_lengths(split: Rows, steps: Iterator[Step]) -> Iterator[tuple[Step, Lengths]]:
    """Give each step with the tokens of its rows; the lengths of many steps are read at once."""
    while group := list(islice(steps, _STEPS_AT_ONCE)):
        lengths = split.lengths(np.concatenate([step.batch.rows for step in group]))
        stops = np.cumsum([len(step.batch.rows) for step in group])
        yield from zip(group, np.split(lengths, stops[:-1]), strict=True)


def _counted(
    lengths: Lengths, packs: npt.NDArray[np.int64] | None, options: BatchOptions
) -> tuple[int, int, int, int]:
    """Return the rows, lines, tokens and positions of a batch.

    Args:
        lengths: `[R]`, tokens of its rows.
        packs: `[P + 1]`, where each packed row begins among them; None where none is packed.
        options: Say how wide its lines are.
    """
    of_lines = lengths if packs is None else np.add.reduceat(lengths, packs[:-1])
    lines = len(of_lines)
    return len(lengths), lines, int(lengths.sum()), lines * options.width(int(of_lines.max()))
