"""Picks of n-grams from a lexicon: PMI masking, and concepts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import make_offsets
from mslm_data.kernels.grams import take_by_chance, take_in_order
from mslm_data.lexicon.trie import open_words
from mslm_data.mask.artefacts import LexiconFile
from mslm_data.mask.budget import quotas
from mslm_data.mask.ingredient import Ingredient
from mslm_data.mask.plan import MaskKind, PlanBuilder
from mslm_data.mask.rate import Limit, Rate, rate_at
from mslm_data.mask.rng import BRANCH, RowRng
from mslm_data.mask.units import Units, free_tokens


class InOrder(Ingredient, frozen=True, kw_only=True, tag_field="use", tag="in-order"):
    """Mask n-grams in the order of their lexicon, in passes (Abaho et al. 2024, Algorithm 2).

    In each pass over a row, each n-gram masks its leftmost occurrence of which no token is masked
    yet. Passes end when the budget is spent, or when one masks nothing. The last n-gram is cut to
    the budget.
    """

    lexicon: Annotated[LexiconFile, Meta(description="File of the lexicon.")] = "pmi.arrow"
    rate: Annotated[
        Rate,
        Meta(
            description="Budget: share of the row's non-special tokens. Rounded up, in decimal "
            "arithmetic."
        ),
    ]

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"word_ids"})

    def mask(self, examples: Examples, rng: RowRng, builder: PlanBuilder) -> None:
        if self.rate == 0:
            return

        starts, ends, entries = open_words(Path(self.lexicon)).matches(examples)
        pool, real = free_tokens(examples, builder)
        quota = quotas(rate_at(self.rate, rng), real, "up", rng)

        offsets = examples.input_ids.offsets
        taken = np.zeros(len(entries), np.int32)
        matches = (starts.offsets, starts.values, ends.values, entries)
        take_in_order(offsets, *matches, pool, quota, taken)

        builder.unspent += quota
        Units(starts, ends).take(offsets, taken, MaskKind.BASE, builder)


class Occurrences(Ingredient, frozen=True, kw_only=True, tag_field="use", tag="occurrences"):
    """Mask each occurrence of a lexicon's entries with a probability that gives an expected rate.

    There is no budget.
    """

    lexicon: Annotated[LexiconFile, Meta(description="File of the lexicon.")] = "concepts.arrow"
    rate: Annotated[Rate, Meta(description="Expected share of the row's non-special tokens.")]
    max_masked: Annotated[
        Limit,
        Meta(
            description="Number of masked tokens in a row after which no more entries are tried, "
            "or 0 for no limit."
        ),
    ] = 0

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"word_ids"})

    def mask(self, examples: Examples, rng: RowRng, builder: PlanBuilder) -> None:
        starts, ends, entries = open_words(Path(self.lexicon)).matches(examples)
        occurrences = Units(starts, ends)
        pool, real = free_tokens(examples, builder)

        # Divide the expected tokens by the tokens of all occurrences. Nested occurrences count
        # twice, as in the released code.
        tokens = np.diff(make_offsets(occurrences.lengths)[starts.offsets])
        expected = quotas(rate_at(self.rate, rng), real, "down", rng)
        chances = expected / np.maximum(tokens, 1)
        max_masked = self.max_masked or np.iinfo(np.int64).max

        offsets = examples.input_ids.offsets
        taken = np.zeros(len(entries), np.int32)
        matches = (starts.offsets, starts.values, ends.values, entries)
        streams = (rng.streams(BRANCH), rng.streams())
        take_by_chance(offsets, *matches, chances, max_masked, *streams, pool, taken)

        occurrences.take(offsets, taken, MaskKind.BASE, builder)
