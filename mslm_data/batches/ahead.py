"""Download the next shard of an epoch in the background.

Only for orders that read shards one after the other (`RowOrder.shard_uses`). In all other orders a
batch may read any shard, so all of them are downloaded first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mslm_data.batches.order import EpochOrder, Place
from mslm_data.batches.row_order import ShardUses
from mslm_data.io.remote import Background
from mslm_data.shard.split import Rows, Split


class SplitPrefetcher:
    """Downloads the shards of one split during a pass.

    The pass reads the shards in the order of `uses`. A window of it moves along: shards before the
    window are finished, shards in it are read now or soon, and these and the next one after it are
    downloaded, one at a time.
    """

    def __init__(self, split: Split, order: EpochOrder, uses: ShardUses) -> None:
        """Start before the first batch.

        Args:
            split: The split.
            order: Order of the batches.
            uses: Shards of the split, from `RowOrder.shard_uses`.
        """
        self._split = split
        self._uses = uses
        self._order = order
        self._num_done = 0
        """Number of leading items of `uses` that are finished."""
        self._num_begun = 0
        """Number of leading items of `uses` that are finished or in the window."""
        self._num_requested = 0
        """Number of leading items of `uses` that are finished or whose download has begun."""
        self._download: Background | None = None

    def reach(self, start: Place, after: Place) -> None:
        """Move the window to the shards with the rows between two positions."""
        self._num_done, self._num_begun = self._order.needed_shards(self._uses, start, after)

    def fetch_next(self) -> None:
        """Start to download the next shard, unless a download runs or the window is complete."""
        self._num_requested = max(self._num_requested, self._num_done)
        stop = min(self._num_begun + 1, len(self._uses.shards))
        while self._num_requested < stop and not (self._download and self._download.is_alive()):
            shard = int(self._uses.shards[self._num_requested])
            self._download = self._split.fetch_ahead(shard)
            self._num_requested += 1

    def close(self) -> None:
        """Cancel the download."""
        if self._download is not None:
            self._download.cancel()


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
    """
    prefetchers = []
    uses_per_split = order.row_order.shard_uses(seed=order.options.seed, epoch=epoch)
    for part, uses in zip(rows.splits, uses_per_split, strict=True):
        if uses is None:
            part.source.bring()
        else:
            prefetchers.append(SplitPrefetcher(part.source, order, uses))
    try:
        yield prefetchers
    finally:
        for prefetcher in prefetchers:
            prefetcher.close()
