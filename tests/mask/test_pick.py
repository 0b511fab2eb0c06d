from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.ragged import Ragged
from mslm_data.lexicon.score_columns import write_scores
from mslm_data.mask.budget import Budget
from mslm_data.mask.combined_picks import Bernoulli, OneOf, WithoutMentions
from mslm_data.mask.orders import Order
from mslm_data.mask.pick import Eligible, Pick, run
from mslm_data.mask.plan import PlanBuilder
from mslm_data.mask.rate import Schedule
from mslm_data.mask.rng import RowRng
from mslm_data.mask.score import Score
from mslm_data.mask.table import strategy
from tests.generate import IDS, examples_of, random_examples, row_of, rows_of
from tests.mask.contract import PICKS, RATES
from tests.reference import picks as twins

COUNTS = st.integers(0, 2**63 - 1)


PLAIN = st.fixed_dictionaries(
    {
        "units": st.sampled_from(["tokens", "words", "mentions"]),
        "budget": st.fixed_dictionaries(
            {
                "rate": RATES,
                "rounding": st.sampled_from(["up", "down", "nearest"]),
                "min_masked": st.integers(0, 1),
                "max_masked": st.sampled_from([None, 0, 2]),
            }
        ),
        "eligible": st.fixed_dictionaries({"unknown": st.booleans()}),
        "kind": st.sampled_from(["base", "entity"]),
    }
)
"""Nearly all of these are masked by one kernel; of `PICKS` few are."""


def pick(table):
    return strategy("picks", picks=[table]).picks[0]


def masked_by(picks, examples, seed=0, epoch=0, *, with_units=False, step=None):
    """Return the kinds of each row, and the builder."""
    builder = PlanBuilder.empty(examples, with_units=with_units)
    run(picks, examples, RowRng(keys=examples.keys, seed=seed, epoch=epoch, step=step), builder)
    kinds = np.split(builder.kinds, examples.input_ids.offsets[1:-1]) if len(examples) else []
    return [row.tolist() for row in kinds], builder


def twin(row, tables, *, seed=0, epoch=0):
    """Return the kinds of a row and the unspent budget. Tables are keyed by stream number."""
    kinds = [0] * len(row.ids)
    unspent = [
        twins.pick(row, kinds, table, seed=seed, epoch=epoch, number=number)
        for number, table in tables.items()
    ]
    return kinds, sum(unspent)


@given(random_examples(), st.lists(PICKS, min_size=1, max_size=3), COUNTS, COUNTS)
def test_mask__equals_twin(examples, tables, seed, epoch):
    kinds, builder = masked_by([pick(table) for table in tables], examples, seed, epoch)

    for row, got, unspent in zip(rows_of(examples), kinds, builder.unspent.tolist(), strict=True):
        assert (got, unspent) == twin(row, dict(enumerate(tables)), seed=seed, epoch=epoch)


@given(random_examples(), st.lists(PLAIN, min_size=1, max_size=3), COUNTS)
def test_mask__by_one_kernel_equals_twin(examples, tables, seed):
    picks = [pick(table) for table in tables]
    kinds, builder = masked_by(picks, examples, seed)
    apart, also = masked_by(picks, examples, seed, with_units=True)

    assert apart == kinds
    assert also.unspent.tolist() == builder.unspent.tolist()
    for row, got, unspent in zip(rows_of(examples), kinds, builder.unspent.tolist(), strict=True):
        assert (got, unspent) == twin(row, dict(enumerate(tables)), seed=seed)


@given(random_examples(), PICKS, PICKS, COUNTS)
def test_one_of__each_row_goes_one_way(examples, first, second, seed):
    ways = OneOf(chances=(0.5, 0.25), ways=((pick(first),), (pick(second), pick(first))))
    kinds, builder = masked_by([ways], examples, seed)

    for row, got, unspent in zip(rows_of(examples), kinds, builder.unspent.tolist(), strict=True):
        drawn = twins.rng.uniform(twins.stream(row, seed, 0, twins.BRANCH), 0)
        tables = {}
        if drawn < 0.5:
            tables = {256: first}
        elif drawn < 0.75:
            tables = {272: second, 273: first}
        assert (got, unspent) == twin(row, tables, seed=seed)


@given(random_examples(), st.lists(PICKS, min_size=3, max_size=3), COUNTS)
def test_one_of__within_one_of_has_streams_of_its_own(examples, tables, seed):
    first, second, third = map(pick, tables)
    inner = OneOf(chances=(0.5, 0.5), ways=((first,), (second,)))
    kinds, _ = masked_by([OneOf(chances=(0.5, 0.5), ways=((inner,), (third,)))], examples, seed)

    def goes_first(row, path):
        number = twins.rng.stream_number(path, twins.BRANCH >> 16)
        return twins.rng.uniform(twins.stream(row, seed, 0, number), 0) < 0.5

    for row, got in zip(rows_of(examples), kinds, strict=True):
        if not goes_first(row, (0,)):
            number, table = twins.rng.stream_number((0, 1, 0), 0), tables[2]
        else:
            way = 0 if goes_first(row, (0, 0, 0)) else 1
            number, table = twins.rng.stream_number((0, 0, 0, way, 0), 0), tables[way]
        if number < 2**62:
            assert got == twin(row, {number: table}, seed=seed)[0]
        elif table["budget"]["rounding"] != "random" and table["budget"]["gate"] == 1:
            # The purpose is hashed with the path, which the twin's sums do not reproduce.
            assert got == twin(row, {number: table}, seed=seed)[0]


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


@pytest.mark.parametrize(
    "pick",
    [
        Pick("tokens", Budget(0.5), Eligible(unknown=True), Order("bernoulli")),
        Pick("tokens", Budget(0.5), Eligible(unknown=True)),
    ],
    ids=["bernoulli", "uniform"],
)
def test_bernoulli__is_independent_of_what_the_pick_draws(pick):
    rows = examples_of([row_of([1] * 1000, key=key) for key in range(20)])

    kinds, _ = masked_by([Bernoulli(pick=pick, rate=0.5)], rows)

    # Six standard deviations of 20,000 coins are 0.018.
    assert abs(np.mean([np.mean(row[1:-1]) for row in kinds]) - 0.25) < 0.02


def test_bernoulli__keeps_the_kind_of_the_pick():
    rows = examples_of([row_of([1] * 10, [(2, 5)])])
    mentions = Pick("mentions", Budget(1), kind="entity")

    (kinds,), _ = masked_by([Bernoulli(pick=mentions, rate=1)], rows)

    assert sorted(set(kinds)) == [0, 2]


@pytest.mark.parametrize("unknown", [False, True])
def test_bernoulli__takes_nothing_that_is_masked_already(unknown):
    rows = examples_of([row_of([1] * 200, key=key) for key in range(20)])
    first = Pick("words", Budget(0.5))
    second = Pick("words", Budget(0.25), Eligible(unknown=unknown))

    kinds, _ = masked_by([first, Bernoulli(pick=second, rate=1)], rows)

    masked = [np.count_nonzero(row) for row in kinds]
    alone, _ = masked_by([first, second], rows)
    assert masked == [np.count_nonzero(row) for row in alone]


def test_without_mentions__says_which_tokens_are_a_unit():
    words = Pick("words", Budget(1))
    rows = examples_of([row_of([2, 2, 1, 3])])

    _, alone = masked_by([words], rows, with_units=True)
    _, within = masked_by([WithoutMentions(pick=words)], rows, with_units=True)

    assert alone.continues_unit.sum() == 4
    assert within.continues_unit.tolist() == alone.continues_unit.tolist()


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

    by_epoch = Schedule(shape="linear", start=0.4, stop=0.2, over=2)
    assert [masked(by_epoch, epoch=epoch) for epoch in range(4)] == [12, 9, 6, 6]
    by_step = Schedule(shape="linear", start=0.4, stop=0.2, over=2, per="step")
    assert [masked(by_step, step=step, epoch=9) for step in range(4)] == [12, 9, 6, 6]
