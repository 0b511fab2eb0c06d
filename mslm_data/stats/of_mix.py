"""Counts what a strategy hides of each split of a mix."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from mslm_data.mask.strategy import Strategy
from mslm_data.shard.row_protocol import Rows, SplitShare
from mslm_data.stats.counts import MaskStats
from mslm_data.stats.tally import mask_stats


class PartStats(NamedTuple):
    """Counts of what an epoch takes of one split of a mix.

    Attributes:
        part: The split.
        stats: The counts.
    """

    part: SplitShare
    stats: MaskStats


def count_splits(rows: Rows, strategy: Strategy, *, seed: int = 0) -> list[PartStats]:
    """Count what a strategy hides of each split of a mix, in the order of `rows.splits`.

    The rows are those that the first shuffled epoch takes of the split. One that comes again counts
    again, as it has a mask of its own each time.

    Args:
        rows: A mix, or a split alone.
        strategy: What plans the masks.
        seed: As in training.

    Raises:
        ValueError: See `mask_stats`.
        ShardError: A shard is missing or damaged, or has changed meanwhile.
    """
    parts = []
    for number, part in enumerate(rows.splits):
        chunks = partial(rows.chunks_from, number, seed=seed)
        stats = mask_stats(chunks, strategy, seed=seed, labels=rows.labels)
        parts.append(PartStats(part, stats))
    return parts
