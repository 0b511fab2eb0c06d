"""Check row numbers and other numbers that users pass."""

from __future__ import annotations

import operator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

RowNumbers: TypeAlias = npt.NDArray[np.int64]


def is_number(value: Any) -> bool:
    """Return whether a value is a number of Python or NumPy, and not a truth value."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def is_integer(value: Any) -> bool:
    """Return whether a value is an integer of Python or NumPy, and not a truth value."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_rows(rows: Any, stop: int) -> RowNumbers:
    """Convert row numbers to int64 `[R]`, and check that all are in `[0, stop)`.

    Raises:
        IndexError: A row is out of range.
        TypeError: The rows are not integers, but for example a boolean mask.
    """
    numbers = np.asarray(rows)
    if numbers.size and (numbers.dtype.kind not in "iu" or numbers.ndim != 1):
        raise TypeError(
            f"rows: expected a sequence of whole numbers, got {numbers.dtype} with "
            f"{numbers.ndim} dimensions"
        )
    if numbers.size and (numbers.min() < 0 or numbers.max() >= stop):
        raise IndexError(
            f"rows: expected numbers from 0 to {stop - 1}, got {numbers.min()} to {numbers.max()}"
        )
    return numbers.astype(np.int64, copy=False)


def resolve_stop(start: int, stop: int | None, rows: int) -> int:
    """Return the end of a row range; None stands for the number of rows.

    Raises:
        IndexError: The range is not within `[0, rows]`.
    """
    stop = rows if stop is None else stop
    if not 0 <= start <= stop <= rows:
        raise IndexError(f"rows: expected 0 <= start <= stop <= {rows}, got [{start}, {stop})")
    return stop


def resolve_row(row: Any, rows: int) -> int:
    """Convert a row index to a non-negative index; negative ones count from the end.

    Raises:
        IndexError: The row is out of range.
        TypeError: `row` is not an integer, but for example a slice.
    """
    try:
        number = operator.index(row)
    except TypeError:
        raise TypeError(
            f"row: expected an integer, got {type(row).__name__}; for several rows use "
            "examples(start, stop) of a split, or take(numbers)"
        ) from None

    if not -rows <= number < rows:
        raise IndexError(f"row: expected a number below {rows}, the number of rows, got {number}")

    return number % rows
