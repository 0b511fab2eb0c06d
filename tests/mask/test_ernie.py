from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import mslm_data as md
from mslm_data.mask.plan import MaskKind
from tests.generate import examples_of, random_examples, row_of, rows_of
from tests.kernels.fairness import is_fair
from tests.mask import artifacts
from tests.reference import grams as twins

COUNTS = st.integers(0, 2**63 - 1)


@given(random_examples(), st.sampled_from([0.0, 0.3, 1.0]), st.booleans(), COUNTS, COUNTS)
def test_ernie__equals_twin(examples, tokens, listed, seed, epoch):
    options = {
        "rate": 0.4,
        "tokens": tokens,
        "lexicon": str(artifacts.grams_lexicon()) if listed else "",
    }
    kinds = md.strategy("ernie", **options).plan(examples, seed=seed, epoch=epoch).kinds.tolist()

    assert kinds == [
        twins.ernie(row, seed=seed, epoch=epoch, **options) for row in rows_of(examples)
    ]


def patterns(examples, **options):
    plan = md.strategy("ernie", **options).plan(examples)
    return [tuple(row) for row in plan.kinds.tolist()]


def test_ernie__units_have_a_coin_each():
    """A mention of two words, and two other words: at a rate of 0.5, all eight outcomes are equally likely."""
    examples = examples_of([row_of([2, 1, 1, 3], [(1, 3)], key=key) for key in range(1600)])
    outcomes = patterns(examples, rate=0.5, tokens=0.0)

    possible = [(0, a, a, m, m, b, b, b, 0) for a in (0, 1) for m in (0, 2) for b in (0, 1)]
    assert is_fair(outcomes, possible)


def test_ernie__a_share_of_the_rows_masks_tokens():
    """A single token of a two-token word is masked only in such rows, with probability 1/2."""
    examples = examples_of([row_of([2], key=key) for key in range(4000)])
    apart = sum(row[1] != row[2] for row in patterns(examples, rate=0.5, tokens=0.3))

    assert abs(apart - 600) < 4 * math.sqrt(4000 * 0.15 * 0.85)


def test_ernie__rate_is_that_of_tokens_either_way():
    examples = examples_of(
        [row_of([1, 2, 3] * 4, [(2, 4), (7, 9)], key=key) for key in range(3000)]
    )
    real = np.count_nonzero(examples.word_ids.values >= 0)
    for tokens in (0.0, 0.5, 1.0):
        plan = md.strategy("ernie", tokens=tokens).plan(examples)

        assert abs(sum(plan.counts()) / real - 0.15) < 0.006
        assert plan.unspent.sum() == 0


def test_ernie__kinds():
    examples = examples_of([row_of([1, 2, 1], [(1, 2)])])

    assert md.strategy("ernie", rate=1.0, tokens=0.0).plan(examples).kinds.tolist() == [
        [0, 1, 2, 2, 1, 0]
    ]
    assert md.strategy("ernie", rate=1.0, tokens=1.0).plan(examples).kinds.tolist() == [
        [0, 1, 1, 1, 1, 0]
    ]


def test_ernie__phrases_do_not_reach_into_mentions():
    gram = next(gram for gram in artifacts.grams() if len(gram) == 2)
    rows = []
    for key in range(400):
        row = row_of([1, 1, 1, 1, 1], [(3, 4)], key=key)
        row.ids[1:6] = [*gram, 5, *gram]
        rows.append(row)
    kinds = np.array(
        patterns(examples_of(rows), rate=0.5, tokens=0.0, lexicon=str(artifacts.grams_lexicon()))
    )
    other = [pair for pair in ((gram[1], 5), (5, gram[0])) if pair in artifacts.grams()]

    assert other == []
    assert (kinds[:, 1] == kinds[:, 2]).all()
    assert (kinds[:, 4] == MaskKind.ENTITY).sum() + (kinds[:, 4] == 0).sum() == 400
    assert (kinds[:, 4] > 0).tolist() != (kinds[:, 5] > 0).tolist()
