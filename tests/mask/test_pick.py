from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.ragged import Ragged
from mslm_data.lexicon.score_columns import write_scores
from mslm_data.mask.budget import Budget
from mslm_data.mask.orders import Order
from mslm_data.mask.pick import Eligible, Pick, run
from mslm_data.mask.plan import PlanBuilder
from mslm_data.mask.rate import Linear
from mslm_data.mask.rng import RowRng
from mslm_data.mask.score import Score
from mslm_data.mask.table import strategy
from tests.generate import IDS, examples_of, random_examples, row_of, rows_of
from tests.kernels.fairness import is_fair
from tests.mask.contract import PICKS
from tests.reference import picks as twins

COUNTS = st.integers(0, 2**63 - 1)


def pick(table):
    return strategy("picks", picks=[table]).picks[0]


def masked_by(picks, examples, seed=0, epoch=0, *, with_units=False, step=None):
    """Return the kinds of each row, and the builder."""
    builder = PlanBuilder.empty(examples, with_units=with_units)
    run(picks, examples, RowRng(keys=examples.keys, seed=seed, epoch=epoch, step=step), builder)
    kinds = np.split(builder.kinds, examples.input_ids.offsets[1:-1]) if len(examples) else []
    return [row.tolist() for row in kinds], builder


def twin(row, tables, *, seed=0, epoch=0):
    """Return the kinds of a row and the unspent budget."""
    kinds = [0] * len(row.ids)
    unspent = 0
    for number, table in enumerate(tables):
        left = twins.pick(row, kinds, table, seed=seed, epoch=epoch, number=number)
        # A total budget is that of all picks so far.
        is_total = table["budget"]["total"] and table["order"]["by"] != "bernoulli"
        unspent = left if is_total else unspent + left
    return kinds, unspent


@given(random_examples(), st.lists(PICKS, min_size=1, max_size=3), COUNTS, COUNTS)
def test_mask__equals_twin(examples, tables, seed, epoch):
    kinds, builder = masked_by([pick(table) for table in tables], examples, seed, epoch)

    for row, got, unspent in zip(rows_of(examples), kinds, builder.unspent.tolist(), strict=True):
        assert (got, unspent) == twin(row, tables, seed=seed, epoch=epoch)


@pytest.mark.parametrize(
    ("options", "masked", "unspent"),
    [
        ({"overrun": "cut"}, 3, 0),
        ({"overrun": "skip"}, 0, 3),
        ({"overrun": "stop"}, 0, 3),
        ({"overrun": "cut", "max_masked": 2}, 2, 0),
        ({"overrun": "cut", "min_masked": 5}, 5, 0),
        ({"counts": "units", "rate": 1}, 8, 0),
    ],
)
def test_mask__words_of_four_tokens_and_a_budget_of_three(options, masked, unspent):
    examples = examples_of([row_of([4, 4])])
    budget = Budget(**{"rate": 0.3, "counts": "tokens", **options})
    _, builder = masked_by([Pick("words", budget)], examples)

    assert (np.count_nonzero(builder.kinds), builder.unspent.tolist()) == (masked, [unspent])


def test_mask__a_total_of_0_leaves_nothing_unspent():
    examples = examples_of([row_of([4, 4])])
    owing = Pick("mentions", Budget(0.0, min_masked=2))
    total = Pick("tokens", Budget(0.0, total=True))

    assert masked_by([owing], examples)[1].unspent.tolist() == [2]
    assert masked_by([owing, total], examples)[1].unspent.tolist() == [0]


@pytest.mark.parametrize("by", ["uniform", "bernoulli", "first"])
def test_chance__is_independent_of_what_the_pick_draws(by):
    rows = examples_of([row_of([1] * 1000, key=key) for key in range(20)])
    order = Order(by, chance=0.5)

    kinds, builder = masked_by([Pick("tokens", Budget(0.5), order=order)], rows)

    # Six standard deviations of 20,000 coins are 0.018.
    assert abs(np.mean([np.mean(row[1:-1]) for row in kinds]) - 0.25) < 0.02
    assert not builder.unspent.any()


def test_chance__leaves_whole_units_visible():
    rows = examples_of([row_of([1] * 10, [(2, 5), (7, 9)], key=key) for key in range(50)])
    mentions = Pick("mentions", Budget(1), order=Order(chance=0.5), kind="entity")

    kinds, _ = masked_by([mentions], rows)

    patterns = {tuple(row) for row in kinds}
    assert len(patterns) == 4
    assert all(row[3] == row[5] and row[8] == row[9] for row in patterns)


def test_hints__are_the_first_of_an_order():
    """Of ten tokens, five come first, the top is four of them, and two of those stay visible."""
    rows = examples_of([row_of([1] * 10, key=key) for key in range(3000)])
    order = Order("first", hints=0.4)

    kinds, builder = masked_by([Pick("tokens", Budget(0.5), order=order)], rows)

    visible = [tuple(t for t in range(1, 6) if not row[t]) for row in kinds]
    assert is_fair(visible, itertools.combinations(range(1, 5), 2))
    assert not any(any(row[6:]) for row in kinds)
    assert not builder.unspent.any()


def test_mask__tells_adjacent_units_apart():
    examples = examples_of([row_of([2, 1, 3])])
    _, builder = masked_by([Pick("words", Budget(1.0))], examples, with_units=True)

    assert builder.kinds.tolist() == [0, 1, 1, 1, 1, 1, 1, 0]
    assert builder.continues_unit.tolist() == [0, 0, 1, 0, 0, 1, 1, 0]


def test_mask__unknown_words_are_masked_on_demand_only():
    examples = examples_of([row_of([1, 1], fill=IDS.unk)])

    assert masked_by([Pick("tokens", Budget(1.0))], examples)[0] == [[0, 0, 0, 0]]
    assert masked_by([Pick("tokens", Budget(1.0), Eligible(unknown=True))], examples)[0] == [
        [0, 1, 1, 0]
    ]


@pytest.mark.parametrize(
    ("by", "masked"), [("highest", [0, 1, 0, 0, 1, 0]), ("lowest", [0, 1, 1, 1, 1, 0])]
)
def test_mask__only_lowest_masks_scores_of_0_or_less(by, masked, tmp_path):
    examples = examples_of([row_of([1] * 4)])
    scores = Ragged.from_rows([[0.0, 2.0, 0.0, -1.0, 0.5, 0.0]], np.float32)
    about = {"size": IDS.size}
    write_scores(tmp_path / "column" / "train" / "a.arrow", examples.keys, scores, about)
    order = Order(by, Score(column=str(tmp_path / "column")))

    assert masked_by([Pick("tokens", Budget(1.0), order=order)], examples)[0] == [masked]


def test_mask__rate_of_the_epoch_and_of_the_step():
    examples = examples_of([row_of([1] * 10, key=key) for key in range(3)])

    def masked(rate, **rng):
        return np.count_nonzero(masked_by([Pick("tokens", Budget(rate))], examples, **rng)[1].kinds)

    by_epoch = Linear(start=0.4, stop=0.2, over=2)
    assert [masked(by_epoch, epoch=epoch) for epoch in range(4)] == [12, 9, 6, 6]
    by_step = Linear(start=0.4, stop=0.2, over=2, per="step")
    assert [masked(by_step, step=step, epoch=9) for step in range(4)] == [12, 9, 6, 6]
