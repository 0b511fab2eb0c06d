"""Opens the shards that an epoch is at, fetches those that come next, and closes those behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np

from mslm_data.batches.order import EpochOrder, Place
from mslm_data.batches.row_order import ShardUses
from mslm_data.io.remote import TOGETHER, Ahead
from mslm_data.shard.row_protocol import Rows
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
        self._bytes = np.array(split.shard_bytes, np.int64)
        self._behind = -1
        """Shards that are behind: so many of the first; -1 before the first rows."""
        self._asked = 0
        """Shards that were fetched ahead or are behind: so many of the first."""
        self._check_cache_size()

    def reach(self, start: Place, after: Place) -> None:
        """Close shards that are behind, before the rows between two places are read.

        Raises:
            ShardError: The file of a shard that is behind is another by now.
        """
        behind, stop = self._order.needed_shards(self._uses, start, after)
        if behind > self._behind:
            # First of all none of them is wanted, or a thread might bring one again.
            self._behind = behind
            self._split.keep(set(self._uses.shards[behind:stop].tolist()))
        self._asked = max(behind, self._asked)

    def fetch_next(self) -> None:
        """Begin to fetch the shards that come next, as many as there is room for.

        Raises:
            FetchError: One that was to be fetched before is out of reach.
            ShardError: The folder there is another by now.
        """
        jobs: list[Callable[[], object]] = []
        while self._asked < len(self._uses.shards) and len(jobs) < TOGETHER:
            taken = self._bytes_of(max(self._behind, 0), self._asked + 1)
            if self._split.cache_bytes is not None and taken > self._split.cache_bytes:
                break
            shard = int(self._uses.shards[self._asked])
            jobs += self._split.fetches_ahead([shard], partial(self._is_wanted, self._asked))
            self._asked += 1
        self._ahead.add(jobs)

    def _is_wanted(self, use: int) -> bool:
        """Return whether a shard's rows are not behind, where it would take room from others."""
        return use >= self._behind

    def _bytes_of(self, first: int, stop: int) -> int:
        """Return the bytes of the shards of some uses, each counted once."""
        return int(self._bytes[np.unique(self._uses.shards[first:stop])].sum())

    def _check_cache_size(self) -> None:
        cache_bytes = self._split.cache_bytes
        if cache_bytes is None:
            return
        places = [Place(rows=start) for start in self._uses.starts.tolist()]
        ranges = [self._order.needed_shards(self._uses, place, place) for place in places]
        needed = max((self._bytes_of(behind, stop) for behind, stop in ranges), default=0)
        if needed > cache_bytes:
            raise ValueError(
                f"cache_bytes: expected at least {needed}, the bytes of the shards that are read "
                f"at a time, got {cache_bytes} for {self._split.folder}; pass more, or a smaller "
                "open_shards"
            )


class WantedOfSplits:
    """Tell each split of a mix, or the one that is read alone, which shards are wanted."""

    def __init__(self, of_splits: Sequence[WantedShards]) -> None:
        """Take those of splits that are read by shards."""
        self._of_splits = of_splits

    def reach(self, start: Place, after: Place) -> None:
        """Close shards that are behind; see `WantedShards.reach`."""
        for of_split in self._of_splits:
            of_split.reach(start, after)

    def fetch_next(self) -> None:
        """Begin to fetch the shards that come next; see `WantedShards.fetch_next`."""
        for of_split in self._of_splits:
            of_split.fetch_next()


@contextmanager
def reading(rows: Rows, order: EpochOrder, epoch: int) -> Iterator[WantedOfSplits | None]:
    """Read the rows of an epoch; None where all shards are wanted all the time, which are here.

    Args:
        rows: Which rows.
        order: Their order.
        epoch: Which pass over them.

    Raises:
        FetchError: A shard is out of reach.
        ShardError: A shard is missing or damaged.
        ValueError: The shards that are wanted at a time take more than `cache_bytes`.
    """
    uses_of_splits = order.row_order.shard_uses(seed=order.options.seed, epoch=epoch)

    ahead = Ahead()
    wanted = []
    for part, uses in zip(rows.splits, uses_of_splits, strict=True):
        if uses is None:
            part.split.bring()
        else:
            wanted.append(WantedShards(part.split, order, uses, ahead))
    try:
        yield WantedOfSplits(wanted) if wanted else None
    finally:
        ahead.close()
