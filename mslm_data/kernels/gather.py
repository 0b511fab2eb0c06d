"""Gather rows of ragged columns."""

from __future__ import annotations

from mslm_data.kernels._jit import Array, inlined, kernel


@kernel
def renumber(values: Array, numbers: Array, out: Array) -> None:
    """Replace numbers by a lookup table: `out = numbers[values]`.

    NumPy would first copy `values` to int64.

    Args:
        values: integers `[T]`, indices into `numbers`. -1 is the last item.
        numbers: integers `[.]`, the table.
        out: integers `[T]`, written. May be `values`.
    """
    for t in range(len(values)):
        out[t] = numbers[values[t]]


@kernel
def gather(rows: Array, offsets: Array, values: Array, to: Array, out: Array) -> None:
    """Gather rows of a ragged column.

    Args:
        rows: integers `[R]`, row numbers in `[0, N)`, in any order, possibly repeated.
        offsets: integers `[N + 1]` of the source rows.
        values: `[T]`, any type.
        to: int64, at least `[R]`, the first index of each copied row in `out`.
        out: same type as `values`, written.
    """
    for r in range(len(rows)):
        start, stop = offsets[rows[r]], offsets[rows[r] + 1]
        begin = to[r]
        copy(values[start:stop], out[begin : begin + stop - start])


@inlined
def copy(values: Array, out: Array) -> None:
    """Copy values in a loop, which is faster than a call of memcpy for short rows.

    Args:
        values: `[n]`, any type.
        out: `[n]`, same type, written.
    """
    for t in range(len(values)):
        out[t] = values[t]
