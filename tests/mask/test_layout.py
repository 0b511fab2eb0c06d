"""Layouts over plans of any making."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mslm_data as md
from mslm_data.data.examples import TokenIds
from mslm_data.data.ragged import Ragged
from mslm_data.mask.layout import (
    default_sentinels,
    sentinel_inputs,
    sentinel_targets,
    single_mask_inputs,
)
from mslm_data.mask.plan import MaskPlan
from tests.generate import IDS, examples_of, fixed_examples, random_examples, row_of, rows_of
from tests.reference import layout as twin

WIDE = replace(IDS, size=80)
SENTINELS = tuple(range(79, 39, -1))


@st.composite
def plans(draw: st.DrawFn) -> tuple[object, MaskPlan]:
    """Rows with any of their tokens hidden, specials never, and joints or none."""
    examples = replace(draw(random_examples()), ids=WIDE)
    stream = np.random.default_rng(draw(st.integers(0, 2**32)))
    tokens = len(examples.input_ids.values)
    kinds = stream.integers(0, 3, tokens).astype(np.uint8) * (examples.word_ids.values >= 0)
    joined = stream.integers(0, 2, tokens).astype(np.uint8) if draw(st.booleans()) else None
    offsets = examples.input_ids.offsets
    return examples, MaskPlan(
        Ragged(kinds, offsets), None, None if joined is None else Ragged(joined, offsets)
    )


def joined_rows(plan: MaskPlan) -> list[list[int] | None]:
    return [None] * len(plan.kinds) if plan.joined is None else plan.joined.tolist()


@given(plans())
def test_sentinels__equal_their_twin(pair):
    examples, plan = pair
    inputs, targets = (
        sentinel_inputs(examples, plan, SENTINELS),
        sentinel_targets(examples, plan, SENTINELS),
    )

    expected = [
        twin.sentinel_per_run(row, kinds, SENTINELS, joined)
        for row, kinds, joined in zip(
            rows_of(examples), plan.kinds.tolist(), joined_rows(plan), strict=True
        )
    ]
    assert list(zip(inputs.tolist(), targets.tolist(), strict=True)) == expected
    assert inputs.values.dtype == targets.values.dtype == np.int32


@given(plans())
def test_sentinels__filled_by_the_targets_are_the_row(pair):
    examples, plan = pair
    inputs, targets = (
        sentinel_inputs(examples, plan, SENTINELS),
        sentinel_targets(examples, plan, SENTINELS),
    )

    for row, seen, written in zip(
        rows_of(examples), inputs.tolist(), targets.tolist(), strict=True
    ):
        tail = len(twin.tail_of(row))
        assert twin.filled(seen, written, SENTINELS, tail) == list(row.ids)
        assert written[len(written) - tail :] == twin.tail_of(row)


@given(plans())
def test_single_mask_inputs__equal_their_twin(pair):
    examples, plan = pair
    inputs = single_mask_inputs(examples, plan)

    columns = zip(rows_of(examples), plan.kinds.tolist(), joined_rows(plan), strict=True)
    expected = [
        twin.single_mask_per_span(row, kinds, WIDE.mask, joined) for row, kinds, joined in columns
    ]
    assert inputs.tolist() == expected


def test_sentinels__worked_example():
    """Raffel et al. 2020, figure 2: Thank you <X> me to your party <Y> week, and <X> for inviting <Y> last."""
    examples = examples_of([replace(row_of([1] * 11), ids=[2, *range(10, 21), 3])])
    kinds = np.zeros(13, np.uint8)
    kinds[[3, 4, 9]] = 1
    plan = MaskPlan(Ragged(kinds, examples.input_ids.offsets))

    assert sentinel_inputs(examples, plan, (39, 38)).tolist() == [
        [2, 10, 11, 39, 14, 15, 16, 17, 38, 19, 20, 3]
    ]
    assert sentinel_targets(examples, plan, (39, 38)).tolist() == [[39, 12, 13, 38, 18, 3]]


T5_IDS = TokenIds(size=110, pad=0, unk=2, special=(0, 1, 2, *range(100, 110)))
BERT_IDS = TokenIds(size=110, mask=103, pad=0, unk=100, special=(0, 100, 101, 102, 103))


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (
            T5_IDS,
            list(range(109, 99, -1)),
        ),  # <extra_id_0> is the highest; </s>, which is 1, is none of them
        (BERT_IDS, [102, 101]),  # [SEP] and [CLS], which stand in each row: `corrupt` refuses those
        (replace(BERT_IDS, special=()), []),
        (replace(BERT_IDS, special=(0,)), []),
    ],
)
def test_default_sentinels__are_the_highest_special_ids(ids, expected):
    assert default_sentinels(ids) == expected


def test_default_sentinels__lay_out_rows_of_their_tokenizer():
    rows = [replace(row, ids=[5, *row.ids[1:-1], 1]) for row in rows_of(fixed_examples(8))]
    examples = examples_of(rows, T5_IDS)
    made = md.strategy("t5")
    plan = made.plan(examples)

    assert (
        made.corrupt(examples, plan).tolist()
        == sentinel_inputs(examples, plan, tuple(range(109, 99, -1))).tolist()
    )


def test_sentinels__refuse_the_tokenizers_own_that_stand_in_rows():
    examples = examples_of([row_of([1] * 3, key=4)])
    made = md.strategy("t5")

    with pytest.raises(
        ValueError,
        match=r"^sentinels: expected special ids that stand in no row, and the tokenizer's highest do; pass "
        r"sentinels=\(…\): ids that stand in no text, in order$",
    ):
        made.corrupt(examples, made.plan(examples))


def test_sentinels__too_few_for_a_row():
    examples = fixed_examples()
    made = md.strategy("t5", sentinels=(39, 38))
    plan = made.plan(examples)

    for call in (made.corrupt, made.targets):
        with pytest.raises(
            ValueError,
            match=r"^sentinels: expected 3 for the spans of a row, got 2; pass sentinels=\(…\): ids that stand",
        ):
            call(examples, plan)


def test_sentinels__tokenizer_has_none():
    examples = examples_of([row_of([1] * 3)], TokenIds(size=40, mask=4, pad=0, unk=1))
    made = md.strategy("t5")

    with pytest.raises(
        ValueError,
        match=r"^sentinels: expected 1 for the spans of a row, got 0 of the tokenizer; pass",
    ):
        made.corrupt(examples, made.plan(examples))


def test_sentinels__beyond_the_vocabulary():
    examples = fixed_examples(4)
    made = md.strategy("t5", sentinels=(40, 39))

    with pytest.raises(
        ValueError, match=r"^sentinels: expected ids below 40, the tokenizer's, got 40$"
    ):
        made.corrupt(examples, made.plan(examples))


@pytest.mark.parametrize("sentinels", [(7, 7), (-1,)])
@pytest.mark.parametrize("name", ["t5", "ul2", "salient-t5"])
def test_sentinels__are_distinct_ids(name, sentinels):
    with pytest.raises(ValueError, match=r"sentinels: expected ids of 0 or more, each once$"):
        md.strategy(name, sentinels=sentinels)


def test_single_mask_inputs__no_mask_token():
    examples = replace(fixed_examples(4), ids=replace(IDS, mask=-1))
    made = md.strategy("bart")

    with pytest.raises(
        ValueError, match=r"^corrupt: expected a tokenizer with a mask token, got one without"
    ):
        made.corrupt(examples, made.plan(examples))


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_layouts__plan_of_other_rows(name):
    examples = fixed_examples(4)
    made = md.strategy(name)
    plan = made.plan(fixed_examples(3))

    with pytest.raises(
        ValueError, match=r"^plan: expected one of these 4 rows, got one of 3 rows$"
    ):
        made.corrupt(examples, plan)
