"""Gather rows of ragged columns."""

from __future__ import annotations

from typing import TypeAlias

from mslm_data.kernels._jit import Array, inlined, kernel

Arrays: TypeAlias = tuple[Array, Array, Array]


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


@kernel
def gather_alike(rows: Array, offsets: Array, columns: Arrays, to: Array, out: Arrays) -> None:
    """Gather rows of three ragged columns with the same offsets.

    In one pass over the rows, since most of the time is spent waiting for memory.

    Args:
        rows: integers `[R]`, row numbers in `[0, N)`, in any order, possibly repeated.
        offsets: integers `[N + 1]` of the source rows.
        columns: Three arrays `[T]`, of any types.
        to: int64, at least `[R]`, the first index of each copied row in the `out` arrays.
        out: Three arrays of the same types as `columns`, written.
    """
    first, second, third = columns
    out_first, out_second, out_third = out
    for r in range(len(rows)):
        start, stop = offsets[rows[r]], offsets[rows[r] + 1]
        begin = to[r]
        end = begin + stop - start
        copy(first[start:stop], out_first[begin:end])
        copy(second[start:stop], out_second[begin:end])
        copy(third[start:stop], out_third[begin:end])


@inlined
def copy(values: Array, out: Array) -> None:
    """Copy values in a loop, which is faster than a call of memcpy for short rows.

    Args:
        values: `[n]`, any type.
        out: `[n]`, same type, written.
    """
    for t in range(len(values)):
        out[t] = values[t]
