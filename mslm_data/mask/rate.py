"""Rates: constant, scheduled by epoch, step or tokens, or drawn for each row."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from mslm_data.mask.part import Part
from mslm_data.mask.rng import RATE, RowRng

Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
"""A number in `[0, 1]`."""

Limit: TypeAlias = Annotated[int, Meta(ge=0)]
"""A maximum, or 0 for no limit."""


class Schedule(Part, frozen=True, kw_only=True):
    """A rate that changes, such as `{shape = "linear", start = 0.3, stop = 0.15, over = 10}`.

    `linear` moves from `start` to `stop` and stays there (Ankner et al. 2024: 0.3 to 0.15; Yang et
    al. 2023: `2p` to 0). `cosine` follows half a cosine wave (Yang et al. 2023). `uniform` draws a
    rate for each row and epoch (Kakogeorgiou et al. 2022: 0.1 to 0.5). `phases` keeps each rate
    until the next phase begins (mmBERT: 0.3, 0.15, 0.05), in TOML `{shape = "phases", phases = [[0,
    0.3], [1_000_000, 0.15]], per = "tokens"}`.

    Rates of `linear` and `cosine` are rounded to 6 decimals, so they are equal on all machines.

    Raises:
        ValueError: A rate is outside `[0, 1]`, `over` is below 1, `start`, `stop` or `phases` is
            missing, or phases do not increase from 0.
    """

    shape: Annotated[
        Literal["linear", "cosine", "uniform", "phases"],
        Meta(description="Shape of the schedule: `linear`, `cosine`, `uniform` or `phases`."),
    ]
    start: Annotated[
        Share | None,
        Meta(description="First rate, or the minimum of `uniform`, in `[0, 1]`. Not for `phases`."),
    ] = None
    stop: Annotated[
        Share | None,
        Meta(
            description="Rate after `over`, or the maximum of `uniform`, in `[0, 1]`. Not for "
            "`phases`."
        ),
    ] = None
    over: Annotated[
        int,
        Meta(
            ge=1,
            description="Number of epochs, steps or tokens from `start` to `stop`, 1 or more. Not "
            "for `uniform` and `phases`.",
        ),
    ] = 1
    phases: Annotated[
        tuple[tuple[int, Share], ...] | None,
        Meta(
            description="Only for `phases`: pairs of a phase's first epoch, step or token, "
            "increasing from 0, and its rate in `[0, 1]`."
        ),
    ] = None
    per: Annotated[
        Literal["epoch", "step", "tokens"],
        Meta(
            description="Unit of `over` and `phases`: the `epoch`, the training `step`, or the "
            "number of `tokens` seen by all ranks before the step. For steps and tokens, pass the "
            "number to `plan`."
        ),
    ] = "epoch"

    def __post_init__(self) -> None:
        if self.shape == "phases":
            self._check_phases()
            return

        if self.phases is not None:
            raise ValueError(f"phases: only for shape 'phases', got shape '{self.shape}'")
        for name, end in (("start", self.start), ("stop", self.stop)):
            if end is None:
                raise ValueError(f"{name}: expected a rate for shape '{self.shape}', got none")

    def _check_phases(self) -> None:
        if self.start is not None or self.stop is not None:
            raise ValueError("start, stop: not for shape 'phases', whose rates are in `phases`")
        if not self.phases:
            raise ValueError(
                "phases: expected a list of [beginning, rate] for shape 'phases', got none"
            )

        beginnings = [beginning for beginning, _ in self.phases]
        if beginnings[0] != 0 or any(a >= b for a, b in pairwise(beginnings)):
            raise ValueError(f"phases: expected beginnings increasing from 0, got {beginnings}")

    @property
    def follows_training(self) -> bool:
        """Whether the rate depends on the training step or the number of tokens seen."""
        return self.shape != "uniform" and self.per != "epoch"

    @property
    def highest(self) -> float:
        """Maximum rate of the schedule."""
        if self.phases is not None:
            return max(rate for _, rate in self.phases)
        return max(self._ends)

    @property
    def _ends(self) -> tuple[float, float]:
        """`start` and `stop`, for shapes other than `phases`."""
        assert self.start is not None  # noqa: S101 - checked when it was made
        assert self.stop is not None  # noqa: S101 - checked when it was made
        return self.start, self.stop

    def at(self, rng: RowRng) -> float | npt.NDArray[np.float64]:
        """Return the current rate: a number, or for `uniform` one number per row, `[N]`.

        Raises:
            ValueError: The rate depends on the step or the tokens, and the number was not passed.
        """
        if self.shape == "uniform":
            start, stop = self._ends
            return start + (stop - start) * rng.uniforms(RATE)

        now = rng.at(self.per)
        if self.phases is not None:
            return [rate for beginning, rate in self.phases if beginning <= now][-1]

        start, stop = self._ends
        progress = min(now / self.over, 1.0)
        if self.shape == "linear":
            remaining = 1 - progress
        else:
            remaining = (1 + math.cos(math.pi * progress)) / 2
        # cos differs in the last bits between machines; 6 decimals do not.
        return round(stop + (start - stop) * remaining, 6)


Rate: TypeAlias = Share | Schedule
"""A number in `[0, 1]`, or a schedule."""


def rate_at(rate: float | Schedule, rng: RowRng) -> float | npt.NDArray[np.float64]:
    """Return the current rate: a number, or one number per row, `[N]`."""
    if isinstance(rate, Schedule):
        return rate.at(rng)
    return rate
