"""The effective share of masked tokens or mentions, for each rate of a strategy."""

from __future__ import annotations

from dataclasses import dataclass

from mslm_data.mask.strategy import Strategy
from mslm_data.stats.counts import MaskStats

ROUNDED_UP = (
    "each row's budget is rounded up, so rows with few mentions or tokens are masked above the rate"
)
"""Explanation for `EffectiveRate.is_rounded_up`."""
_FAR_ABOVE = 1.1
"""Minimum ratio of masked share to rate to explain."""


@dataclass(frozen=True)
class EffectiveRate:
    """A rate of a strategy, and the share that is masked.

    The names are the keys of `rates` in `mask-stats --json`.

    Attributes:
        name: The strategy's option: `elm`, `blm` or `rate`.
        asked: Its value, or None for a rate that varies.
        masked: The masked share: for `elm` of mentions, whole and as ENTITY; for `blm` of
            non-special tokens, as BASE; for `rate` of non-special tokens.
        of: The base of the share: `mentions` or `tokens`.
    """

    name: str
    asked: float | None
    masked: float
    of: str

    @property
    def is_rounded_up(self) -> bool:
        """Whether the masked share exceeds `elm` or `blm` by more than a tenth."""
        if self.name == "rate" or self.asked is None:
            return False
        return 0 < self.asked * _FAR_ABOVE < self.masked

    def cells(self) -> tuple[str, str, str, str]:
        """Return the name, the rate, the masked share and its base, for tables."""
        name = self.name if self.name == "rate" else self.name.upper()
        asked = "varies" if self.asked is None else f"{self.asked:.2%}"
        return name, asked, f"{self.masked:.2%}", f"of the {self.of}"


def effective_rates(strategy: Strategy, stats: MaskStats) -> list[EffectiveRate]:
    """Return the rates of a strategy with the masked shares; none for a strategy made of picks.

    They differ because each row's budget is rounded up, and because `rate` may count words or
    n-grams.
    """
    options = {} if strategy.origin is None else strategy.origin.options
    shares = (
        ("elm", stats.realised_elm, "mentions"),
        ("blm", stats.effective_blm, "tokens"),
        ("rate", stats.realised_rate, "tokens"),
    )

    rates = []
    for name, masked, base in shares:
        if name in options:
            value = options[name]
            asked = float(value) if isinstance(value, float | int) else None
            rates.append(EffectiveRate(name, asked, masked, base))
    return rates
