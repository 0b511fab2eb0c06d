"""Count the masks of a strategy at all rates of the paper, in one pass over the rows.

The rates are those of Abaho et al. 2024, Tables 4 and 5.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from mslm_data.data.examples import Examples
from mslm_data.data.length_table import LengthTable
from mslm_data.kernels.tally import tally_rows, tally_units
from mslm_data.mask.strategy import Strategy
from mslm_data.mask.table import varied
from mslm_data.stats.counts import LONGEST_RUN, LengthCounts
from mslm_data.stats.tally import LENGTH_COLUMNS, check_epochs, count_row_words, count_rows
from mslm_data.stats.weights import MaskSpecificWeights

ELMS = (0.25, 0.5, 0.75, 1.0)
"""The paper's rates of ELM."""

BLMS = (0.0, 0.075, 0.15, 0.225)
"""The paper's rates of BLM."""

LIMIT_STEP = 0.0005
"""Step between the rates of BLM that `find_clip_limits` tries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """Counts of the masks of a strategy at one pair of rates.

    Attributes:
        elm: Rate of ELM.
        blm: Rate of BLM.
        epochs: Number of epochs over which masked tokens are counted.
        mean_words: Mean number of words per row; 0 without rows.
        realised_elm: Share of mentions with every token masked as ENTITY; 0 without mentions.
        whole: Counts of all rows.
        shorter: Counts of rows with fewer words than the mean.
        longer: Counts of rows with more words than the mean.
    """

    elm: float
    blm: float
    epochs: int
    mean_words: float
    realised_elm: float
    whole: LengthCounts
    shorter: LengthCounts
    longer: LengthCounts

    @property
    def weights(self) -> MaskSpecificWeights:
        """The paper's loss weights, from all rows."""
        return MaskSpecificWeights.from_counts(self.whole.n_elm, self.whole.n_blm)

    @property
    def effective_blm(self) -> float:
        """Share of non-special tokens masked as BASE; 0 without tokens."""
        tokens = self.whole.maskable_tokens * self.epochs
        return self.whole.n_blm / tokens if tokens else 0.0

    def rate(self, counts: LengthCounts) -> float:
        """Return the masked share of the non-special tokens of some rows; 0 without tokens."""
        tokens = counts.maskable_tokens * self.epochs
        return (counts.n_elm + counts.n_blm) / tokens if tokens else 0.0


def has_both_rates(strategy: Strategy) -> bool:
    """Return whether a strategy has the options `elm` and `blm`, as a sweep requires."""
    return strategy.origin is not None and {"elm", "blm"} <= strategy.origin.options.keys()


def sweep(
    chunks: Callable[[], Iterable[Examples]],
    strategy: Strategy,
    *,
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
    check_epochs(epochs)
    if not has_both_rates(strategy):
        raise ValueError("sweep: expected a strategy with the options elm and blm, such as joint")

    rates = [(elm, blm) for elm in elms for blm in blms]
    strategies = [varied(strategy, elm=elm, blm=blm) for elm, blm in rates]
    tables = [LengthTable(LENGTH_COLUMNS) for _ in rates]
    runs = np.zeros(LONGEST_RUN + 1, np.int64)  # output of the kernel, unused here
    masked_mentions = [0] * len(rates)
    num_mentions = 0

    for examples in chunks():
        # Counts without masks are the same for all rates.
        words = count_row_words(examples)
        rows = count_rows(examples)
        masked = np.empty((len(examples), 2), np.int64)

        starts = examples.span_starts
        lengths = examples.span_ends.values - starts.values
        in_mentions = np.empty((len(lengths), 2), np.int64)
        num_mentions += len(lengths)

        for number, (at_rates, table) in enumerate(zip(strategies, tables, strict=True)):
            rows[:, 3:] = 0
            for epoch in range(first_epoch, first_epoch + epochs):
                kinds = at_rates.plan(examples, seed=seed, epoch=epoch).kinds
                tally_rows(kinds.offsets, kinds.values, runs, masked)
                rows[:, 3:] += masked

                tally_units(
                    kinds.offsets,
                    starts.offsets,
                    starts.values,
                    examples.span_ends.values,
                    kinds.values,
                    in_mentions,
                )
                masked_mentions[number] += int(np.count_nonzero(in_mentions[:, 0] == lengths))
            table.add(words, rows)

    points = []
    all_mentions = num_mentions * epochs
    for (elm, blm), table, whole_mentions in zip(rates, tables, masked_mentions, strict=True):
        whole, shorter, longer = (LengthCounts(*sums.tolist()) for sums in table.groups())
        points.append(
            SweepPoint(
                elm=elm,
                blm=blm,
                epochs=epochs,
                mean_words=table.mean_words(),
                realised_elm=whole_mentions / all_mentions if all_mentions else 0.0,
                whole=whole,
                shorter=shorter,
                longer=longer,
            )
        )
    return points


def clip_brackets(points: Sequence[SweepPoint]) -> dict[float, tuple[float, float]]:
    """Return the rates of BLM between which both clips of Eq. 3 cease to fire.

    Args:
        points: Points of a sweep, sorted by `elm`, then by `blm`.

    Returns:
        Rate of ELM -> neighbouring rates of BLM: both clips fire at the first, and not at the
        second. Rates of ELM at which both clips fire at all points, or at none, are missing.
    """
    return {
        lower.elm: (lower.blm, higher.blm)
        for lower, higher in itertools.pairwise(points)
        if lower.elm == higher.elm and lower.weights.saturated and not higher.weights.saturated
    }


def find_clip_limits(
    chunks: Callable[[], Iterable[Examples]],
    strategy: Strategy,
    points: Sequence[SweepPoint],
    *,
    seed: int = 0,
    epoch: int = 0,
) -> dict[float, float]:
    """Find the lowest rate of BLM without both clips of Eq. 3, for each rate of ELM.

    The rates between `clip_brackets` are bisected, and masked tokens are counted at each rate
    tried. Interpolation would not do: budgets are rounded up in each row, so N_BLM does not grow
    evenly with the rate.

    Args:
        chunks: Function that returns the split's rows in chunks of any size. Called once for each
            bisection step, 8 times at the paper's rates.
        strategy: The strategy of the sweep.
        points: Points of the sweep, sorted by `elm`, then by `blm`. Its rates of BLM are multiples
            of `LIMIT_STEP`.
        seed: Seed of the training. Default: 0.
        epoch: Epoch of the masks. Default: 0.

    Returns:
        Rate of ELM -> rate of BLM, a multiple of `LIMIT_STEP`. Both clips fire one step below.
        Rates of ELM without a bracket are missing.
    """
    # Half-open search: both clips fire at `low`, and not at `high`. Rates are whole steps, so that
    # the result is a rate that was counted.
    brackets = {
        elm: (round(low / LIMIT_STEP), round(high / LIMIT_STEP))
        for elm, (low, high) in clip_brackets(points).items()
    }
    while any(high - low > 1 for low, high in brackets.values()):
        middles = {
            elm: (low + high) // 2 for elm, (low, high) in brackets.items() if high - low > 1
        }
        strategies = {
            elm: varied(strategy, elm=elm, blm=_limit_rate(step)) for elm, step in middles.items()
        }
        counts = dict.fromkeys(middles, (0, 0))
        for examples in chunks():
            for elm, at_rates in strategies.items():
                n_elm, n_blm = at_rates.plan(examples, seed=seed, epoch=epoch).counts()
                counts[elm] = counts[elm][0] + n_elm, counts[elm][1] + n_blm

        for elm, step in middles.items():
            low, high = brackets[elm]
            is_saturated = MaskSpecificWeights.from_counts(*counts[elm]).saturated
            brackets[elm] = (step, high) if is_saturated else (low, step)
    return {elm: _limit_rate(high) for elm, (_, high) in brackets.items()}


def _limit_rate(step: int) -> float:
    # Rounded, as 73 * 0.0005 is 0.036500000000000005.
    return round(step * LIMIT_STEP, 6)
