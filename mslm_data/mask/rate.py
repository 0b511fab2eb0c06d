"""Rates: constant, scheduled by epoch, step or tokens, or drawn for each row."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from mslm_data.mask.ingredient import Ingredient
from mslm_data.mask.rng import RATE, RowRng

Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
"""A number in `[0, 1]`."""

Limit: TypeAlias = Annotated[int, Meta(ge=0)]
"""A maximum, or 0 for no limit."""


Unit: TypeAlias = Annotated[
    Literal["epoch", "step", "tokens"],
    Meta(
        description="What the schedule follows: the `epoch`, the training `step`, or the number of "
        "`tokens` seen by all ranks before the step. For steps and tokens, pass the number to "
        "`plan`."
    ),
]


class Linear(Ingredient, frozen=True, kw_only=True, tag_field="shape", tag="linear"):
    """A rate that moves from `start` to `stop`, and stays there (Ankner et al. 2024: 0.3 to 0.15).

    Such as `{shape = "linear", start = 0.3, stop = 0.15, over = 10}`. It is rounded to 6 decimals,
    so it is equal on all machines.
    """

    start: Annotated[Share, Meta(description="First rate.")]
    stop: Annotated[Share, Meta(description="Rate after `over`.")]
    over: Annotated[
        int, Meta(ge=1, description="Number of epochs, steps or tokens from `start` to `stop`.")
    ] = 1
    per: Unit = "epoch"

    @property
    def follows_training(self) -> bool:
        return self.per != "epoch"

    def at(self, rng: RowRng) -> float:
        """Return the current rate."""
        now = rng.at(self.per)
        progress = min(now / self.over, 1.0)
        return round(self.stop + (self.start - self.stop) * self._remaining(progress), 6)

    def _remaining(self, progress: float) -> float:
        """Return the share of the way that is left, for the share of `over` that has passed."""
        return 1 - progress


class Cosine(Linear, frozen=True, kw_only=True, tag="cosine"):
    """A rate that moves along half a cosine wave, and stays there (Yang et al. 2023: `2p` to 0)."""

    def _remaining(self, progress: float) -> float:
        # cos differs in the last bits between machines; 6 decimals do not.
        return (1 + math.cos(math.pi * progress)) / 2


class Uniform(Ingredient, frozen=True, kw_only=True, tag_field="shape", tag="uniform"):
    """A rate drawn for each row and epoch (Kakogeorgiou et al. 2022: 0.1 to 0.5)."""

    start: Annotated[Share, Meta(description="Minimum rate.")]
    stop: Annotated[Share, Meta(description="Maximum rate.")]

    def at(self, rng: RowRng) -> npt.NDArray[np.float64]:
        """Return the rate of each row, `[N]`."""
        return self.start + (self.stop - self.start) * rng.uniforms(RATE)


class Phases(Ingredient, frozen=True, kw_only=True, tag_field="shape", tag="phases"):
    """A rate that stays until the next phase begins (mmBERT: 0.3, 0.15, 0.05).

    Such as `{shape = "phases", phases = [[0, 0.3], [1_000_000, 0.15]], per = "tokens"}`.

    Raises:
        ValueError: Phases do not increase from 0.
    """

    phases: Annotated[
        tuple[tuple[int, Share], ...],
        Meta(
            min_length=1,
            description="Pairs of a phase's first epoch, step or token, increasing from 0, and its "
            "rate.",
        ),
    ]
    per: Unit = "epoch"

    def __post_init__(self) -> None:
        beginnings = [beginning for beginning, _ in self.phases]
        if beginnings[:1] != [0] or any(a >= b for a, b in pairwise(beginnings)):
            raise ValueError(f"phases: expected beginnings increasing from 0, got {beginnings}")

    @property
    def follows_training(self) -> bool:
        return self.per != "epoch"

    def at(self, rng: RowRng) -> float:
        """Return the current rate."""
        now = rng.at(self.per)
        return [rate for beginning, rate in self.phases if beginning <= now][-1]


Rate: TypeAlias = Share | Linear | Cosine | Uniform | Phases
"""A number in `[0, 1]`, or a schedule."""


def rate_at(rate: Rate, rng: RowRng) -> float | npt.NDArray[np.float64]:
    """Return the current rate: a number, or one number per row, `[N]`.

    Raises:
        ValueError: The rate depends on the step or the tokens, and the number was not passed.
    """
    return rate if isinstance(rate, float | int) else rate.at(rng)


def highest_rate(rate: Rate) -> float:
    """Return the maximum of a rate."""
    if isinstance(rate, float | int):
        return rate
    if isinstance(rate, Phases):
        return max(share for _, share in rate.phases)
    return max(rate.start, rate.stop)
