"""Counts what a strategy hides at all the rates that the paper tries, in one pass over the rows.

The rates are those of Abaho et al. 2024, Tables 4 and 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from mslm_data.data.examples import Examples
from mslm_data.kernels.tally import tally_rows, tally_units
from mslm_data.mask.strategy import Strategy
from mslm_data.mask.table import varied
from mslm_data.stats.counts import LONGEST_RUN, LengthCounts
from mslm_data.stats.tally import LengthTable, check_epochs, count_rows, words_of_rows
from mslm_data.stats.weights import MaskSpecificWeights

ELMS = (0.25, 0.5, 0.75, 1.0)
"""The paper's rates of entity-level masking."""

BLMS = (0.0, 0.075, 0.15, 0.225)
"""The paper's rates of base-level masking."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """Counts of what a strategy hides at one pair of rates.

    Attributes:
        elm: The rate of ELM.
        blm: The rate of BLM.
        epochs: Number of epochs that masked tokens are counted over.
        mean_words: Average number of words of a row; 0 if there is no row.
        realised_elm: Share of the mentions whose every token is masked as ENTITY; 0 if there are
            none.
        whole: Counts of all rows.
        shorter: Counts of the rows with fewer words than the average.
        longer: Counts of the rows with more words than the average.
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
        """The loss weights that follow from all rows."""
        return MaskSpecificWeights.from_counts(self.whole.n_elm, self.whole.n_blm)

    @property
    def effective_blm(self) -> float:
        """Share of the tokens that are not special that is masked as BASE; 0 if there are none."""
        tokens = self.whole.maskable_tokens * self.epochs
        return self.whole.n_blm / tokens if tokens else 0.0

    def rate(self, counts: LengthCounts) -> float:
        """Return the masked share of some rows' tokens, specials aside; 0 if there are none."""
        tokens = counts.maskable_tokens * self.epochs
        return (counts.n_elm + counts.n_blm) / tokens if tokens else 0.0


def has_both_rates(strategy: Strategy) -> bool:
    """Return whether a strategy was made with options `elm` and `blm`, so it can be swept."""
    return strategy.origin is not None and {"elm", "blm"} <= strategy.origin.options.keys()


def sweep(
    chunks: Callable[[], Iterable[Examples]],
    strategy: Strategy,
    *,
    elms: Sequence[float] = ELMS,
    blms: Sequence[float] = BLMS,
    seed: int = 0,
    epochs: int = 1,
) -> list[SweepPoint]:
    """Count what a strategy hides at each pair of rates, in one pass over the rows.

    Args:
        chunks: Called once; gives the split's rows in chunks of any size.
        strategy: One with the options `elm` and `blm`; its other options stay.
        elms: Rates of ELM.
        blms: Rates of BLM.
        seed: As in training.
        epochs: Epochs `[0, epochs)` are planned for each pair.

    Returns:
        One point for each pair, all of the first `elm` first.

    Raises:
        ValueError: There is no epoch to count, the strategy has no such options, or it refuses a
            rate.
    """
    check_epochs(epochs)
    if not has_both_rates(strategy):
        raise ValueError("sweep: expected a strategy with the options elm and blm, such as joint")

    rates = [(elm, blm) for elm in elms for blm in blms]
    strategies = [varied(strategy, elm=elm, blm=blm) for elm, blm in rates]
    tables = [LengthTable() for _ in rates]
    runs = np.zeros(LONGEST_RUN + 1, np.int64)  # the kernel counts runs too; unused here
    masked_mentions = [0] * len(rates)
    num_mentions = 0

    for examples in chunks():
        words = words_of_rows(examples)
        rows = count_rows(examples)
        masked = np.empty((len(examples), 2), np.int64)

        starts = examples.span_starts
        lengths = examples.span_ends.values - starts.values
        in_mentions = np.empty((len(lengths), 2), np.int64)
        num_mentions += len(lengths)

        for number, (at_rates, table) in enumerate(zip(strategies, tables, strict=True)):
            rows[:, 3:] = 0
            for epoch in range(epochs):
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
        whole, shorter, longer = table.groups()
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
