"""Count the masks of a strategy in a corpus, and compute the loss weights.

`tally` counts the masks of one strategy, `grid` those at all rates of the paper, `masked_words`
those of each word, and `mix_stats` those in each split of a mix. `weights` computes loss weights
from the counts. `batch_counts` counts batches, `overlap` finds sentences in both of two splits, and
`corpus_counts` counts lengths, labels, mentions and terms.
"""

from __future__ import annotations

from mslm_data.stats.batch_counts import BatchStats, batch_stats
from mslm_data.stats.counts import LabelCounts, LengthCounts, MaskStats
from mslm_data.stats.effective_rates import EffectiveRate, effective_rates
from mslm_data.stats.grid import SweepPoint, sweep
from mslm_data.stats.masked_words import MaskedWord, word_texts
from mslm_data.stats.mix_stats import PartStats, count_splits
from mslm_data.stats.tally import count_masks, count_row_words, mask_stats
from mslm_data.stats.weights import (
    MaskSpecificWeights,
    mask_specific_weights,
    released_weights,
    scaled_weights,
)

__all__ = [
    "BatchStats",
    "EffectiveRate",
    "LabelCounts",
    "LengthCounts",
    "MaskSpecificWeights",
    "MaskStats",
    "MaskedWord",
    "PartStats",
    "SweepPoint",
    "batch_stats",
    "count_masks",
    "count_row_words",
    "count_splits",
    "effective_rates",
    "mask_specific_weights",
    "mask_stats",
    "released_weights",
    "scaled_weights",
    "sweep",
    "word_texts",
]
