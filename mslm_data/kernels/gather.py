"""Moves ragged rows, and measures them."""

from __future__ import annotations

from typing import TypeAlias

from mslm_data.kernels._jit import Array, kernel

Arrays: TypeAlias = tuple[Array, Array, Array]


@kernel
def gather(rows: Array, offsets: Array, values: Array, to: Array, out: Array) -> None:
    """Copy chosen rows of a ragged column.

    Args:
        rows: integers `[R]`, each in `[0, N)`, in any order, also several times.
        offsets: integers `[N + 1]` of the source rows.
        values: `[T]`, any type.
        to: int64 `[R]` or longer: where in `out` each copy begins.
        out: written.
    """
    for r in range(len(rows)):
        source = values[offsets[rows[r]] : offsets[rows[r] + 1]]
        copy = out[to[r] : to[r] + len(source)]
        for t in range(len(source)):
            copy[t] = source[t]


@kernel
def gather_alike(rows: Array, offsets: Array, columns: Arrays, to: Array, out: Arrays) -> None:
    """Copy chosen rows of three columns that share their offsets; in one pass, as most of it is waiting for memory.

    Args:
        rows: integers `[R]`, each in `[0, N)`, in any order, also several times.
        offsets: integers `[N + 1]` of the source rows.
        columns: `[T]` each, any type.
        to: int64 `[R]` or longer: where in `out` each copy begins.
        out: of the columns' types, written.
    """
    first, second, third = columns
    out_first, out_second, out_third = out
    for r in range(len(rows)):
        start, stop = offsets[rows[r]], offsets[rows[r] + 1]
        copy(first[start:stop], out_first[to[r] : to[r] + stop - start])
        copy(second[start:stop], out_second[to[r] : to[r] + stop - start])
        copy(third[start:stop], out_third[to[r] : to[r] + stop - start])


@kernel
def copy(values: Array, out: Array) -> None:
    """Copy values to an array of the same length."""
    for t in range(len(values)):
        out[t] = values[t]


@kernel
def most_of_a_row(offsets: Array) -> int:
    """Return the number of items of the row that has most, 1 at least."""
    most = 1
    for i in range(len(offsets) - 1):
        most = max(most, offsets[i + 1] - offsets[i])
    return most
