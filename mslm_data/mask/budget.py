"""Budgets: the number of units or tokens to mask in each row."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from mslm_data.mask.ingredient import Ingredient
from mslm_data.mask.rate import Limit, Rate, Share, rate_at
from mslm_data.mask.rng import GATE, ROUND, RowRng

Rounding = Literal["up", "down", "nearest", "random"]

_TRILLION = 10**12


class Budget(Ingredient, frozen=True):
    """The number of units or tokens that a pick may mask in each row."""

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
    max_masked: Annotated[Limit, Meta(description="Maximum budget, or 0 for no limit.")] = 0
    overrun: Annotated[
        Literal["cut", "skip", "stop"],
        Meta(
            description="Action for a unit longer than the remaining budget: `cut` the unit, "
            "`skip` it and try the next, or `stop`."
        ),
    ] = "skip"
    gate: Annotated[Share, Meta(description="Probability that the pick runs on a row.")] = 1.0
    total: Annotated[
        bool,
        Meta(
            description="Whether the budget is that of all picks so far: tokens masked by earlier "
            "picks count against it."
        ),
    ] = False

    def quota(
        self, sizes: npt.NDArray[np.int64], real: npt.NDArray[np.int64], rng: RowRng
    ) -> npt.NDArray[np.int64]:
        """Return the budget of each row, int64 `[N]`, as a new array.

        Args:
            sizes: `[N]`, the base of the rate in each row.
            real: `[N]`, the number of non-special tokens.
            rng: Random numbers of the pick.
        """
        quota = quotas(rate_at(self.rate, rng), sizes, self.rounding, rng)
        if self.max_masked:
            np.minimum(quota, self.max_masked, out=quota)
        if self.min_masked:
            quota[real > 0] = np.maximum(quota[real > 0], self.min_masked)
        if self.gate < 1:
            quota[rng.uniforms(GATE) >= self.gate] = 0
        return quota

    def chances(self, rng: RowRng) -> npt.NDArray[np.float64]:
        """Return the rate of each row as a probability, float64 `[N]`."""
        chances = np.full(len(rng.keys), rate_at(self.rate, rng), np.float64)
        if self.gate < 1:
            chances[rng.uniforms(GATE) >= self.gate] = 0
        return chances


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
    if rounding == "up":
        exact: npt.NDArray[np.int64] = ceil_exact(rate, sizes)
        return exact

    products: npt.NDArray[Any] = rate * sizes
    if rounding == "random":
        products = products + rng.uniforms(ROUND)
    if rounding == "nearest":
        products = np.rint(products)
    return products.astype(np.int64)


def ceil_exact(rate: float | npt.NDArray[np.float64], sizes: Any) -> Any:
    """Return `ceil(rate * size)` of integers in decimal arithmetic.

    0.14 of 50 is 7; floats give 8. The rate is first rounded to 12 decimals, so a computed rate
    such as 3 * 0.05 = 0.15000000000000002 counts as 0.15: 3 of 20 tokens, not 4.

    Args:
        rate: In `[0, 1]`: one number, or `[N]`.
        sizes: An integer or int64 `[N]`, each below 2**23.
    """
    trillionths = np.rint(np.multiply(rate, _TRILLION)).astype(np.int64)
    return -(-trillionths * sizes // _TRILLION)
