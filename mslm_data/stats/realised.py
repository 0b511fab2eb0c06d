"""The share that a strategy really hides, beside each rate that was asked for."""

from __future__ import annotations

from typing import NamedTuple

from mslm_data.mask.strategy import Strategy
from mslm_data.stats.counts import MaskStats


class RealisedRate(NamedTuple):
    """A rate that was asked for, and what came of it.

    Attributes:
        name: The strategy's option: `elm`, `blm` or `rate`.
        asked: Its value; None for a rate that varies.
        masked: The share that is masked: of the mentions, whole and as ENTITY, for `elm`; of the
            tokens that are not special, as BASE for `blm` and as anything for `rate`.
        of: Of what this is a share: `mentions` or `tokens`.
    """

    name: str
    asked: float | None
    masked: float
    of: str


def effective_rates(strategy: Strategy, stats: MaskStats) -> list[RealisedRate]:
    """Return each rate of a strategy beside the share that is masked.

    They differ where each row's budget is rounded up, and where `rate` counts something else than
    tokens, such as words or listed n-grams. A strategy of a caller's own picks has no such options.
    """
    options = {} if strategy.origin is None else strategy.origin.options
    shares = (
        ("elm", stats.realised_elm, "mentions"),
        ("blm", stats.effective_blm, "tokens"),
        ("rate", stats.realised_rate, "tokens"),
    )

    rates = []
    for name, masked, of in shares:
        if name in options:
            value = options[name]
            asked = float(value) if isinstance(value, float | int) else None
            rates.append(RealisedRate(name, asked, masked, of))
    return rates
