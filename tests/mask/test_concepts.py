from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

import mslm_data as md
from tests.generate import Row, examples_of, row_of
from tests.kernels.fairness import is_fair
from tests.mask import artifacts

LISTS = (str(artifacts.concepts_lexicon(1)), str(artifacts.concepts_lexicon(2)))


@pytest.fixture
def listed(tmp_path):
    """Write lists of concepts; see `artifacts.write_list`."""
    return partial(artifacts.write_list, tmp_path / "concepts.arrow")


def many(ids, copies=2000):
    return examples_of([Row(key=key, ids=ids, word_ids=range(len(ids))) for key in range(copies)])


def shares(examples, epoch, **options):
    """Return the share of epochs in which each token is masked."""
    plan = md.strategy("ccm", **options).plan(examples, epoch=epoch)
    assert plan.unspent.sum() == 0
    return plan.kinds.values.reshape(len(examples), -1).mean(axis=0)


def test_ccm__expects_the_rate_of_all_tokens_from_those_of_concepts(listed):
    """20 tokens, 5 of them in concepts: each has probability `int(0.15 * 20) / 5`."""
    found = shares(many([5, 6, 9, 7, *[10] * 14, 5, 6]), 1, lexicons=(listed((5, 6), (7,)),))

    concepts = [0, 1, 3, 18, 19]
    assert np.abs(found[concepts] - 0.6).max() < 4 * math.sqrt(0.24 / 2000)
    assert found.sum() == pytest.approx(found[concepts].sum())


def test_ccm__counts_are_rounded_down_and_coins_are_certain_where_concepts_are_few(listed):
    path = listed((5,))

    assert shares(many([5, *[9] * 5], 20), 1, lexicons=(path,)).sum() == 0  # int(0.15 * 6)
    assert shares(many([5, *[9] * 19], 20), 1, lexicons=(path,))[0] == 1  # 3 / 1


def test_ccm__one_concept_within_another_is_counted_and_comes_first_half_the_time(listed):
    """20 tokens, 3 in both concepts: each is certain, and the first one visited excludes the other."""
    examples = many([5, 6, *[9] * 18])
    plan = md.strategy("ccm", lexicons=(listed((5, 6), (6,)),)).plan(examples, epoch=1)

    assert is_fair([tuple(row[:2]) for row in plan.kinds.tolist()], [(1, 1), (0, 1)])


def test_ccm__no_further_concept_once_enough_is_masked(listed):
    """A concept is never cut at the limit: three tokens of the first, or three of the second."""
    ids = [5, 6, 5, 6, 5, 6]
    options = {"lexicons": (listed((5,), (6,)),), "rate": 1.0}
    plans = {
        max_masked: md.strategy("ccm", max_masked=max_masked, **options).plan(many(ids), epoch=1)
        for max_masked in (0, 1, 3, 4)
    }

    assert is_fair(map(tuple, plans[1].kinds.tolist()), [(1, 0) * 3, (0, 1) * 3])
    assert plans[3].kinds.tolist() == plans[1].kinds.tolist()
    assert plans[4].counts() == plans[0].counts() == (0, 12_000)


def test_ccm__stages_follow_the_epoch(tmp_path):
    """Two warm-up epochs, two for each of two lists, then the last stage for ever."""
    first = artifacts.write_list(tmp_path / "first.arrow", (5,))
    second = artifacts.write_list(tmp_path / "second.arrow", (5,), (6,))
    examples = many([5, 6, *[9] * 38])
    options = {"lexicons": (first, second), "warm_up": 2, "epochs": 2}
    found = {epoch: shares(examples, epoch, **options) for epoch in (0, 1, 2, 3, 4, 5, 6, 7, 1000)}

    for epoch in (0, 1):
        assert np.abs(found[epoch] - 0.15).max() < 4.5 * math.sqrt(0.15 * 0.85 / 2000)
    for epoch in (2, 3):
        assert found[epoch].tolist() == [1, 0] + [0] * 38
    for epoch in (4, 5):
        assert found[epoch].tolist() == [1, 1] + [0] * 38
    for epoch in (6, 7, 1000):
        assert found[epoch][:2].tolist() == [1, 1]  # 0.10 of 40 tokens is more than there are
        assert np.abs(found[epoch][2:] - 0.05).max() < 4.5 * math.sqrt(0.05 * 0.95 / 2000)


def test_ccm__no_warm_up():
    made = md.strategy("ccm", lexicons=LISTS, warm_up=0)
    other = md.strategy("ccm", lexicons=LISTS, warm_up=5)
    examples = examples_of([row_of([1, 2, 1, 1], key=key) for key in range(50)])

    assert made.plan(examples).kinds.tolist() != other.plan(examples).kinds.tolist()
