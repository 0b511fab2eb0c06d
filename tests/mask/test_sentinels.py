from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mslm_data as md
from mslm_data.data.ragged import Ragged
from mslm_data.errors import CallError
from mslm_data.mask.plan import MaskKind, Objective
from mslm_data.mask.sentinels import merge, put_sentinels, sentinels_in_place
from tests.generate import IDS, examples_of, fixed_examples, random_examples, row_of
from tests.reference.sentinels import rendered

NONE, BASE, ENTITY = MaskKind
EOS = 3
WITH_END = replace(IDS, eos=EOS)
FIRST, SECOND = IDS.sentinels[:2]


@st.composite
def rows_and_kinds(draw):
    examples = draw(random_examples())
    is_special = examples.word_ids.values < 0
    kinds = np.array([draw(st.sampled_from(MaskKind)) for _ in is_special], np.uint8)
    kinds[is_special] = NONE
    return replace(examples, ids=draw(st.sampled_from([IDS, WITH_END]))), kinds


@given(rows_and_kinds())
def test_put_sentinels__equals_twin_and_merges_to_the_row(drawn):
    examples, kinds = drawn
    rows = put_sentinels(examples, kinds)

    twins = [
        rendered(ids, row_kinds, examples.ids)
        for ids, row_kinds in zip(
            examples.input_ids.tolist(),
            Ragged(kinds, examples.input_ids.offsets).tolist(),
            strict=True,
        )
    ]
    found = zip(rows.inputs.tolist(), rows.labels.tolist(), rows.kinds.tolist(), strict=True)
    assert [*found] == twins
    assert merge(rows.inputs, rows.labels, examples.ids).tolist() == examples.input_ids.tolist()

    in_place = sentinels_in_place(examples, kinds)
    assert in_place.offsets.tolist() == examples.input_ids.offsets.tolist()
    assert [[id_ for id_ in row if id_ >= 0] for row in in_place.tolist()] == rows.inputs.tolist()
    assert (in_place.values < 0).sum() == len(kinds) - len(rows.inputs.values)
    is_kept = kinds == NONE
    assert (in_place.values[is_kept] == examples.input_ids.values[is_kept]).all()


def test_put_sentinels__gives_a_sentinel_the_kind_of_its_run():
    examples = examples_of([row_of([1, 1, 1, 1], [(1, 2)])], WITH_END)
    kinds = np.array([NONE, NONE, ENTITY, BASE, BASE, NONE], np.uint8)

    rows = put_sentinels(examples, kinds)

    assert rows.inputs.tolist() == [[2, 10, FIRST, 3]]
    assert rows.labels.tolist() == [[FIRST, 10, 10, 10, EOS]]
    assert rows.kinds.tolist() == [[ENTITY, ENTITY, BASE, BASE, BASE]]


def test_put_sentinels__asks_for_nothing_of_a_row_without_masked_tokens():
    examples = examples_of([row_of([1, 1])], WITH_END)

    rows = put_sentinels(examples, np.zeros(4, np.uint8))

    assert rows.inputs.tolist() == examples.input_ids.tolist()
    assert (rows.labels.tolist(), rows.kinds.tolist()) == ([[EOS]], [[NONE]])


def test_put_sentinels__names_what_fits_if_a_row_has_too_many_runs():
    examples = examples_of([row_of([1] * 6)], replace(IDS, sentinels=(200, 199)))
    strategy = md.strategy("token", rate=1.0, corruption="sentinels")
    assert strategy.corrupt(examples, strategy.plan(examples)).tolist() == [[2, 200, 3]]

    kinds = np.array([0, 1, 0, 1, 0, 1, 0, 0], np.uint8)
    with pytest.raises(CallError, match=r"8 tokens has 3 masked runs.*2 sentinels.*0\.25.*'t5'"):
        put_sentinels(examples, kinds)


def test_put_sentinels__needs_a_tokenizer_with_sentinels():
    examples = examples_of([row_of([1, 1])], replace(IDS, sentinels=()))
    strategy = md.strategy("span", corruption="sentinels")

    with pytest.raises(CallError, match=r"the tokenizer has none, such as <extra_id_0>"):
        strategy.corrupt(examples, strategy.plan(examples))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([FIRST, 10, SECOND, 11, EOS], "expected the sentinels of the inputs"),
        ([SECOND, 10, EOS], "expected the sentinels of the inputs"),
        ([FIRST, 10], "expected the end of the text"),
    ],
)
def test_merge__rejects_labels_of_other_inputs(labels, message):
    inputs = Ragged.from_rows([[2, FIRST, 3]], np.int32)

    with pytest.raises(CallError, match=message):
        merge(inputs, Ragged.from_rows([labels], np.int32), WITH_END)


def test_sentinels__of_any_strategy_and_of_mixtures_of_them():
    examples = fixed_examples(20)
    for strategy in (
        md.strategy("joint", elm=1.0, blm=0.1, corruption="sentinels"),
        md.strategy("lim", corruption="sentinels"),
        md.strategy("spanbert", corruption="sentinels"),
        md.strategy(
            "mixture",
            chances=[0.5, 0.3],
            parts=[{"use": use, "corruption": "sentinels"} for use in ("span", "blm")],
        ),
    ):
        plan = strategy.plan(examples, seed=1)
        rows = put_sentinels(examples, plan.kinds.values)

        assert strategy.objectives == {plan.objective} == {Objective.SENTINELS}
        assert strategy.corrupt(examples, plan, seed=1).tolist() == rows.inputs.tolist()


def test_mixture__refuses_sentinels_beside_masks():
    parts = [{"use": "blm", "corruption": "sentinels"}, {"use": "blm"}]

    with pytest.raises(ValueError, match=r"'sentinels' for all of them or for none"):
        md.strategy("mixture", chances=[0.5, 0.5], parts=parts)
