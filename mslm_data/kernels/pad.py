"""Gather rows of a chunk into padded arrays: B lines of L tokens or M mentions."""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel

IGNORED = -100
"""Label of tokens that are not masked, and tag of special tokens and padding."""


@kernel
def pad(rows: Array, bounds: Array, offsets: Array, values: Array, fill: int, out: Array) -> None:
    """Gather rows of a column. A line has one row, or several rows one after the other.

    Args:
        rows: int64 `[R]`, row numbers.
        bounds: int64 `[B + 1]`, offsets of each line's rows in `rows`.
        offsets: int64 `[N + 1]` of the column.
        values: `[T]`, the items of the column.
        fill: Value of padding.
        out: `[B, L]`, written.
    """
    for b in range(len(bounds) - 1):
        line = out[b]

        at = 0
        for row in rows[bounds[b] : bounds[b + 1]]:
            for t in range(offsets[row], offsets[row + 1]):
                line[at] = values[t]
                at += 1

        line[at:] = fill
