"""Copy chosen rows of ragged columns."""

from __future__ import annotations

from typing import TypeAlias

from mslm_data.kernels._jit import Array, inlined, kernel

Arrays: TypeAlias = tuple[Array, Array, Array]


@kernel
def renumber(values: Array, numbers: Array, out: Array) -> None:
    """Look numbers up in a table, without the copy of all indices that NumPy makes first.

    Args:
        values: integers `[T]`, places in `numbers`.
        numbers: integers `[.]`.
        out: integers `[T]`, written.
    """
    for t in range(len(values)):
        out[t] = numbers[values[t]]


@kernel
def gather(rows: Array, offsets: Array, values: Array, to: Array, out: Array) -> None:
    """Copy chosen rows of a ragged column.

    Args:
        rows: integers `[R]`, each in `[0, N)`, in any order; a row may be chosen several times.
        offsets: integers `[N + 1]` of the source rows.
        values: `[T]`, any type.
        to: int64 `[R]` or longer: where in `out` each copy begins.
        out: of the type of `values`, written where copies lie.
    """
    for r in range(len(rows)):
        start, stop = offsets[rows[r]], offsets[rows[r] + 1]
        begin = to[r]
        copy(values[start:stop], out[begin : begin + stop - start])


@kernel
def gather_alike(rows: Array, offsets: Array, columns: Arrays, to: Array, out: Arrays) -> None:
    """Copy chosen rows of three columns that share their offsets.

    One pass over the rows, because most of the time is spent waiting for memory.

    Args:
        rows: integers `[R]`, each in `[0, N)`, in any order; a row may be chosen several times.
        offsets: integers `[N + 1]` of the source rows.
        columns: Three arrays `[T]`, of any types.
        to: int64 `[R]` or longer: where in the `out` arrays each copy begins.
        out: Three arrays of the columns' types, written where copies lie.
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
    """Copy values to an array of the same length, by a loop: rows are too short for a memcpy call.

    Args:
        values: `[n]`, any type.
        out: `[n]`, of the same type, written.
    """
    for t in range(len(values)):
        out[t] = values[t]
