"""Budgets: the number of units or tokens to mask in each row."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from mslm_data.data.ragged import Array
from mslm_data.mask.rate import Limit, Rate, Share, rate_at
from mslm_data.mask.rng import GATE, ROUND, RowRng
from mslm_data.registry import Options

Rounding = Literal["up", "down", "nearest", "random"]


class Budget(Options, frozen=True):
    """The number of units or tokens that a pick may mask in each row.

    Raises:
        ValueError: A rate or probability is outside `[0, 1]`, or a limit is negative.
    """

    rate: Annotated[
        Rate,
        Meta(
            description='Share to mask, in `[0, 1]`. With `order.by = "bernoulli"`, the '
            "probability of each unit instead of a budget."
        ),
    ]
    counts: Annotated[
        Literal["units", "tokens", "all tokens"],
        Meta(
            description="What the budget counts, and the base of the rate: the row's `units`; its "
            "`tokens` without special tokens; or `all tokens`, with special tokens, which are "
            "counted but never masked."
        ),
    ] = "units"
    rounding: Annotated[
        Rounding,
        Meta(
            description="Rounding of `rate * n`. `up` is the exact ceiling. The others compute in "
            "floats, as released code does: `down` truncates, `nearest` rounds half to even, and "
            "`random` is `int(rate * n + u)` with u uniform in `[0, 1)`, so its mean is `rate * "
            "n`."
        ),
    ] = "up"
    min_masked: Annotated[
        int, Meta(ge=0, description="Minimum budget of rows with a non-special token.")
    ] = 0
    max_masked: Annotated[Limit, Meta(description="Maximum budget. Default: no limit.")] = None
    overrun: Annotated[
        Literal["cut", "skip", "stop"],
        Meta(
            description="Action for a unit longer than the remaining budget: `cut` the unit, "
            "`skip` it and try the next, or `stop`."
        ),
    ] = "skip"
    gate: Annotated[Share, Meta(description="Probability that the pick runs on a row.")] = 1.0
    total: Annotated[
        bool, Meta(description="Whether tokens masked by earlier picks count against this budget.")
    ] = False

    def excluded_rows(self, rng: RowRng) -> npt.NDArray[np.bool_] | None:
        """Return the rows excluded by the gate, bool `[N]`, or None without a gate."""
        if self.gate == 1:
            return None
        return rng.uniforms(GATE) >= self.gate

    def quota(
        self, sizes: npt.NDArray[np.int64], real: npt.NDArray[np.int64], rng: RowRng
    ) -> npt.NDArray[np.int64]:
        """Return the budget of each row, int64 `[N]`, as a new array.

        Args:
            sizes: `[N]`, the base of the rate in each row.
            real: `[N]`, the number of non-special tokens. Only read if `min_masked` is set.
            rng: Random numbers of the pick.
        """
        quota = quotas(rate_at(self.rate, rng), sizes, self.rounding, rng)

        if self.max_masked is not None:
            np.minimum(quota, self.max_masked, out=quota)
        if self.min_masked:
            quota[real > 0] = np.maximum(quota[real > 0], self.min_masked)

        excluded = self.excluded_rows(rng)
        if excluded is not None:
            quota[excluded] = 0
        return quota

    def chances(self, rows: int, rng: RowRng) -> npt.NDArray[np.float64]:
        """Return the rate as a probability, float64: `[N]` for each row, or `[]` for all rows.

        Args:
            rows: N.
            rng: Random numbers of the pick.
        """
        rate = rate_at(self.rate, rng)
        if isinstance(rate, float | int) and self.gate == 1:
            return np.array(float(rate))

        chances = np.broadcast_to(rate, rows).astype(np.float64)
        excluded = self.excluded_rows(rng)
        if excluded is not None:
            chances[excluded] = 0
        return chances

    def table(self, rate: float, largest: int) -> npt.NDArray[np.int64]:
        """Return the budgets of rows of size 0 to `largest` as a read-only lookup table.

        Only for budgets without a gate and without `random` rounding.
        """
        # Sizes up to a power of two share a table, so the cache stays small. `1 << bit_length`
        # is always above `largest`.
        table: npt.NDArray[np.int64] = _table(rate, 1 << largest.bit_length(), self.rounding)
        if self.max_masked is not None:
            table = np.minimum(table, self.max_masked)
        if self.min_masked:
            # A row without non-special tokens keeps a budget of 0.
            table = np.append(table[:1], np.maximum(table[1:], self.min_masked))
        return table


def quotas(
    rate: float | npt.NDArray[np.float64],
    sizes: npt.NDArray[np.int64],
    rounding: Rounding,
    rng: RowRng,
) -> npt.NDArray[np.int64]:
    """Return `rate * size` as an integer for each row, int64 `[N]`, as a new array.

    Args:
        rate: In `[0, 1]`: one number, or `[N]`.
        sizes: `[N]`.
        rounding: See `Budget`.
        rng: Random numbers of the pick, for `random`.
    """
    if rounding == "random":
        return (rate * sizes + rng.uniforms(ROUND)).astype(np.int64)

    if isinstance(rate, float | int):
        largest = int(sizes.max(initial=0))
        table: Array = _table(rate, 1 << largest.bit_length(), rounding)
        return table[sizes]

    # A rate drawn for a row is not a decimal typed by the user, so floats are exact enough.
    whole = {"up": np.ceil, "down": np.floor, "nearest": np.rint}[rounding]
    return whole(rate * sizes).astype(np.int64)


def ceil_exact(rate: float, n: int) -> int:
    """Return `ceil(rate * n)` in decimal arithmetic.

    0.14 of 50 is 7; floats give 8. The rate is first rounded to 12 digits, so a computed rate such
    as 3 * 0.05 = 0.15000000000000002 counts as 0.15: 3 of 20 tokens, not 4.
    """
    dividend, divisor = _as_ratio(rate)
    return -(-dividend * n // divisor)


@lru_cache(maxsize=1)  # a table asks for one rate and many sizes
def _as_ratio(rate: float) -> tuple[int, int]:
    """Return the integers of a rate rounded to 12 digits."""
    return Fraction(f"{rate:.12g}").as_integer_ratio()


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
    """Return the budgets of sizes in `[0, length)`."""
    return np.array([_ROUNDINGS[rounding](rate, n) for n in range(length)], np.int64)
