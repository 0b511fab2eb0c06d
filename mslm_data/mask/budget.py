"""How many of n to choose at a rate: exact, by a table, so that a rounding rule needs no kernel of its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from mslm_data.data.ragged import Array
from mslm_data.mask.draws import ROUND, Draws

Rounding = Literal["up", "down", "nearest", "random"]
"""`up` is exact, the rest are as the released codes count, in floats: `down` is `int(rate * n)`, `nearest` rounds half
to even, `random` is `int(rate * n + u)` with u in `[0, 1)`, so that its mean is `rate * n`."""


def ceil_exact(rate: float, n: int) -> int:
    """Return `ceil(rate * n)`, the rate being the decimal it is written as: 0.14 of 50 is 7 (8 in floats)."""
    return math.ceil(Fraction(str(rate)) * n)


def floor_float(rate: float, n: int) -> int:
    """Return `int(rate * n)` in floats, as the released code counts; 0.29 of 100 is 28 so."""
    return int(rate * n)


def nearest_even(rate: float, n: int) -> int:
    """Return `round(rate * n)` in floats, half to even."""
    return round(rate * n)


_ROUNDINGS: dict[str, Callable[[float, int], int]] = {
    "up": ceil_exact,
    "down": floor_float,
    "nearest": nearest_even,
}


def quotas(
    rate: float | npt.NDArray[np.float64],
    sizes: npt.NDArray[np.int64],
    rounding: Rounding,
    draws: Draws,
) -> npt.NDArray[np.int64]:
    """Return how many to choose from each row, `[N]`, the caller's own to change.

    Args:
        rate: In `[0, 1]`, or one for each row.
        sizes: `[N]`: how many the rate is of, row by row.
        rounding: What makes a whole number of `rate * size`.
        draws: Of the stage, for `random`.
    """
    if rounding == "random":
        return (rate * sizes + draws.uniforms(ROUND)).astype(np.int64)
    if isinstance(rate, float | int):
        largest = int(sizes.max(initial=0))
        return budgets(rate, largest, rounding)[sizes]
    products = rate * sizes
    whole = {"up": np.ceil, "down": np.floor, "nearest": np.rint}[rounding](products)
    return whole.astype(np.int64)


def budgets(
    rate: float, largest: int, rounding: Rounding, least: int = 0, most: int | None = None
) -> npt.NDArray[np.int64]:
    """Return how many to choose from a row of n, for n up to `largest` at least; not to be changed.

    Args:
        rate: In `[0, 1]`.
        largest: The largest row.
        rounding: Any but `random`.
        least: At least so many, where n is not 0.
        most: At most so many; None is no limit.
    """
    table: npt.NDArray[np.int64] = _table(rate, 1 << largest.bit_length(), rounding)
    if most is not None:
        table = np.minimum(table, most)
    return np.append(table[:1], np.maximum(table[1:], least)) if least else table


@lru_cache(maxsize=256)
def _table(rate: float, length: int, rounding: Rounding) -> Array:
    """Return the counts for n in `[0, length)`; lengths are powers of two, so that few tables serve all batches."""
    return np.array([_ROUNDINGS[rounding](rate, n) for n in range(length)], np.int64)
