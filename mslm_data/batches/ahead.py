"""Download the next shards of an epoch in the background, and close finished ones.

Only for orders that read shards one after the other (`RowOrder.shard_uses`). In all other orders a
batch may read any shard, so all of them are downloaded first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from mslm_data.batches.order import EpochOrder, Place
from mslm_data.batches.row_order import ShardUses
from mslm_data.io.remote import TOGETHER, Ahead
from mslm_data.shard.split import Rows, Split


class SplitPrefetcher:
    """Downloads and closes the shards of one split during a pass.

    The pass reads the shards in the order of `uses`. A window of it moves along: shards before the
    window are finished and closed, shards in it are open, and up to `TOGETHER` shards after it are
    downloaded if `cache_bytes` allows.
    """

    def __init__(self, split: Split, order: EpochOrder, uses: ShardUses, ahead: Ahead) -> None:
        """Start before the first batch.

        Args:
            split: The split.
            order: Order of the batches.
            uses: Shards of the split, from `RowOrder.shard_uses`.
            ahead: Threads for the downloads.

        Raises:
            ValueError: The shards that a batch may read are larger than `cache_bytes`.
        """
        self._split = split
        self._uses = uses
        self._order = order
        self._ahead = ahead
        self._bytes = np.array(split.shard_bytes, np.int64)
        self._num_done = -1
        """Number of leading items of `uses` that are finished; -1 before the first batch."""
        self._num_begun = 0
        """Number of leading items of `uses` that are finished or in the window."""
        self._num_requested = 0
        """Number of leading items of `uses` that are finished or whose download was requested."""
        self._check_cache_size()

    def reach(self, start: Place, after: Place) -> None:
        """Close finished shards; to be called before the rows between two positions are read.

        Raises:
            ShardError: The file of a finished shard has changed.
        """
        num_done, self._num_begun = self._order.needed_shards(self._uses, start, after)
        if num_done > self._num_done:
            # Update the number first: a thread asks `_is_needed` before it downloads, and must not
            # download a shard again that is being closed.
            self._num_done = num_done
            self._split.keep(set(self._uses.shards[num_done : self._num_begun].tolist()))
        self._num_requested = max(num_done, self._num_requested)

    def fetch_next(self) -> None:
        """Start to download the next shards, as many as fit into `cache_bytes`.

        Raises:
            FetchError: An earlier download failed.
            ShardError: The remote folder has changed.
        """
        jobs: list[Callable[[], object]] = []
        stop = min(self._num_begun + TOGETHER, len(self._uses.shards))
        while self._num_requested < stop and self._fits(self._num_requested):
            shard = int(self._uses.shards[self._num_requested])
            is_needed = partial(self._is_needed, self._num_requested)
            jobs += self._split.fetches_ahead([shard], is_needed)
            self._num_requested += 1
        self._ahead.add(jobs)

    def _fits(self, use: int) -> bool:
        """Return whether a shard fits into `cache_bytes` beside those of the window."""
        cache_bytes = self._split.cache_bytes
        return cache_bytes is None or (
            self._count_bytes(max(self._num_done, 0), use + 1) <= cache_bytes
        )

    def _is_needed(self, use: int) -> bool:
        return use >= self._num_done

    def _count_bytes(self, first: int, stop: int) -> int:
        # A shard may be in the range twice, once for each round of a mix.
        return int(self._bytes[np.unique(self._uses.shards[first:stop])].sum())

    def _check_cache_size(self) -> None:
        cache_bytes = self._split.cache_bytes
        if cache_bytes is None:
            return
        # The most bytes are needed where a shard has just been opened.
        places = [Place(rows=start) for start in self._uses.starts.tolist()]
        ranges = [self._order.needed_shards(self._uses, place, place) for place in places]
        needed = max((self._count_bytes(first, stop) for first, stop in ranges), default=0)
        if needed > cache_bytes:
            raise ValueError(
                f"cache_bytes: expected at least {needed}, the bytes of the shards that are read "
                f"at a time, got {cache_bytes} for {self._split.folder}; pass more, or a smaller "
                "open_shards"
            )


@contextmanager
def prefetch_shards(rows: Rows, order: EpochOrder, epoch: int) -> Iterator[list[SplitPrefetcher]]:
    """Manage the shards of a pass; yield the prefetcher of each split that is read by shards.

    The shards of all other splits are downloaded first.

    Args:
        rows: The split or mix.
        order: Order of the batches.
        epoch: Epoch of the pass.

    Raises:
        FetchError: A shard is unreachable.
        ShardError: A shard is missing or damaged.
        ValueError: The shards that a batch may read are larger than `cache_bytes`.
    """
    uses_per_split = order.row_order.shard_uses(seed=order.options.seed, epoch=epoch)

    ahead = Ahead()
    prefetchers = []
    for part, uses in zip(rows.splits, uses_per_split, strict=True):
        if uses is None:
            part.source.bring()
        else:
            prefetchers.append(SplitPrefetcher(part.source, order, uses, ahead))
    try:
        yield prefetchers
    finally:
        ahead.close()
