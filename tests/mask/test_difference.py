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
UNLISTED = next(id_ for id_ in range(5, 40) if word_score([id_]) is None)


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


def test_difference_released__tokens_by_the_rank_of_their_word():
    """Words of 2, 1, 1 and 2 tokens: each token has its word's rank as weight, and int(0.5 * 6) are drawn."""
    pair = next([a, b] for a in LISTED for b in LISTED if word_score([a, b]))
    words = [pair, [LISTED[0]], [LISTED[1]], [UNLISTED, UNLISTED]]
    rank = ranks([word_score(pair), word_score(words[1]), word_score(words[2]), -1.0])
    weights = [rank[0], rank[0], rank[1], rank[2], rank[3], rank[3]]
    examples = examples_of(sentence(words, key=key) for key in range(ROWS))
    seen = masked("difference-released", examples, lexicon=str(words_lexicon()), rate=0.5)

    assert sorted(rank) == [1, 2, 3, 4]
    assert (seen.sum(axis=1) == 3).all()
    assert near(seen, fill.inclusion(weights, 3))
    assert (seen[:, 0] != seen[:, 1]).any()  # a word in part
