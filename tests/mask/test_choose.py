from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.mask.choose import Choose
from mslm_data.mask.draws import Draws
from mslm_data.mask.plan import Draft
from mslm_data.mask.rate import Varying
from mslm_data.mask.score import Score
from mslm_data.mask.stages import OneOf, run
from tests.generate import IDS, examples_of, random_examples, row_of, rows_of
from tests.reference import choose as twins

RATES = st.sampled_from([0.0, 0.07, 0.15, 0.25, 0.5, 0.55, 1.0])
COUNTS = st.integers(0, 2**63 - 1)
STAGES = st.fixed_dictionaries(
    {
        "hide": st.sampled_from(["tokens", "words", "mentions", "released pieces"]),
        "rate": RATES,
        "of": st.sampled_from(["units", "tokens", "all tokens"]),
        "rounding": st.sampled_from(["up", "down", "nearest", "random"]),
        "least": st.integers(0, 2),
        "most": st.sampled_from([None, 0, 1, 4]),
        "how": st.sampled_from(["uniform", "each", "again"]),
        "overrun": st.sampled_from(["cut", "skip", "over", "stop"]),
        "among": st.sampled_from(["any", "generic", "mentions"]),
        "unknown": st.booleans(),
        "gate": st.sampled_from([0.0, 0.5, 1.0]),
        "kind": st.sampled_from(["base", "entity"]),
    }
)


def marked(stages, examples, seed=0, epoch=0, *, joined=False, step=None):
    draft = Draft.of(examples, joined=joined)
    run(stages, examples, Draws(keys=examples.keys, seed=seed, epoch=epoch, step=step), draft)
    kinds = np.split(draft.kinds, examples.input_ids.offsets[1:-1]) if len(examples) else []
    return [row.tolist() for row in kinds], draft


@given(random_examples(), st.lists(STAGES, min_size=1, max_size=3), COUNTS, COUNTS)
def test_choose__equals_twin(examples, stages, seed, epoch):
    kinds, draft = marked([Choose(**stage) for stage in stages], examples, seed, epoch)

    for row, got, owed in zip(rows_of(examples), kinds, draft.owed.tolist(), strict=True):
        expected = [0] * len(row.ids)
        due = [
            twins.choose(row, expected, seed=seed, epoch=epoch, stage=number, **stage)
            for number, stage in enumerate(stages)
        ]
        assert (got, owed) == (expected, sum(due))


PLAIN = st.fixed_dictionaries(
    {
        "hide": st.sampled_from(["tokens", "words", "mentions"]),
        "rate": RATES,
        "rounding": st.sampled_from(["up", "down", "nearest"]),
        "least": st.integers(0, 1),
        "most": st.sampled_from([None, 0, 2]),
        "unknown": st.booleans(),
        "kind": st.sampled_from(["base", "entity"]),
    }
)
"""Of these nearly all are chosen and written in one pass; of `STAGES` few are."""


@given(random_examples(), st.lists(PLAIN, min_size=1, max_size=3), COUNTS)
def test_choose__in_one_pass_equals_twin(examples, stages, seed):
    kinds, draft = marked([Choose(**stage) for stage in stages], examples, seed)
    apart, also = marked([Choose(**stage) for stage in stages], examples, seed, joined=True)

    assert apart == kinds
    assert also.owed.tolist() == draft.owed.tolist()
    for row, got, owed in zip(rows_of(examples), kinds, draft.owed.tolist(), strict=True):
        expected = [0] * len(row.ids)
        due = [
            twins.choose(row, expected, seed=seed, epoch=0, stage=number, **stage)
            for number, stage in enumerate(stages)
        ]
        assert (got, owed) == (expected, sum(due))


@given(random_examples(), STAGES, STAGES, COUNTS)
def test_one_of__each_row_goes_one_way(examples, first, second, seed):
    ways = OneOf(
        chances=(0.5, 0.25), ways=((Choose(**first),), (Choose(**second), Choose(**first)))
    )
    kinds, draft = marked([ways], examples, seed)

    for row, got, owed in zip(rows_of(examples), kinds, draft.owed.tolist(), strict=True):
        drawn = twins.draws.uniform(twins.stream(row, seed, 0, twins.BRANCH), 0)
        stages = {256: first} if drawn < 0.5 else {272: second, 273: first} if drawn < 0.75 else {}
        expected = [0] * len(row.ids)
        due = [
            twins.choose(row, expected, seed=seed, epoch=0, stage=stage, **way)
            for stage, way in stages.items()
        ]
        assert (got, owed) == (expected, sum(due))


@pytest.mark.parametrize(
    ("options", "hidden", "owed"),
    [
        ({"overrun": "cut"}, 3, 0),
        ({"overrun": "skip"}, 0, 3),
        ({"overrun": "over"}, 4, 0),
        ({"overrun": "stop"}, 0, 3),
        ({"overrun": "cut", "most": 2}, 2, 0),
        ({"overrun": "cut", "least": 5}, 5, 0),
        ({"of": "units"}, 8, 0),
    ],
)
def test_choose__words_of_four_tokens_and_a_budget_of_three(options, hidden, owed):
    examples = examples_of([row_of([4, 4])])
    stage = Choose(**{"hide": "words", "rate": 0.3, "of": "tokens", **options})
    if options.get("of") == "units":
        stage = Choose(hide="words", rate=1)
    _, draft = marked([stage], examples)

    assert (np.count_nonzero(draft.kinds), draft.owed.tolist()) == (hidden, [owed])


def test_choose__tells_adjacent_units_apart():
    examples = examples_of([row_of([2, 1, 3])])
    _, draft = marked([Choose(hide="words", rate=1.0)], examples, joined=True)

    assert draft.kinds.tolist() == [0, 1, 1, 1, 1, 1, 1, 0]
    assert draft.joined.tolist() == [0, 0, 1, 0, 0, 1, 1, 0]


def test_choose__unknown_words_are_hidden_on_demand_only():
    examples = examples_of([row_of([1, 1], fill=IDS.unk)])

    assert marked([Choose(rate=1.0)], examples)[0] == [[0, 0, 0, 0]]
    assert marked([Choose(rate=1.0, unknown=True)], examples)[0] == [[0, 1, 1, 0]]


def test_choose__rate_of_the_epoch_and_of_the_step():
    examples = examples_of([row_of([1] * 10, key=key) for key in range(3)])

    def hidden(rate, **draws):
        return np.count_nonzero(marked([Choose(rate=rate)], examples, **draws)[1].kinds)

    by_epoch = Varying(shape="linear", start=0.4, stop=0.2, over=2)
    assert [hidden(by_epoch, epoch=epoch) for epoch in range(4)] == [12, 9, 6, 6]
    by_step = Varying(shape="linear", start=0.4, stop=0.2, over=2, per="step")
    assert [hidden(by_step, step=step, epoch=9) for step in range(4)] == [12, 9, 6, 6]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 1.5}, r"^rate: expected a rate in \[0, 1\], got 1\.5"),
        ({"rate": 1, "gate": -1}, r"^gate: expected a rate in \[0, 1\], got -1"),
        ({"rate": 1, "how": "weighted"}, "^how: expected a score for 'weighted', got none"),
        (
            {"rate": 1, "score": Score(lexicon="x")},
            "^how: expected 'weighted', 'highest', 'lowest' or 'each' for a score",
        ),
    ],
)
def test_choose__refuses(options, message):
    with pytest.raises(ValueError, match=message):
        Choose(**options)
