"""Download the shards of the next block in the background."""

from __future__ import annotations

from collections.abc import Sized

from mslm_data.batches.batch_options import RowNumbers
from mslm_data.io.remote import Background
from mslm_data.shard import remote
from mslm_data.shard.split import Rows


def fetch_ahead(rows: Sized, numbers: RowNumbers) -> Background | None:
    """Start to download the remote shards of some rows, one after the other.

    Returns:
        The download; None if no shard is to be downloaded.
    """
    if not isinstance(rows, Rows):
        return None
    return remote.fetch_ahead(rows.shards(numbers))
