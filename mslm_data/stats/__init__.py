"""Counts what a strategy hides in a corpus, and the loss weights that follow.

`tally` counts one strategy, `grid` a strategy at all the paper's rates, and `masked_words` the
words that are masked. `of_mix` counts it for each split of a mix. `batch_counts` counts the batches
that a model is given, and `weights` has the ways to weigh.
`overlap` finds the sentences that two splits share, and `corpus_counts` counts lengths, labels,
mentions and terms.
"""

from __future__ import annotations

from mslm_data.stats.batch_counts import BatchShape, BatchStats, batch_stats, first_batches
from mslm_data.stats.counts import LabelCounts, LengthCounts, MaskStats
from mslm_data.stats.grid import SweepPoint, sweep
from mslm_data.stats.masked_words import MaskedWord, most_masked_words, word_texts
from mslm_data.stats.of_mix import PartStats, count_splits
from mslm_data.stats.realised import RealisedRate, effective_rates
from mslm_data.stats.tally import mask_stats, words_of_rows
from mslm_data.stats.weights import (
    MaskSpecificWeights,
    Scheme,
    effective_number_weights,
    fixed_weights,
    inverse_frequency_weights,
    mask_specific_weights,
    released_weights,
    schemes,
)

__all__ = [
    "BatchShape",
    "BatchStats",
    "LabelCounts",
    "LengthCounts",
    "MaskSpecificWeights",
    "MaskStats",
    "MaskedWord",
    "PartStats",
    "RealisedRate",
    "Scheme",
    "SweepPoint",
    "batch_stats",
    "count_splits",
    "effective_number_weights",
    "effective_rates",
    "first_batches",
    "fixed_weights",
    "inverse_frequency_weights",
    "mask_specific_weights",
    "mask_stats",
    "most_masked_words",
    "released_weights",
    "schemes",
    "sweep",
    "word_texts",
    "words_of_rows",
]
