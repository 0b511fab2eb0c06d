from __future__ import annotations

import numpy as np
import pytest

import mslm_data as md
from mslm_data.mask.plan import MaskKind
from tests.generate import IDS, examples_of, row_of, rows_of
from tests.kernels.fairness import is_fair, is_near
from tests.mask.artifacts import column_for, token_score

ROWS = 3000
MENTIONS = [(0, 1), (2, 4), (6, 7)]


def masked(name, examples, seed=0, **options):
    """Return the kinds of rows of equal length, `[N, L]`, and the unspent budget."""
    plan = md.strategy(name, **options).plan(examples, seed=seed)
    return plan.kinds.values.reshape(len(examples), -1), plan.unspent


def rows_like(words, mentions=(), *, rows=ROWS):
    return examples_of(row_of(words, mentions, key=key) for key in range(rows))


def test_entitybert__shares_are_exact_in_the_mean():
    """40 % of 3 mentions is 1 or 2, 12 % of 20 words is 2 or 3, with means of 1.2 and 2.4."""
    kinds, unspent = masked("entitybert", rows_like([1] * 20, MENTIONS))
    entity = kinds == MaskKind.ENTITY
    mentions = entity[:, [1, 3, 7]].sum(axis=1)
    words = (kinds == MaskKind.BASE).sum(axis=1)

    assert set(mentions) == {1, 2}
    assert set(words) == {2, 3}
    assert is_near((mentions == 2).sum(), ROWS, 0.2)
    assert is_near((words == 3).sum(), ROWS, 0.4)
    assert (entity[:, 3] == entity[:, 4]).all()
    assert not unspent.any()


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


def test_entitybert_difference__first_tokens_of_mentions():
    """int(0.25 * 13) is 3: two tokens of the first mention and one of the second, with any seed."""
    examples = rows_like([1, 2, 3, 3, 4], [(1, 2), (3, 4)], rows=20)
    masks = [masked("entitybert-difference", examples, seed, rate=0.25) for seed in (0, 1)]

    for kinds, unspent in masks:
        assert kinds.tolist() == [[0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]] * 20
        assert not unspent.any()


def test_entitybert_difference__no_more_where_too_few_are_tagged():
    kinds, unspent = masked(
        "entitybert-difference", rows_like([1] * 10, [(4, 5)], rows=1), rate=0.5
    )

    assert kinds.tolist() == [[0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]]
    assert unspent.tolist() == [4]


def test_entitybert_difference__chance_where_nothing_is_tagged():
    """int(0.3 * 8) is 2: each pair is equally likely, with the first and the last token."""
    kinds, unspent = masked("entitybert-difference", rows_like([1] * 8), rate=0.3)
    pairs = [tuple(np.flatnonzero(row).tolist()) for row in kinds]

    assert is_fair(pairs, [(a, b) for a in range(1, 9) for b in range(a + 1, 9)])
    assert not unspent.any()


def test_salient__one_mention_of_each_row_all_as_likely():
    kinds, unspent = masked("salient", rows_like([2] * 8, MENTIONS))
    chosen = [tuple(np.flatnonzero(row).tolist()) for row in kinds]

    assert is_fair(chosen, [(1, 2), (5, 6, 7, 8), (13, 14)])
    assert set(kinds.ravel().tolist()) == {MaskKind.NONE, MaskKind.ENTITY}
    assert not unspent.any()


def test_salient__rows_without_mentions_are_left_alone():
    kinds, unspent = masked("salient", rows_like([1, 1], rows=3))

    assert not kinds.any()
    assert unspent.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("longest", "possible"), [(4, {1, 5, 13}), (3, {1, 13}), (1, set()), (0, {1, 5, 13})]
)
def test_salient__mentions_that_are_too_long_stand_back(longest, possible):
    kinds, _ = masked("salient", rows_like([2] * 8, MENTIONS, rows=100), longest=longest)

    assert {int(np.flatnonzero(row)[0]) for row in kinds if row.any()} == possible


def test_salient__masks_unknown_words_of_a_mention():
    examples = examples_of([row_of([1, 1], [(0, 2)], fill=IDS.unk)])

    assert md.strategy("salient").plan(examples).counts() == (2, 0)


def lim_shares(examples, flagged, **options):
    """Return the numbers of rows with masks in phrases only, and outside phrases only."""
    kinds, _ = masked("lim", examples, **options)
    inside, outside = (
        (kinds.astype(bool) & flagged).any(axis=1),
        (kinds.astype(bool) & ~flagged).any(axis=1),
    )
    assert not (inside & outside).any()
    return int(inside.sum()), int(outside.sum())


def test_lim__three_rows_of_four_mask_tokens_of_mentions():
    flagged = np.zeros(12, np.bool_)
    flagged[[1, 3, 4, 7]] = True
    inside, outside = lim_shares(rows_like([1] * 10, MENTIONS), flagged)

    assert inside + outside == ROWS
    assert is_near(inside, ROWS, 0.75)


def test_lim__a_score_column_in_place_of_mentions():
    examples = rows_like([1] * 10, MENTIONS, rows=400)
    flagged = np.array(
        [[token_score(row.key, t) > 0 for t in range(12)] for row in rows_of(examples)]
    )
    mixed = flagged[:, 1:11].any(axis=1) & ~flagged[:, 1:11].all(axis=1)
    inside, outside = lim_shares(examples, flagged, scores=str(column_for(examples)))

    assert mixed.mean() > 0.9
    assert inside + outside >= mixed.sum()
    assert is_near(inside, inside + outside, 0.75)


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
