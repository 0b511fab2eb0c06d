from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import mslm_data as md
from tests.generate import IDS, Row, examples_of, row_of
from tests.kernels.fairness import critical_value, is_fair, is_near
from tests.mask.collator import compared, same_shares
from tests.reference.tokens import bert_count

RATES = {
    "bert": 0.15,
    "token": 0.15,
    "roberta": 0.15,
    "wettig": 0.4,
    "modernbert": 0.3,
    "electra": 0.15,
}


def rows_like(words, num_rows, *, fill=10):
    return examples_of(row_of(words, key=key, fill=fill) for key in range(num_rows))


def counts_of(made, words, num_rows):
    """Return the number of masked tokens in each of many rows of the same words."""
    kinds = made.plan(rows_like(words, num_rows)).kinds
    return (kinds.values.reshape(num_rows, -1) > 0).sum(axis=1)


# How many


@pytest.mark.parametrize("rate", [0.15, 0.25, 0.3])
@pytest.mark.parametrize("max_masked", [20, None, 0, 3])
def test_bert__count_of_its_code_for_every_length(rate, max_masked):
    examples = examples_of(row_of([1] * (n - 2), key=n) for n in range(3, 201))
    masked = [
        int((row > 0).sum())
        for row in map(
            np.array,
            md.strategy("bert", rate=rate, max_masked=max_masked).plan(examples).kinds.tolist(),
        )
    ]

    expected = [min(max_masked or 10**9, max(1, int(round(n * rate)))) for n in range(3, 201)]  # noqa: RUF046 - its own words
    assert masked == expected


@pytest.mark.parametrize(
    ("n", "count"), [(1, 1), (9, 1), (10, 2), (30, 4), (50, 8), (128, 19), (134, 20), (512, 20)]
)
def test_bert__worked_counts(n, count):
    """Half rounds to even: 4.5 of 30 tokens is 4, 7.5 of 50 is 8."""
    rows = [Row(key=0, ids=[10] * n, word_ids=list(range(n)))]

    assert md.strategy("bert").plan(examples_of(rows)).counts() == (0, count)
    assert bert_count(n, 0.15, 20) == count


def test_bert__masks_one_token_at_least_where_there_is_one():
    examples = examples_of([row_of([1]), row_of([])])

    assert md.strategy("bert", rate=0.0).plan(examples).kinds.tolist() == [[0, 1, 0], [0, 0]]


@pytest.mark.parametrize("n", [1, 5, 10, 20])
def test_token__rows_without_a_target(n):
    """Tokens are independent, so n tokens have no target with probability 0.85 ** n."""
    counts = counts_of(md.strategy("token"), [1] * n, 4000)

    assert is_near((counts == 0).sum(), 4000, 0.85**n)
    assert is_near(counts.sum(), 4000 * n, 0.15)


@pytest.mark.parametrize("name", ["roberta", "wettig"])
@pytest.mark.parametrize("n", [3, 7, 10, 20])
def test_roberta__mean_count_is_the_rate_exactly(name, n):
    """The two integers around `rate * n`, with the mean `rate * n`."""
    due = RATES[name] * n
    counts = counts_of(md.strategy(name), [1] * n, 4000)

    assert set(counts.tolist()) <= {int(due), int(due) + 1}
    assert is_near((counts == int(due) + 1).sum(), 4000, due - int(due) + 1e-12)


def test_roberta__counts_over_all_roundings_sum_to_the_rate():
    """With u on a fine grid, the mean is exact up to one step of the grid."""
    grid = (np.arange(2**12) + 0.5) / 2**12
    for n in range(1, 129):
        assert abs((0.15 * n + grid).astype(np.int64).mean() - 0.15 * n) <= 2**-12


@pytest.mark.parametrize("n", [1, 2, 10, 50])
def test_electra__number_of_distinct_positions(n):
    """k draws from n tokens with replacement give n (1 - (1 - 1 / n) ** k) positions on average."""
    draws = max(1, round(0.3 * (n + 2)))
    counts = counts_of(md.strategy("electra", rate=0.3), [1] * n, 4000)

    missed, both = (1 - 1 / n) ** draws, max(1 - 2 / n, 0) ** draws  # one position, two positions
    variance = n * missed * (1 - missed) + n * (n - 1) * (both - missed**2)
    assert abs(counts.mean() - n * (1 - missed)) <= 4 * np.sqrt(max(variance, 0) / 4000) + 1e-9
    assert counts.max() <= min(n, draws)


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


@pytest.mark.parametrize(("rate", "apart"), [(0.15, [190, 350, 390]), (0.25, [])])
def test_electra__lengths_that_single_precision_rounds_up(rate, apart):
    """The code multiplies in float32, as the docstring says."""
    single = np.rint(np.arange(513).astype(np.float32) * np.float32(rate)).astype(int).tolist()

    assert [n for n in range(513) if single[n] != round(rate * n)] == apart
    assert all(single[n] == round(rate * n) + 1 for n in apart)


@pytest.mark.parametrize(("options", "draws"), [({}, 15), ({"max_tokens": 40}, 6), ({"max_tokens": 0}, 15),
                                                ({"max_tokens": 2}, 1)])  # fmt: skip
def test_electra__cap_follows_the_length_of_the_models_rows(options, draws):
    """int(0.155 * 40) is 6; the minimum is one draw."""
    counts = counts_of(md.strategy("electra", **options), [1] * 98, 500)

    assert counts.max() == draws


def test_electra__rows_of_a_hundred_tokens_and_more_never_reach_the_cap():
    for length in range(100, 513):
        assert all(round(0.15 * n) <= int(0.155 * length) for n in range(1, length + 1))
    assert any(round(0.15 * n) > int(0.155 * n) for n in range(1, 100))


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


@pytest.mark.parametrize(
    ("name", "masked"),
    [
        ("bert", True),
        ("token", False),
        ("roberta", True),
        ("wettig", True),
        ("modernbert", True),
        ("electra", True),
    ],
)
def test_unk__is_masked_but_by_the_collator(name, masked):
    plan = md.strategy(name, rate=1.0).plan(rows_like([1] * 4, 20, fill=IDS.unk))

    assert (plan.counts()[1] > 0) == masked


def test_token__unk_where_the_caller_does_not_mark_it():
    assert md.strategy("token", rate=1.0, unknown=True).plan(
        rows_like([1], 1, fill=IDS.unk)
    ).counts() == (0, 1)


# Against Hugging Face's own collator


@pytest.mark.long
def test_token__as_the_collator_of_transformers():
    ours, theirs = compared("token", whole_word_mask=False)

    assert same_shares(ours, theirs)


def test_same_shares__refuses_another_law():
    """The same number of tokens on average, but nearly constant per row."""
    roberta, collator = compared("roberta", whole_word_mask=False)

    assert not same_shares(roberta, collator)
