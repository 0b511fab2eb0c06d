"""Count the masks of a strategy at all rates of the paper, in one pass over the rows.

The rates are those of Abaho et al. 2024, Tables 4 and 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mslm_data.data.examples import Examples
from mslm_data.mask.strategy import Strategy
from mslm_data.mask.table import varied
from mslm_data.results import Result
from mslm_data.stats.counts import MaskStats
from mslm_data.stats.tally import Tally

ELMS = (0.25, 0.5, 0.75, 1.0)
"""The paper's rates of ELM."""

BLMS = (0.0, 0.075, 0.15, 0.225)
"""The paper's rates of BLM."""


@dataclass(frozen=True)
class SweepPoint(Result):
    """The masks of a strategy at one pair of rates.

    Attributes:
        elm: Rate of ELM.
        blm: Rate of BLM.
        stats: Counts of the masks, without those of words.
    """

    elm: float
    blm: float
    stats: MaskStats

    def to_json(self) -> dict[str, Any]:
        """Return the rates, and the counts beside them, without histograms."""
        counts = self.stats.to_json()
        numbers = {name: value for name, value in counts.items() if not isinstance(value, tuple)}
        return {"elm": self.elm, "blm": self.blm, **numbers}


def has_both_rates(strategy: Strategy) -> bool:
    """Return whether a strategy has the options `elm` and `blm`, as a sweep requires."""
    return strategy.origin is not None and {"elm", "blm"} <= strategy.origin.options.keys()


def sweep(
    chunks: Callable[[], Iterable[Examples]],
    strategy: Strategy,
    *,
    labels: Sequence[str],
    elms: Sequence[float] = ELMS,
    blms: Sequence[float] = BLMS,
    seed: int = 0,
    epochs: int = 1,
    first_epoch: int = 0,
) -> list[SweepPoint]:
    """Count the masks of a strategy at each pair of rates, in one pass over the rows.

    Args:
        chunks: Function that returns the split's rows in chunks of any size. Called once.
        strategy: A strategy with the options `elm` and `blm`. Its other options stay.
        labels: Labels, by `span_labels`.
        elms: Rates of ELM. Default: the paper's.
        blms: Rates of BLM. Default: the paper's.
        seed: Seed of the training. Default: 0.
        epochs: Number of epochs to plan for each pair. Default: 1.
        first_epoch: First of these epochs. Default: 0.

    Returns:
        A point for each pair of rates, sorted by `elm`, then by `blm`.

    Raises:
        ValueError: `epochs` is below 1, the strategy has no such options, or a rate is invalid.
    """
    if not has_both_rates(strategy):
        raise ValueError("sweep: expected a strategy with the options elm and blm, such as joint")

    rates = [(elm, blm) for elm in elms for blm in blms]
    strategies = [varied(strategy, elm=elm, blm=blm) for elm, blm in rates]
    tallies = [Tally(labels, epochs, words=False) for _ in rates]
    all_epochs = range(first_epoch, first_epoch + epochs)

    for examples in chunks():
        for at_rates, tally in zip(strategies, tallies, strict=True):
            plans = (at_rates.plan(examples, seed=seed, epoch=epoch) for epoch in all_epochs)
            tally.add(examples, plans)

    return [
        SweepPoint(elm, blm, tally.stats())
        for (elm, blm), tally in zip(rates, tallies, strict=True)
    ]
