"""Count the batches of an epoch, without masking or padding them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from mslm_data.batches.batch_options import BatchOptions
from mslm_data.batches.order import EpochOrder
from mslm_data.shard.split import Rows
from mslm_data.stats.tally import check_epochs

Lengths = npt.NDArray[np.int64]

_BATCHES_AT_ONCE = 256
"""Number of batches whose row lengths are read at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStats:
    """Counts of the batches of one rank that trains alone, over all counted epochs.

    Attributes:
        shape: Description of a batch.
        bucketed: Whether rows of similar length share a batch.
        epochs: Number of epochs.
        steps: Number of batches.
        rows: Number of rows.
        tokens: Number of tokens, with special tokens and without padding.
        positions: Number of tokens and padding.
        fewest_tokens: Minimum number of tokens in a step; 0 without steps.
        most_tokens: Maximum number of tokens in a step; 0 without steps.
    """

    shape: str
    bucketed: bool
    epochs: int
    steps: int
    rows: int
    tokens: int
    positions: int
    fewest_tokens: int
    most_tokens: int

    @property
    def steps_per_epoch(self) -> float:
        """Mean number of steps per epoch."""
        return self.steps / self.epochs

    @property
    def rows_per_step(self) -> float:
        """Mean number of rows per step; 0 without steps."""
        return self.rows / max(self.steps, 1)

    @property
    def tokens_per_step(self) -> float:
        """Mean number of tokens per step, without padding; 0 without steps."""
        return self.tokens / max(self.steps, 1)

    @property
    def padding(self) -> float:
        """Share of padding in all positions; 0 without positions."""
        return (self.positions - self.tokens) / max(self.positions, 1)


def batch_stats(split: Rows, options: BatchOptions, *, epochs: int = 1) -> BatchStats:
    """Count the batches of `md.Batches` with the same options, from row lengths alone.

    Args:
        split: The rows.
        options: Options of the training.
        epochs: Number of epochs to count, from epoch 0. Default: 1.

    Raises:
        ValueError: `epochs` is below 1, or a row is too long for a batch.
        ShardError: A shard is missing or damaged.
    """
    check_epochs(epochs)
    order = EpochOrder(split, options)

    batches = chain.from_iterable(_row_lengths(split, order, epoch) for epoch in range(epochs))
    counted = (_count(lengths, options) for lengths in batches)
    table = np.fromiter(counted, np.dtype((np.int64, 3)))

    rows, tokens, positions = table.sum(axis=0).tolist()
    return BatchStats(
        shape=options.describe_size(),
        bucketed=bool(options.bucketed),
        epochs=epochs,
        steps=len(table),
        rows=rows,
        tokens=tokens,
        positions=positions,
        fewest_tokens=int(table[:, 1].min()) if len(table) else 0,
        most_tokens=int(table[:, 1].max(initial=0)),
    )


def _row_lengths(split: Rows, order: EpochOrder, epoch: int) -> Iterator[Lengths]:
    """Yield the number of tokens of each row of each batch, read for many batches at once."""
    for block in range(len(order.bounds(epoch)) - 1):
        plan = order.plan(epoch, block)
        for first in range(0, plan.num_batches, _BATCHES_AT_ONCE):
            bounds = plan.bounds[first : first + _BATCHES_AT_ONCE + 1]
            lengths = split.lengths(plan.rows[bounds[0] : bounds[-1]])
            yield from np.split(lengths, bounds[1:-1] - bounds[0])


def _count(lengths: Lengths, options: BatchOptions) -> tuple[int, int, int]:
    """Return the numbers of rows, tokens and positions of a batch.

    Args:
        lengths: `[R]`, the number of tokens in each row.
        options: Options that determine the form of the batch.
    """
    tokens = int(lengths.sum())
    if options.flat:
        return len(lengths), tokens, options.width(tokens)
    return len(lengths), tokens, len(lengths) * options.width(int(lengths.max()))
