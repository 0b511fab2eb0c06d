"""Difference-Masking: exact probabilities of draws by weight."""

from __future__ import annotations

import numpy as np
import pytest

import mslm_data as md
from tests.generate import Row, examples_of
from tests.kernels.fairness import is_near
from tests.mask.artifacts import word_score, words_lexicon
from tests.reference import fill
from tests.reference.scored import ranks

ROWS = 6000
LISTED = [id_ for id_ in range(5, 40) if word_score([id_])]
"""Ids that are words with a likeness above 0."""


def sentence(words, *, key=0):
    """Return one row of words given by their ids, without special tokens."""
    numbers = [number for number, word in enumerate(words) for _ in word]
    return Row(key=key, ids=[id_ for word in words for id_ in word], word_ids=numbers)


def masked(name, examples, **options):
    """Return the masks of rows of equal length, bool `[N, L]`."""
    return md.strategy(name, **options).plan(examples).kinds.values.reshape(len(examples), -1) > 0


def near(seen, chances):
    """Return whether the frequencies of columns are as expected."""
    return all(
        is_near(int(hits), len(seen), chance)
        for hits, chance in zip(seen.sum(axis=0), chances, strict=True)
    )


@pytest.mark.parametrize("transform", ["none", "swish", "rank"])
@pytest.mark.parametrize("alpha", [1.0, 0.3])
def test_difference__words_by_weight_without_replacement(transform, alpha):
    """Three of six words: exact probabilities from all orders of draws."""
    words = [[id_] for id_ in LISTED[:6]]
    likeness = [word_score(word) for word in words]
    own = {
        "none": likeness,
        "swish": [s / (1 + np.exp(-s)) for s in likeness],
        "rank": ranks(likeness),
    }[transform]
    weights = [alpha * weight + (1 - alpha) * sum(own) / 6 for weight in own]
    examples = examples_of(sentence(words, key=key) for key in range(ROWS))
    seen = masked(
        "difference",
        examples,
        lexicon=str(words_lexicon()),
        rate=0.5,
        transform=transform,
        alpha=alpha,
    )

    assert (seen.sum(axis=1) == 3).all()
    assert near(seen, fill.inclusion(weights, 3))
