"""Count the batches of an epoch, without masking or padding them.

`batch_stats` returns totals, `first_batches` the shapes of the first batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mslm_data.batches.ahead import prefetch_shards
from mslm_data.batches.batch_options import BatchOptions
from mslm_data.batches.order import EpochOrder, Place, Step
from mslm_data.shard.split import Rows
from mslm_data.stats.tally import check_epochs

Lengths = npt.NDArray[np.int64]

_STEPS_AT_ONCE = 256
"""Number of steps whose row lengths are read at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStats:
    """Counts of the batches of one rank that trains alone, over all counted epochs.

    Attributes:
        shape: Description of a batch.
        bucketed: Whether rows of similar length share a batch.
        epochs: Number of epochs.
        steps: Number of batches.
        rows: Number of rows.
        packed_rows: Number of packed rows, or None if each row is padded alone.
        tokens: Number of tokens, with special tokens and without padding.
        positions: Number of tokens and padding.
        fewest_tokens: Minimum number of tokens in a step; 0 without steps.
        most_tokens: Maximum number of tokens in a step; 0 without steps.
        share: Share of the epochs' rows that was counted. Below 1 if `max_steps` was reached.
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
        """Mean number of steps per epoch; an estimate if `share` is below 1."""
        return self.steps / self.epochs / self.share

    @property
    def rows_per_step(self) -> float:
        """Mean number of rows per step; 0 without steps."""
        return self.rows / max(self.steps, 1)

    @property
    def tokens_per_step(self) -> float:
        """Mean number of tokens per step, without padding; 0 without steps."""
        return self.tokens / max(self.steps, 1)

    @property
    def rows_per_packed_row(self) -> float | None:
        """Mean number of rows per packed row, or None if rows are not packed."""
        if self.packed_rows is None:
            return None
        return self.rows / max(self.packed_rows, 1)

    @property
    def padding(self) -> float:
        """Share of padding in all positions; 0 without positions."""
        return (self.positions - self.tokens) / max(self.positions, 1)


class BatchShape(NamedTuple):
    """The positions of rows in a batch.

    Attributes:
        lines: Number of tokens of each row in each line of the batch, from left to right. A line
            has one row, or several if rows are packed.
        width: Width of the batch, in tokens.
    """

    lines: tuple[tuple[int, ...], ...]
    width: int

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(map(len, self.lines))

    @property
    def tokens(self) -> int:
        """Number of tokens, without padding."""
        return sum(map(sum, self.lines))

    @property
    def padding(self) -> float:
        """Share of padding in the batch."""
        return 1 - self.tokens / (self.width * len(self.lines))


def first_batches(
    split: Rows, options: BatchOptions, *, epoch: int = 0, count: int = 3
) -> list[BatchShape]:
    """Return the shapes of the first batches of `md.Batches` in an epoch.

    Args:
        split: The rows.
        options: Options of the training.
        epoch: The epoch. Default: 0.
        count: Maximum number of batches. Default: 3.

    Raises:
        ValueError: A row is too long for a batch.
        ShardError: A shard is missing or damaged.
    """
    steps = islice(EpochOrder.from_options(split, options).batches(Place(epoch)), count)
    shapes = []
    for step, lengths in _with_lengths(split, steps):
        bounds = np.arange(len(lengths) + 1) if step.batch.packs is None else step.batch.packs
        lines = tuple(tuple(line.tolist()) for line in np.split(lengths, bounds[1:-1]))
        shapes.append(BatchShape(lines, options.width(max(map(sum, lines)))))
    return shapes


def batch_stats(
    split: Rows, options: BatchOptions, *, epochs: int = 1, max_steps: int | None = None
) -> BatchStats:
    """Count the batches of `md.Batches` with the same options, from row lengths alone.

    Args:
        split: The rows.
        options: Options of the training.
        epochs: Number of epochs to count, from epoch 0. Default: 1.
        max_steps: Maximum number of steps to count, for large splits. Default: no limit.

    Raises:
        ValueError: `epochs` is below 1, or a row is too long for a batch.
        ShardError: A shard is missing or damaged.
    """
    check_epochs(epochs)
    order = EpochOrder.from_options(split, options)

    steps = chain.from_iterable(order.batches(Place(epoch)) for epoch in range(epochs))
    counted = (
        _counted(lengths, step.batch.packs, options)
        for step, lengths in _with_lengths(split, islice(steps, max_steps))
    )
    # Downloads first what the order reads everywhere; other shards follow as their rows are read.
    with prefetch_shards(split, order, epoch=0):
        table = np.fromiter(counted, np.dtype((np.int64, 4)))
        # Without a step left, `max_steps` has cut nothing.
        is_whole = next(steps, None) is None

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
    """Yield each step with the lengths of its rows, read for many steps at once."""
    while group := list(islice(steps, _STEPS_AT_ONCE)):
        lengths = split.lengths(np.concatenate([step.batch.rows for step in group]))
        stops = np.cumsum([len(step.batch.rows) for step in group])
        yield from zip(group, np.split(lengths, stops[:-1]), strict=True)


def _counted(
    lengths: Lengths, packs: npt.NDArray[np.int64] | None, options: BatchOptions
) -> tuple[int, int, int, int]:
    """Return the numbers of rows, lines, tokens and positions of a batch.

    Args:
        lengths: `[R]`, the number of tokens in each row.
        packs: `[P + 1]`, the first row of each packed row, or None without packing.
        options: Options that determine the width of a batch.
    """
    line_lengths = lengths if packs is None else np.add.reduceat(lengths, packs[:-1])
    lines = len(line_lengths)
    width = options.width(int(line_lengths.max()))
    return len(lengths), lines, int(lengths.sum()), lines * width
