from __future__ import annotations

import pytest

import mslm_data as md
from mslm_data.mask.plan import MaskKind
from tests.generate import examples_of, row_of
from tests.kernels.fairness import is_near

ROWS = 3000
MENTIONS = [(0, 1), (2, 4), (6, 7)]


def masked(name, examples, seed=0, **options):
    """Return the kinds of rows of equal length, `[N, L]`, and the unspent budget."""
    plan = md.strategy(name, **options).plan(examples, seed=seed)
    return plan.kinds.values.reshape(len(examples), -1), plan.unspent


def rows_like(words, mentions=(), *, rows=ROWS):
    return examples_of(row_of(words, mentions, key=key) for key in range(rows))


def test_entitybert__mentions_and_what_is_left_are_as_likely():
    kinds, _ = masked("entitybert", rows_like([1] * 20, MENTIONS), words=0.1)

    assert all(is_near((kinds[:, t] == MaskKind.ENTITY).sum(), ROWS, 0.4) for t in (1, 3, 7))
    whole = kinds[(kinds[:, 1] == MaskKind.ENTITY) & (kinds == MaskKind.ENTITY).any(axis=1)]
    left = (whole == MaskKind.NONE) | (whole == MaskKind.BASE)
    base = whole == MaskKind.BASE
    assert base[:, [3, 4, 7]].any()  # words of mentions that were not chosen
    assert (base.sum(axis=1) == 2).all()
    outside = base[:, 8:21].sum()
    assert is_near(int(outside), int(base.sum()), left[:, 8:21].sum() / left[:, 1:21].sum())


def test_entitybert__of_words_that_are_left():
    """All words are in the budget. Words in masked mentions are not masked twice."""
    kinds, unspent = masked(
        "entitybert", rows_like([2, 1, 3], [(0, 1)], rows=2), entities=1, words=1
    )

    assert kinds.tolist() == [[0, 2, 2, 1, 1, 1, 1, 0]] * 2
    assert unspent.tolist() == [1, 1]


def test_entitybert_difference__no_more_where_too_few_are_tagged():
    kinds, unspent = masked(
        "entitybert-difference", rows_like([1] * 10, [(4, 5)], rows=1), rate=0.5
    )

    assert kinds.tolist() == [[0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]]
    assert unspent.tolist() == [4]


def test_salient__rows_without_mentions_are_left_alone():
    kinds, unspent = masked("salient", rows_like([1, 1], rows=3))

    assert not kinds.any()
    assert unspent.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("options", "count", "unspent"),
    [
        ({}, 2, 0),  # round(0.15 * 12), [CLS] and [SEP] counted
        ({"rate": 0.5}, 4, 2),  # 6 are due, mentions have 4 tokens
        ({"rate": 0.5, "max_masked": 3}, 3, 0),
        ({"rate": 0.5, "max_masked": 0}, 4, 2),
        ({"rate": 0}, 1, 0),
        ({"rate": 0.5, "chance": 0}, 6, 0),
    ],
)
def test_lim__number_of_tokens(options, count, unspent):
    kinds, left = masked("lim", rows_like([1] * 10, MENTIONS, rows=9), **{"chance": 1, **options})

    assert (kinds.astype(bool).sum(axis=1) == count).all()
    assert (left == unspent).all()
