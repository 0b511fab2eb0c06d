"""Reads columns and rows of a split for the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from mslm_data.data.context import decode_flags
from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged, make_offsets
from mslm_data.shard.split import CHUNK, Split


def read_column(split: Split, name: str, rows: npt.NDArray[np.int64]) -> list[Any]:
    """Read a column of some rows as Python values.

    Args:
        split: The split.
        name: The column.
        rows: `[R]`, row numbers.

    Returns:
        `[R]`; None for rows of a shard without the column.
    """
    values: list[Any] = [None] * len(rows)
    for shard, places, local in split.picks(rows):
        if name not in shard.batch.schema.names:
            continue
        column = shard.batch.column(name)
        if np.array_equal(local, np.arange(local[0], local[0] + len(local))):
            cells = column.slice(local[0], len(local)).to_pylist()
        else:
            cells = [column[row].as_py() for row in local.tolist()]
        for place, value in zip(np.arange(len(rows))[places].tolist(), cells, strict=True):
            values[place] = value
    return values


def read_flags(split: Split, rows: npt.NDArray[np.int64]) -> list[str]:
    """Return the context flags of each mention of some rows as text; empty if unknown."""
    contexts = read_column(split, "span_contexts", rows)
    if any(row is None for row in contexts):
        return []
    return [", ".join(decode_flags(bits)) for row in contexts for bits in row]


def read_chunks(split: Split, size: int = CHUNK) -> Iterator[tuple[int, Examples]]:
    """Yield the number of each chunk's first row, and its rows, of at most `size` rows."""
    for start in range(0, len(split), size):
        yield start, split.examples(start, min(start + size, len(split)))


def rows_with(items: Ragged, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which rows have a chosen item, `[N]`.

    Args:
        items: S items in N rows; values are not used.
        chosen: `[S]`.
    """
    chosen_before = make_offsets(chosen)
    return chosen_before[items.offsets[1:]] > chosen_before[items.offsets[:-1]]
