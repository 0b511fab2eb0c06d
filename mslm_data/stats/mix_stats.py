"""Count the masks of a strategy in each split of a mix."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from mslm_data.mask.strategy import Strategy
from mslm_data.shard.split import Rows, SplitShare
from mslm_data.stats.counts import MaskStats
from mslm_data.stats.tally import mask_stats


class PartStats(NamedTuple):
    """Counts of the rows that an epoch takes from one split of a mix.

    Attributes:
        part: The split.
        stats: The counts.
    """

    part: SplitShare
    stats: MaskStats


def count_splits(rows: Rows, strategy: Strategy, *, seed: int = 0) -> list[PartStats]:
    """Count the masks of a strategy in each split of a mix, in the order of `rows.splits`.

    The rows are those of the first shuffled epoch. A repeated row is counted each time, because it
    has a new mask each time.

    Args:
        rows: A mix, or a single split.
        strategy: The strategy.
        seed: Seed of the training. Default: 0.

    Raises:
        ValueError: See `mask_stats`.
        ShardError: A shard is missing or damaged.
    """
    parts = []
    for number, part in enumerate(rows.splits):
        chunks = partial(rows.chunks, seed=seed, part=number)
        stats = mask_stats(chunks, strategy, seed=seed, labels=rows.labels)
        parts.append(PartStats(part, stats))
    return parts
