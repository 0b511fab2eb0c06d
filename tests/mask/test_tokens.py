from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import mslm_data as md
from tests.generate import Row, examples_of, row_of
from tests.kernels.fairness import critical_value, is_fair
from tests.mask.collator import compared, same_shares
from tests.reference.tokens import bert_count


def rows_like(words, num_rows, *, fill=10):
    return examples_of(row_of(words, key=key, fill=fill) for key in range(num_rows))


def counts_of(made, words, num_rows):
    """Return the number of masked tokens in each of many rows of the same words."""
    kinds = made.plan(rows_like(words, num_rows)).kinds
    return (kinds.values.reshape(num_rows, -1) > 0).sum(axis=1)


# How many


@pytest.mark.parametrize(
    ("n", "count"), [(1, 1), (9, 1), (10, 2), (30, 4), (50, 8), (128, 19), (134, 20), (512, 20)]
)
def test_bert__worked_counts(n, count):
    """Half rounds to even: 4.5 of 30 tokens is 4, 7.5 of 50 is 8."""
    rows = [Row(key=0, ids=[10] * n, word_ids=list(range(n)))]

    assert md.strategy("bert").plan(examples_of(rows)).counts() == (0, count)
    assert bert_count(n, 0.15, 20) == count


def test_electra__every_sequence_of_draws_is_as_likely():
    examples = rows_like([1] * 3, 6000)
    kinds = md.strategy("electra", rate=0.4).plan(examples).kinds.values.reshape(6000, 5)[:, 1:4]

    sets = Counter(
        tuple(np.flatnonzero(row).tolist()) for row in kinds
    )  # two draws of three: 3 of 9 hit one twice
    single, double = [sets[s,] for s in range(3)], [sets[0, 1], sets[0, 2], sets[1, 2]]
    statistic = sum((c - 6000 / 9) ** 2 / (6000 / 9) for c in single)
    statistic += sum((c - 12000 / 9) ** 2 / (12000 / 9) for c in double)
    assert sum(single) + sum(double) == 6000
    assert statistic < critical_value(5)


def test_electra__cap_follows_the_length_of_the_models_rows():
    """int(0.155 * 33) is 5 draws, int(0.15 * 33) would be 4."""
    counts = counts_of(md.strategy("electra", max_tokens=33), [1] * 98, 500)

    assert counts.max() == 5


# Which


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_fixed_numbers__every_pair_of_tokens_is_as_likely(name):
    rate = {"bert": 0.25, "roberta": 2 / 6}[name]
    kinds = (
        md.strategy(name, rate=rate)
        .plan(rows_like([1] * 6, 4000))
        .kinds.values.reshape(4000, 8)[:, 1:7]
    )
    pairs = [tuple(np.flatnonzero(row).tolist()) for row in kinds if row.sum() == 2]

    assert len(pairs) > 3900
    assert is_fair(pairs, [(a, b) for b in range(6) for a in range(b)])


@pytest.mark.parametrize("name", ["token", "modernbert"])
def test_coins__every_pattern_is_as_likely(name):
    kinds = (
        md.strategy(name, rate=0.5)
        .plan(rows_like([1] * 4, 4000))
        .kinds.values.reshape(4000, 6)[:, 1:5]
    )

    assert is_fair((kinds @ [8, 4, 2, 1]).tolist(), range(16))


# Against Hugging Face's own collator


@pytest.mark.long
def test_token__as_the_collator_of_transformers():
    ours, theirs = compared("token", whole_word_mask=False)

    assert same_shares(ours, theirs)


def test_same_shares__refuses_another_law():
    """The same number of tokens on average, but nearly constant per row."""
    roberta, collator = compared("roberta", whole_word_mask=False)

    assert not same_shares(roberta, collator)
