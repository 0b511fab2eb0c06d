from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from math import ceil, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mslm_data as md
from mslm_data.mask.sequences import t5_lengths
from tests.generate import IDS, Row, examples_of, fixed_examples, random_examples, row_of, rows_of
from tests.kernels.fairness import critical_value
from tests.reference import layout as layouts
from tests.reference import spans as twins

WIDE = replace(IDS, size=400)
SENTINELS = tuple(range(399, 99, -1))
SEEDS = st.integers(0, 2**63 - 1)


def rows_like(words, count, **more):
    return examples_of([row_of(words, key=key, **more) for key in range(count)], WIDE)


# T5 ------------------------------------------------------------------------------------------------------------------


def test_t5_lengths__are_those_of_the_helper_of_t5():
    """512 and 114 are the lengths that T5 was trained with."""
    assert t5_lengths(512) == (568, 114)
    assert t5_lengths(1024) == (1137, 229)


@given(
    st.integers(2, 600), st.sampled_from([0.1, 0.15, 0.3, 0.5]), st.sampled_from([1.0, 3.0, 8.0])
)
def test_t5_lengths__are_the_longest_that_fit(inputs_length, rate, mean):
    raw, targets = t5_lengths(inputs_length, rate, mean)

    def inputs(raw):
        noise = round(raw * rate)
        return raw - noise + round(noise / mean) + 1

    equal = rate == 0.5 and targets == inputs_length  # one less, if that makes both lengths equal
    assert inputs(raw) <= inputs_length < inputs(raw + 1 + equal)
    assert targets == round(raw * rate) + round(round(raw * rate) / mean) + 1 or rate == 0.5


@pytest.mark.parametrize("wrong", [(1, 0.15, 3.0), (512, 0.0, 3.0), (512, 1.0, 3.0)])
def test_t5_lengths__refuses_what_is_out_of_range(wrong):
    with pytest.raises(
        ValueError, match=r"^lengths: expected 2 or more and a rate in \(0, 1\), got"
    ):
        t5_lengths(*wrong)


@pytest.mark.parametrize("mean", [0.5, float("inf"), float("nan")])
def test_t5__refuses_a_mean_length_below_one(mean):
    with pytest.raises(ValueError, match="mean_span: expected 1 token or more, got"):
        md.strategy("t5", mean_span=mean)
    with pytest.raises(ValueError, match="mean_span: expected 1 token or more, got"):
        t5_lengths(512, 0.15, mean)


def test_t5__568_tokens_make_inputs_of_512_and_targets_of_114():
    """One special token at the end, as `</s>`: 85 hidden in 28 spans."""
    examples = examples_of(
        [Row(key=key, ids=[10] * 568 + [3], word_ids=[*range(568), -1]) for key in range(20)], WIDE
    )
    made = md.strategy("t5", sentinels=SENTINELS)
    plan = made.plan(examples)

    assert (plan.kinds.values.reshape(20, -1) > 0).sum(1).tolist() == [85] * 20
    assert {len(layouts.runs_of(kinds)) for kinds in plan.kinds.tolist()} == {28}
    assert made.corrupt(examples, plan).lengths.tolist() == [512] * 20
    assert made.targets(examples, plan).lengths.tolist() == [114] * 20


@given(
    random_examples(),
    SEEDS,
    st.sampled_from([0.0, 0.15, 0.5, 0.9, 1.0]),
    st.sampled_from([1.0, 1.5, 3.0]),
)
def test_t5__number_of_tokens_and_of_spans(examples, seed, rate, mean):
    plan = md.strategy("t5", rate=rate, mean_span=mean).plan(examples, seed=seed)

    for row, kinds in zip(rows_of(examples), plan.kinds.tolist(), strict=True):
        real = twins.real(row)
        if len(real) < 2:
            assert not any(kinds)
            continue
        noise = min(max(round(rate * len(real)), 1), len(real) - 1)
        spans = min(max(round(noise / mean), 1), len(real) - noise, noise)
        assert (sum(kinds), len(layouts.runs_of(kinds))) == (noise, spans)
        assert (kinds[real[0]], kinds[real[-1]]) == (0, 1)


def test_t5__what_is_hidden_at_half_mirrors_what_is_not():
    """Hidden and shown are compositions of one law: read backwards, each is the other."""
    rows = 6000
    kinds = (
        md.strategy("t5", rate=0.5)
        .plan(rows_like([1] * 20, rows))
        .kinds.values.reshape(rows, -1)[:, 1:-1]
    )
    hidden = kinds.mean(0)

    assert (hidden[0], hidden[-1]) == (0, 1)
    assert (abs(hidden - (1 - hidden[::-1])) < 4.5 * np.sqrt(2 * 0.25 / rows)).all()


@given(random_examples(), SEEDS)
def test_t5__filled_inputs_are_the_row(examples, seed):
    examples = replace(examples, ids=WIDE)
    for name in ("t5", "ul2", "salient-t5"):
        made = md.strategy(name, sentinels=SENTINELS)
        plan = made.plan(examples, seed=seed)
        columns = (
            made.corrupt(examples, plan, seed=seed).tolist(),
            made.targets(examples, plan).tolist(),
        )

        for row, inputs, targets in zip(rows_of(examples), *columns, strict=True):
            assert layouts.filled(inputs, targets, SENTINELS, len(layouts.tail_of(row))) == list(
                row.ids
            )


def test_t5__a_rate_of_each_epoch():
    rate = {"shape": "linear", "start": 0.5, "stop": 0.1, "over": 4}
    made = md.strategy("t5", rate=rate)

    counts = [
        sum(made.plan(rows_like([1] * 40, 1), epoch=epoch).counts()) for epoch in (0, 2, 4, 9)
    ]
    assert counts == [20, 12, 4, 4]


# UL2 -----------------------------------------------------------------------------------------------------------------


def test_ul2__modes_stand_first_and_are_as_frequent_as_their_denoisers():
    rows = 3500
    examples = rows_like([1] * 40, rows)
    made = md.strategy("ul2", sentinels=SENTINELS, modes=(5, 6, 7))
    plan = made.plan(examples)
    inputs = made.corrupt(examples, plan)
    modes = inputs.values[inputs.offsets[:-1]]

    counts = Counter(modes.tolist())
    expected = {5: 2 / 7 * rows, 6: 1 / 7 * rows, 7: 4 / 7 * rows}
    assert sum((counts[mode] - due) ** 2 / due for mode, due in expected.items()) < critical_value(
        2
    )
    without = md.strategy("ul2", sentinels=SENTINELS).corrupt(examples, plan)
    assert [row[1:] for row in inputs.tolist()] == without.tolist()


def test_ul2__hides_what_the_modes_say():
    """Of 40 tokens: R 6 in 2 spans or in 1, S the last 10, X 20 in 7, 2 or 1 spans, or 6 in 1."""
    examples = rows_like([1] * 40, 1400)
    made = md.strategy("ul2", sentinels=SENTINELS, modes=(5, 6, 7))
    plan = made.plan(examples)
    modes = [row[0] for row in made.corrupt(examples, plan).tolist()]

    seen = {
        (mode, sum(kinds), len(layouts.runs_of(kinds)))
        for mode, kinds in zip(modes, plan.kinds.tolist(), strict=True)
    }
    assert seen == {(5, 6, 2), (5, 6, 1), (6, 10, 1), (7, 20, 7), (7, 20, 2), (7, 20, 1), (7, 6, 1)}
    assert all(
        kinds[31:41] == [1] * 10
        for mode, kinds in zip(modes, plan.kinds.tolist(), strict=True)
        if mode == 6
    )


@pytest.mark.parametrize(("modes", "count"), [((5,), 1), ((5, 6, 7, 8), 4), ((5, 6, -1), 3)])
def test_ul2__refuses_modes_that_are_not_three(modes, count):
    with pytest.raises(
        ValueError, match=rf"modes: expected the ids of R, S and X, or none, got {count}"
    ):
        md.strategy("ul2", modes=modes)


def test_ul2__modes_beyond_the_vocabulary():
    examples = fixed_examples(3)
    made = md.strategy("ul2", sentinels=tuple(range(39, 19, -1)), modes=(38, 39, 40))

    with pytest.raises(
        ValueError, match=r"^modes: expected ids below 40, the tokenizer's, got 40$"
    ):
        made.corrupt(examples, made.plan(examples))


# Salient spans -------------------------------------------------------------------------------------------------------


def test_salient_t5__one_mention_of_a_row_behind_a_sentinel():
    row = replace(row_of([1, 2, 1, 1], [(1, 2), (3, 4)]), ids=[2, 10, 11, 12, 13, 14, 3])
    examples = examples_of([replace(row, key=key) for key in range(400)])
    made = md.strategy("salient-t5", sentinels=(39,))
    plan = made.plan(examples)
    pairs = Counter(
        (tuple(seen), tuple(written))
        for seen, written in zip(
            made.corrupt(examples, plan).tolist(),
            made.targets(examples, plan).tolist(),
            strict=True,
        )
    )

    assert set(pairs) == {
        ((2, 10, 39, 13, 14, 3), (39, 11, 12, 3)),
        ((2, 10, 11, 12, 13, 39, 3), (39, 14, 3)),
    }
    assert abs(max(pairs.values()) - 200) < 4 * sqrt(400 / 4)


def test_salient_t5__a_row_without_a_mention_stays():
    examples = examples_of([row_of([1, 2])])
    made = md.strategy("salient-t5", sentinels=(39,))
    plan = made.plan(examples)

    assert made.corrupt(examples, plan).tolist() == examples.input_ids.tolist()
    assert made.targets(examples, plan).tolist() == [[3]]


# BART ----------------------------------------------------------------------------------------------------------------


@given(random_examples(), SEEDS, st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_bart__joins_and_inputs_equal_the_twin(examples, seed, rate):
    made = md.strategy("bart", rate=rate)
    plan = made.plan(examples, seed=seed)
    joined = [twins.bart_joined(row, seed=seed, epoch=0, rate=rate) for row in rows_of(examples)]

    assert plan.joined.tolist() == joined
    columns = zip(rows_of(examples), plan.kinds.tolist(), joined, strict=True)
    expected = [
        layouts.single_mask_per_span(row, kinds, IDS.mask, joints) for row, kinds, joints in columns
    ]
    assert made.corrupt(examples, plan, seed=seed).tolist() == expected
    assert made.targets(examples, plan).tolist() == examples.input_ids.tolist()


@given(random_examples(), SEEDS, st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_bart__hides_whole_words_and_owes_what_spans_share(examples, seed, rate):
    plan = md.strategy("bart", rate=rate).plan(examples, seed=seed)

    for row, kinds, owed in zip(rows_of(examples), plan.kinds.tolist(), plan.owed, strict=True):
        words = {row.word_ids[t] for t in twins.real(row)}
        hidden = {row.word_ids[t] for t in twins.real(row) if kinds[t]}
        assert sum(kind > 0 for kind in kinds) == sum(word in hidden for word in row.word_ids)
        assert len(hidden) + owed == ceil(Fraction(str(rate)) * len(words))


def test_bart__beginnings_are_any_words():
    """One span of one word: a rate of one word."""
    rows = 4000
    kinds = (
        md.strategy("bart", rate=0.1)
        .plan(rows_like([1, 2] * 5, rows))
        .kinds.values.reshape(rows, -1)
    )
    counts = Counter(int(np.flatnonzero(row)[0]) for row in kinds)

    assert sorted(counts) == [1, 2, 4, 5, 7, 8, 10, 11, 13, 14]
    assert sum((count - 400) ** 2 / 400 for count in counts.values()) < critical_value(9)


def test_bart__spans_that_touch_keep_a_mask_each_and_those_that_meet_share_one():
    examples = rows_like([1] * 4, 300)
    made = md.strategy("bart", rate=1.0)
    plan = made.plan(examples)
    inputs = zip(made.corrupt(examples, plan).tolist(), plan.kinds.tolist(), strict=True)
    masks = Counter(row.count(IDS.mask) for row, kinds in inputs if sum(kinds) == 4)

    assert masks[1] > 0 < masks[2]


@pytest.mark.parametrize("mean", [0.0, -1.0, 65.0])
def test_bart__refuses_a_mean_out_of_range(mean):
    with pytest.raises(
        ValueError, match="mean_span: expected more than 0 and 64 words at most, got"
    ):
        md.strategy("bart", mean_span=mean)
