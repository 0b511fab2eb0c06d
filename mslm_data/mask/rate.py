"""Rates: a share that stays, follows the epoch or the step, or is drawn by each row."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from mslm_data.mask.draws import RATE, Draws


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A rate that changes; in TOML `{shape = "linear", start = 0.3, stop = 0.15, over = 10}`.

    `linear` goes straight from one end to the other and stays there (Ankner et al. 2024: 0.3 to
    0.15; Yang et al. 2023: `2p` to 0). `cosine` goes along half a wave (Yang et al. 2023).
    `uniform` draws a rate for each row in each epoch (Kakogeorgiou et al. 2022: 0.1 to 0.5).
    Scheduled rates are rounded to 6 decimals, so that every machine counts the same.

    Attributes:
        shape: `linear`, `cosine` or `uniform`.
        start: Rate at the first epoch or step, or the lower end of `uniform`; in `[0, 1]`.
        stop: Rate from `over` epochs or steps on, or the upper end of `uniform`; in `[0, 1]`.
        over: Epochs or steps from one end to the other, 1 or more; unused by `uniform`.
        per: Whether epochs or steps are counted. `plan` must be told the step where steps are.

    Raises:
        ValueError: An end outside `[0, 1]`, or `over` below 1.
    """

    shape: Literal["linear", "cosine", "uniform"]
    start: float
    stop: float
    over: int = 1
    per: Literal["epoch", "step"] = "epoch"

    def __post_init__(self) -> None:
        check_share("start", self.start)
        check_share("stop", self.stop)
        if self.over < 1:
            raise ValueError(f"over: expected 1 or more, got {self.over}")

    @property
    def follows_step(self) -> bool:
        """Whether the rate depends on the step."""
        return self.shape != "uniform" and self.per == "step"

    def at(self, draws: Draws) -> float | npt.NDArray[np.float64]:
        """Return the rate of this epoch or step, or of each row, `[N]`.

        Raises:
            ValueError: The rate follows the step and none is given.
        """
        if self.shape == "uniform":
            return self.start + (self.stop - self.start) * draws.uniforms(RATE)

        now = draws.epoch if self.per == "epoch" else draws.step
        if now is None:
            raise ValueError("step: expected one, as a rate follows it; pass plan(…, step=…)")

        done = min(now / self.over, 1.0)
        if self.shape == "linear":
            left = 1 - done
        else:
            left = (1 + math.cos(math.pi * done)) / 2
        return round(self.stop + (self.start - self.stop) * left, 6)


Rate: TypeAlias = Annotated[float | Schedule, "rate"]
"""A number in `[0, 1]`, or a schedule of such."""

Share: TypeAlias = Annotated[float, "share"]
"""A number in `[0, 1]`."""

Limit: TypeAlias = Annotated[int | None, "limit"]
"""A maximum of 0 or more; None for no limit."""


def rate_at(rate: float | Schedule, draws: Draws) -> float | npt.NDArray[np.float64]:
    """Return a rate as a number, or as one number for each row, `[N]`."""
    if isinstance(rate, Schedule):
        return rate.at(draws)
    return rate


def follows_step(rate: float | Schedule) -> bool:
    """Return whether a rate depends on the step."""
    return isinstance(rate, Schedule) and rate.follows_step


def check_rate(name: str, rate: float | Schedule) -> None:
    """Refuse a constant rate outside `[0, 1]`; a schedule has checked itself.

    Raises:
        ValueError: The rate is outside `[0, 1]`.
    """
    if not isinstance(rate, Schedule):
        check_share(name, rate)


def check_share(name: str, value: float) -> None:
    """Refuse a number outside `[0, 1]`.

    Raises:
        ValueError: The number is outside `[0, 1]`.
    """
    if not 0 <= value <= 1:
        raise ValueError(f"{name}: expected a rate in [0, 1], got {value}")


def check_limit(name: str, value: int | None) -> None:
    """Refuse a negative limit.

    Raises:
        ValueError: The limit is below 0.
    """
    if value is not None and value < 0:
        raise ValueError(f"{name}: expected 0 or more, or none for no limit, got {value}")


def check_option(name: str, hint: Any, value: Any) -> None:
    """Check an option whose type is `Rate`, `Share` or `Limit`; others pass.

    Args:
        name: The option's name, for the message.
        hint: Its type, with `Annotated` kept.
        value: Its value.

    Raises:
        ValueError: The value is out of range.
    """
    checks = {"rate": check_rate, "share": check_share, "limit": check_limit}
    for mark in getattr(hint, "__metadata__", ()):
        checks[mark](name, value)
