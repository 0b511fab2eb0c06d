from __future__ import annotations

from dataclasses import replace

import pytest

import mslm_data as md
from mslm_data.mask.plan import MaskKind, Objective
from mslm_data.testing import check_strategy
from tests.generate import IDS, Row, examples_of, row_of

NONE, BASE, ENTITY = MaskKind
EOS = 3


def kinds_of(*rows, ids=IDS):
    examples = examples_of(rows, replace(ids, eos=EOS))
    check_strategy(md.strategy("causal"), examples)
    return md.strategy("causal").plan(examples).kinds.tolist()


def test_targets__all_tokens_and_the_end_but_not_the_beginning():
    row = row_of([1, 2, 1], [(1, 2)])

    assert kinds_of(row) == [[NONE, BASE, ENTITY, ENTITY, BASE, BASE]]


def test_targets__not_the_first_token_of_a_row_even_in_a_mention():
    row = Row(key=0, ids=[10, 11, 12], word_ids=[0, 0, 1], mentions=[(0, 2, 0)])

    assert kinds_of(row, Row(key=1, ids=[], word_ids=[])) == [[NONE, ENTITY, BASE], []]


def test_targets__no_end_without_an_id_for_it():
    examples = examples_of([row_of([1, 1])])

    assert md.strategy("causal").plan(examples).kinds.tolist() == [[NONE, BASE, BASE, NONE]]


def test_plan__says_its_objective_also_within_a_curriculum():
    examples = examples_of([row_of([1, 1])])
    parts = [{"use": "causal"}, {"use": "token"}]
    curriculum = md.strategy("curriculum", epochs=[1], parts=parts)

    plans = [curriculum.plan(examples, epoch=epoch) for epoch in range(2)]
    assert [plan.objective for plan in plans] == [Objective.CAUSAL, Objective.MASKED]
    assert curriculum.objectives == {Objective.CAUSAL, Objective.MASKED}
    assert curriculum.corrupt(examples, plans[0]).tolist() == examples.input_ids.tolist()


def test_mixture__refuses_causal_by_name():
    with pytest.raises(ValueError, match=r"'causal\.v1' does not mask; .* put it in a curriculum"):
        md.strategy("mixture", chances=[0.5], parts=[{"use": "causal"}])
