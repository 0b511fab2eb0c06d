"""Opens the shards that an epoch is at, fetches those that come next, and closes those behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from mslm_data.batches.mix import Mix
from mslm_data.batches.order import EpochOrder, Place
from mslm_data.batches.row_order import ShardUses
from mslm_data.io.remote import TOGETHER, Ahead
from mslm_data.shard.split import Split


class WantedShards:
    """Tell a split which shards are wanted while a pass goes on."""

    def __init__(self, split: Split, order: EpochOrder, uses: ShardUses, ahead: Ahead) -> None:
        """Begin where no shard is known to be behind.

        Raises:
            ValueError: Shards that are wanted at a time take more than `cache_bytes`.
        """
        self._split = split
        self._uses = uses
        self._order = order
        self._ahead = ahead
        self._bytes = np.array(split.shard_bytes, np.int64)[uses.shards]
        self._behind = -1
        """Shards that are behind: so many of the first; -1 before the first rows."""
        self._asked = 0
        """Shards that are wanted or were fetched ahead: so many of the first."""
        self._refuse_small_cache()

    def reach(self, start: Place, after: Place) -> None:
        """Close shards that are behind, before the rows between two places are read.

        Raises:
            ShardError: The file of a shard that is behind is another by now.
        """
        behind, stop = self._order.wanted(self._uses, start, after)
        if behind > self._behind:
            self._split.keep(set(self._uses.shards[behind:stop].tolist()))
        self._behind = max(behind, self._behind)
        self._asked = max(stop, self._asked)

    def fetch_next(self) -> None:
        """Begin to fetch the shards that come next, as many as there is room for.

        Raises:
            FetchError: One that was to be fetched before is out of reach.
            ShardError: The folder there is another by now.
        """
        first = self._asked
        while self._asked < len(self._bytes) and self._asked - first < TOGETHER:
            taken = int(self._bytes[max(self._behind, 0) : self._asked + 1].sum())
            if self._split.cache_bytes is not None and taken > self._split.cache_bytes:
                break
            self._asked += 1
        self._ahead.add(self._split.fetches(self._uses.shards[first : self._asked].tolist()))

    def _refuse_small_cache(self) -> None:
        most = self._split.cache_bytes
        if most is None:
            return
        sums = np.concatenate([[0], np.cumsum(self._bytes)])
        places = [Place(rows=start) for start in self._uses.starts.tolist()]
        ranges = [self._order.wanted(self._uses, place, place) for place in places]
        needed = max((int(sums[stop] - sums[behind]) for behind, stop in ranges), default=0)
        if needed > most:
            raise ValueError(
                f"cache_bytes: expected at least {needed}, the bytes of the shards that are read "
                f"at a time, got {most}; pass more, or a smaller open_shards"
            )


@contextmanager
def reading(split: Split | Mix, order: EpochOrder, epoch: int) -> Iterator[WantedShards | None]:
    """Read the rows of an epoch; None where all shards are wanted all the time, which are here.

    Args:
        split: Whose rows; of a mix all shards are wanted all the time.
        order: Their order.
        epoch: Which pass over them.

    Raises:
        FetchError: A shard is out of reach.
        ShardError: A shard is missing or damaged.
        ValueError: The shards that are wanted at a time take more than `cache_bytes`.
    """
    uses = order.row_order.uses(seed=order.seed, epoch=epoch)
    if uses is None or isinstance(split, Mix):
        split.bring()
        yield None
        return

    ahead = Ahead()
    try:
        yield WantedShards(split, order, uses, ahead)
    finally:
        ahead.close()
