"""Budgets: the number of units or tokens that a pick masks in each row."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt

from mslm_data.data.ragged import Array
from mslm_data.mask.rate import Rate, check_limit, check_rate, check_share, rate_at
from mslm_data.mask.rng import GATE, ROUND, RowRng
from mslm_data.registry import Help

Rounding = Literal["up", "down", "nearest", "random"]


@dataclass(frozen=True, slots=True)
class Budget:
    """The number of units or tokens that a pick may mask in each row.

    Raises:
        ValueError: A rate or chance outside `[0, 1]`, or a negative limit.
    """

    rate: Annotated[
        Rate,
        Help(
            'Share to mask, in `[0, 1]`. With `order.by = "bernoulli"` it is the probability of '
            "each unit, and there is no budget."
        ),
    ]
    counts: Annotated[
        Literal["units", "tokens", "all tokens"],
        Help(
            "What the rate is multiplied by, and what the budget counts: the row's `units`; its "
            "`tokens` without special tokens; or `all tokens`, with special tokens, which are "
            "counted but never masked."
        ),
    ] = "units"
    rounding: Annotated[
        Rounding,
        Help(
            "How `rate * n` is rounded: `up` is the exact ceiling. The others use floats, as "
            "released code does: `down` truncates, `nearest` rounds half to even, and `random` is "
            "`int(rate * n + u)` with u uniform in `[0, 1)`, whose mean is `rate * n`."
        ),
    ] = "up"
    min_masked: Annotated[
        int, Help("Minimum of the budget in rows that have a token besides special ones.")
    ] = 0
    max_masked: Annotated[int | None, Help("Maximum of the budget. Default: no limit.")] = None
    overrun: Annotated[
        Literal["cut", "skip", "stop"],
        Help(
            "What to do with a unit longer than the rest of the budget: `cut` it, `skip` it and "
            "try the next, or `stop`."
        ),
    ] = "skip"
    gate: Annotated[float, Help("Probability that the pick runs on a row.")] = 1.0
    total: Annotated[
        bool, Help("Whether tokens masked by earlier picks count against this budget.")
    ] = False

    def __post_init__(self) -> None:
        check_rate("rate", self.rate)
        check_share("gate", self.gate)
        check_limit("min_masked", self.min_masked)
        check_limit("max_masked", self.max_masked)

    def rows_out(self, rng: RowRng) -> npt.NDArray[np.bool_] | None:
        """Return the rows that the gate excludes, bool `[N]`; None if there is no gate."""
        if self.gate == 1:
            return None
        return rng.uniforms(GATE) >= self.gate

    def quota(
        self, sizes: npt.NDArray[np.int64], real: npt.NDArray[np.int64], rng: RowRng
    ) -> npt.NDArray[np.int64]:
        """Return the budget of each row, `[N]`, a new array.

        Args:
            sizes: `[N]`, the numbers that the rate is multiplied by.
            real: `[N]`, tokens that are not special; used only if `min_masked` is set.
            rng: Draws for the pick.
        """
        quota = quotas(rate_at(self.rate, rng), sizes, self.rounding, rng)

        if self.max_masked is not None:
            np.minimum(quota, self.max_masked, out=quota)
        if self.min_masked:
            quota[real > 0] = np.maximum(quota[real > 0], self.min_masked)

        out = self.rows_out(rng)
        if out is not None:
            quota[out] = 0
        return quota

    def chances(self, rows: int, rng: RowRng) -> npt.NDArray[np.float64]:
        """Return the rate as a probability for each row, `[N]`, or one for all, `[]`.

        Args:
            rows: N.
            rng: Draws for the pick.
        """
        rate = rate_at(self.rate, rng)
        if isinstance(rate, float | int) and self.gate == 1:
            return np.array(float(rate))

        chances = np.broadcast_to(rate, rows).astype(np.float64)
        out = self.rows_out(rng)
        if out is not None:
            chances[out] = 0
        return chances

    def table(self, rate: float, largest: int) -> npt.NDArray[np.int64]:
        """Return the budget of a row of size n, for n from 0 to `largest`; read-only.

        Only for budgets without a gate whose rounding is not `random`.
        """
        table: npt.NDArray[np.int64] = _table(rate, 1 << largest.bit_length(), self.rounding)
        if self.max_masked is not None:
            table = np.minimum(table, self.max_masked)
        if self.min_masked:
            table = np.append(table[:1], np.maximum(table[1:], self.min_masked))
        return table


def quotas(
    rate: float | npt.NDArray[np.float64],
    sizes: npt.NDArray[np.int64],
    rounding: Rounding,
    rng: RowRng,
) -> npt.NDArray[np.int64]:
    """Return `rate * size` as an integer for each row, `[N]`, a new array.

    Args:
        rate: In `[0, 1]`; one number, or one for each row.
        sizes: `[N]`.
        rounding: See `Budget`.
        rng: Draws for the pick, used by `random`.
    """
    if rounding == "random":
        return (rate * sizes + rng.uniforms(ROUND)).astype(np.int64)

    if isinstance(rate, float | int):
        largest = int(sizes.max(initial=0))
        table: Array = _table(rate, 1 << largest.bit_length(), rounding)
        return table[sizes]

    # A rate drawn for a row is a float, so no decimal number is meant exactly.
    whole = {"up": np.ceil, "down": np.floor, "nearest": np.rint}[rounding]
    return whole(rate * sizes).astype(np.int64)


def ceil_exact(rate: float, n: int) -> int:
    """Return `ceil(rate * n)` in decimals: 0.14 of 50 is 7, where floats give 8.

    The rate is rounded to 12 digits first. So 3 * 0.05, which is 0.15000000000000002 in floats, is
    0.15, and 3 of 20 tokens are masked, not 4.
    """
    return math.ceil(Fraction(f"{rate:.12g}") * n)


def floor_float(rate: float, n: int) -> int:
    """Return `int(rate * n)` in floats, as released code does: 0.29 of 100 is 28."""
    return int(rate * n)


def nearest_even(rate: float, n: int) -> int:
    """Return `round(rate * n)` in floats, half to even."""
    return round(rate * n)


_ROUNDINGS: dict[str, Callable[[float, int], int]] = {
    "up": ceil_exact,
    "down": floor_float,
    "nearest": nearest_even,
}


@lru_cache(maxsize=256)
def _table(rate: float, length: int, rounding: Rounding) -> Array:
    """Return the budgets for n in `[0, length)`. Lengths are powers of two, so few are cached."""
    return np.array([_ROUNDINGS[rounding](rate, n) for n in range(length)], np.int64)
