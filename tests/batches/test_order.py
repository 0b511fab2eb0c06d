"""Steps of ranks, and positions: the order of batches and its cursor."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.batches.batch_options import BatchOptions
from mslm_data.batches.order import Cursor, EpochOrder, Position, Step
from tests.support.properties import fewer
from tests.support.row_lengths import RowLengths

SHAPES: list[dict[str, Any]] = [
    {"batch_size": 3},
    {"batch_size": 3, "bucketed": False},
    {"batch_size": 2, "shuffle": "shards", "open_shards": 2},
    {"batch_size": 3, "shuffle": False},
    {"batch_tokens": 120},
    {"batch_tokens": 120, "bucketed": False},
    {"batch_tokens": 120, "flat": True},
    {"batch_tokens": 120, "shuffle": "shards", "open_shards": 2},
]


def order_of(rows: int, **options: Any) -> EpochOrder:
    """Return the order of some rows of 1 to 50 tokens, in six shards."""
    shards = [len(part) for part in np.array_split(np.arange(rows), 6)]
    return EpochOrder(RowLengths.made(rows, shards), BatchOptions(**options))


def steps_of(order: EpochOrder, start: Position, world: int) -> list[list[Step]]:
    """Return the steps of each rank."""
    return [[*order.batches(start, rank=rank, world=world)] for rank in range(world)]


def contents(steps: list[Step]) -> list[Any]:
    return [[step.rows.tolist(), step.number, step.tokens] for step in steps]


def rows_of(ranks: list[list[Step]]) -> list[int]:
    return [row for steps in ranks for step in steps for row in step.rows.tolist()]


def tokens_of(order: EpochOrder, rows: list[int]) -> int:
    return int(order.rows.lengths(np.array(rows, np.int64)).sum())


def given_passes(cursor: Cursor, count: int, **ranks: int) -> list[list[Any]]:
    """Return the batches of some passes, all counted."""
    passes = []
    for _ in range(count):
        passes.append([])
        for step in cursor.begin(**ranks):
            cursor.count()
            passes[-1].append(contents([step])[0])
    return passes


# Ranks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", SHAPES, ids=str)
@given(rows=st.integers(0, 1500), world=st.integers(1, 4), drop_last=st.booleans())
@fewer(0.3)
def test_batches__are_dealt_to_the_ranks_in_turn(
    options: dict[str, Any], rows: int, world: int, drop_last: bool
) -> None:
    order = order_of(rows, drop_last=drop_last, **options)
    batches = contents([*order.batches(Position(3, step=0, tokens=0))])

    ranks = steps_of(order, Position(3, step=0, tokens=0), world)

    assert len({len(steps) for steps in ranks}) == 1
    done = number = 0
    for block in range(len(order.bounds(3)) - 1):
        count = order.plan(3, block).num_batches
        own = batches[done : done + count]
        done += count
        for _ in range(count // world):
            at_once = [steps[number].rows.tolist() for steps in ranks]
            assert at_once == [own.pop(0)[0] for _ in range(world)]
            number += 1

        # The last step shares the remaining batches, and repeats rows only if there are too few.
        left = [row for rows_, *_ in own for row in rows_]
        if left and not drop_last:
            last = rows_of([[steps[number]] for steps in ranks])
            assert set(last) == set(left)
            assert len(last) == max(len(left), world)
            number += 1
    assert number == len(ranks[0])
    if "batch_tokens" in options:
        for step in itertools.chain(*ranks):
            lengths = order.rows.lengths(step.rows)
            flat = order.options.flat
            assert (lengths.sum() if flat else len(lengths) * lengths.max()) <= 120


@pytest.mark.parametrize("options", SHAPES, ids=str)
@given(
    rows=st.integers(0, 1500),
    before=st.integers(1, 4),
    now=st.integers(1, 4),
    drop_last=st.booleans(),
    data=st.data(),
)
@fewer(0.3)
def test_batches__go_on_with_other_ranks(
    options: dict[str, Any], rows: int, before: int, now: int, drop_last: bool, data: Any
) -> None:
    """Rows are given once, and steps and tokens are exact, after a resume with other ranks."""
    order = order_of(rows, drop_last=drop_last, **options)
    start = Position(2, step=70, tokens=900)
    whole = steps_of(order, start, before)
    count = data.draw(st.integers(0, max(len(whole[0]) - 1, 0)))
    begun = [steps[:count] for steps in whole]
    later = begun[0][-1].after if count else start

    rest = steps_of(order, later, now)

    seen = rows_of(begun)
    left = rows_of(rest)
    assert not set(seen) & set(left)
    if not drop_last:
        assert set(seen) | set(left) == set(range(rows))
    given_tokens = 900
    for number, at_once in enumerate(
        itertools.chain(zip(*begun, strict=True), zip(*rest, strict=True)), start=70
    ):
        assert {step.number for step in at_once} == {number}
        assert {step.tokens for step in at_once} == {given_tokens}
        distinct = sorted(set(rows_of([[step] for step in at_once])))
        given_tokens += tokens_of(order, distinct)
    if now == before:
        assert [contents(steps) for steps in rest] == [contents(steps[count:]) for steps in whole]


@pytest.mark.parametrize("options", SHAPES, ids=str)
@pytest.mark.parametrize("drop_last", [True, False])
def test_steps__are_those_of_every_rank(options: dict[str, Any], drop_last: bool) -> None:
    for rows, world in itertools.product((0, 1, 7, 700), (1, 3)):
        order = order_of(rows, drop_last=drop_last, **options)

        count = len([*order.batches(Position(1, step=0), world=world)])

        is_estimate = order.options.is_by_tokens and order.options.shuffle == "shards"
        expected = pytest.approx(count, 0.5, 2) if is_estimate else count
        assert order.steps(1, world) == expected, (rows, world)


def test_plan__is_kept_for_one_block() -> None:
    order = order_of(500, batch_tokens=120)

    assert order.steps(0) == order.plan(0).num_batches
    assert order.plan(0) is order.plan(0)
    assert order.plan(0) is not order.plan(1)


# Cursor --------------------------------------------------------------------------------------------


def test_begin__counts_steps_and_tokens_over_epochs_by_tokens() -> None:
    """Epochs by tokens differ in their number of batches."""
    order = order_of(700, batch_tokens=120)
    cursor = Cursor(order)

    passes = given_passes(cursor, 3)

    assert len({len(steps) for steps in passes}) > 1
    steps = [*itertools.chain(*passes)]
    assert [number for _, number, _ in steps] == list(range(len(steps)))
    given_tokens = 0
    for rows, _, tokens in steps:
        assert tokens == given_tokens
        given_tokens += tokens_of(order, rows)


@pytest.mark.parametrize("world", [1, 2, 4])
def test_begin__goes_on_with_the_next_step_on_other_ranks(world: int) -> None:
    """A rate per step does not jump when training resumes on another number of ranks."""
    order = order_of(6400, batch_size=32)
    cursor = Cursor(order)
    given_passes(cursor, 1, world=2)
    for _ in itertools.islice(cursor.begin(world=2), 51):
        cursor.count()

    resumed = Cursor(order)
    resumed.load_state_dict(json.loads(json.dumps(cursor.state_dict())))

    rest, following = given_passes(resumed, 2, world=world)
    assert len(rest) == -(-98 // world)
    assert rest[0][1:] == [151, cursor.state_dict()["tokens"]]
    assert following[0][1] == 151 + len(rest)


def test_begin__counts_earlier_epochs_as_this_one_where_they_are_unknown() -> None:
    order = order_of(700, batch_size=32)

    for cursor in (Cursor(order, epoch=3), Cursor(order)):
        cursor.set_epoch(3)
        step = next(cursor.begin(world=2))
        assert step.number == 3 * 11
        assert step.tokens == 3 * order.rows.tokens


@pytest.mark.parametrize("options", SHAPES, ids=str)
@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("world", [1, 3])
def test_load_state_dict__of_the_end_of_an_epoch_begins_the_next(
    options: dict[str, Any], drop_last: bool, world: int
) -> None:
    order = order_of(700, drop_last=drop_last, **options)
    cursor = Cursor(order)
    expected = given_passes(cursor, 3, world=world)

    cursor = Cursor(order)
    for _ in cursor.begin(world=world):
        cursor.count()
        state = json.loads(json.dumps(cursor.state_dict()))
    for saved in (state, cursor.state_dict()):
        resumed = Cursor(order)
        resumed.load_state_dict(saved)
        assert given_passes(resumed, 2, world=world) == expected[1:]


def test_set_epoch__after_a_resume_at_its_end_leaves_nothing() -> None:
    order = order_of(50, batch_size=4)
    cursor = Cursor(order, epoch=2)
    expected = given_passes(cursor, 2)

    resumed = Cursor(order)
    cursor = Cursor(order, epoch=2)
    given_passes(cursor, 1)
    resumed.load_state_dict(cursor.state_dict())
    resumed.set_epoch(2)

    assert given_passes(resumed, 2) == [[], expected[1]]


def test_set_epoch__keeps_a_loaded_state_of_that_epoch_alone() -> None:
    order = order_of(50, batch_size=4)
    cursor = Cursor(order, epoch=3)
    whole, following = given_passes(cursor, 2)
    cursor = Cursor(order, epoch=3)
    for _ in itertools.islice(cursor.begin(), 5):
        cursor.count()
    state = cursor.state_dict()

    for epoch in (3, 4):
        resumed = Cursor(order)
        resumed.load_state_dict(state)
        resumed.set_epoch(epoch)
        rest = given_passes(resumed, 1)[0]
        if epoch == 3:
            assert rest == whole[5:]
        else:
            assert [rows for rows, *_ in rest] == [rows for rows, *_ in following]


def test_begin__restarts_an_epoch_that_was_left() -> None:
    order = order_of(50, batch_size=4)
    cursor = Cursor(order)
    first, second = given_passes(cursor, 2)
    cursor = Cursor(order)
    given_passes(cursor, 1)

    for _ in range(2):
        for _ in itertools.islice(cursor.begin(), 5):
            cursor.count()

    assert given_passes(cursor, 1) == [second] != [first]


def test_begin__of_a_pass_that_ends_at_its_last_batch_has_completed_it() -> None:
    """A trainer that knows the length never asks for a batch after the last one."""
    cursor = Cursor(order_of(50, batch_size=4))
    for _ in itertools.islice(cursor.begin(), 13):
        cursor.count()

    next(cursor.begin())

    assert cursor.epoch == 1


def test_count__of_an_older_pass_does_nothing() -> None:
    cursor = Cursor(order_of(50, batch_size=4))
    older = cursor.begin()
    next(older)
    newer = cursor.begin()

    for _ in older:
        pass
    next(newer)
    cursor.count()

    assert cursor.state_dict()["batch"] == 1
    assert cursor.epoch == 0


def test_state_dict__is_plain_and_small() -> None:
    rows = RowLengths.made(10)
    options = BatchOptions(batch_size=np.int64(2), seed=np.int64(3), shuffle=np.True_)  # type: ignore[arg-type]
    cursor = Cursor(EpochOrder(rows, options), epoch=1)
    for _ in itertools.islice(cursor.begin(world=2), 2):
        cursor.count()

    state = cursor.state_dict()

    assert json.loads(json.dumps(state)) == {
        "version": 1,
        "epoch": 1,
        "block": 0,
        "batch": 4,
        "step": 5,
        "tokens": state["tokens"],
        "options": {
            "rows": 10,
            "tokens": rows.tokens,
            "digest": None,
            "mix": [],
            "batch_size": 2,
            "batch_tokens": None,
            "flat": False,
            "multiple_of": 1,
            "shuffle": True,
            "open_shards": 16,
            "bucketed": True,
            "drop_last": False,
            "margin": 0,
            "seed": 3,
        },
    }
    assert rows.tokens < state["tokens"] < 2 * rows.tokens


def test_begin__stands_at_a_loaded_state_once() -> None:
    order = order_of(10, batch_size=2)
    cursor = Cursor(order)
    whole = given_passes(cursor, 1)[0]
    cursor = Cursor(order)
    for _ in itertools.islice(cursor.begin(), 2):
        cursor.count()

    resumed = Cursor(order)
    resumed.load_state_dict(cursor.state_dict())

    assert contents([next(resumed.begin())])[0] == whole[2]
    assert contents([next(resumed.begin())])[0] == whole[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2}, "state: expected version 1, got 2; begin the epoch anew"),
        ({"version": None}, "state: expected version 1, got None"),
        ({"options": None}, "state: expected options, got None"),
        ({"open_shards": 9}, "state: expected open_shards = 16, got 9"),
        ({"rows": 9}, "state: expected rows = 10, got 9; load the same split and pass the options"),
        ({"tokens of": 9}, "state: expected tokens of = None, got 9"),
        ({"seed": 1}, "state: expected seed = 0, got 1"),
        ({"shuffle": False}, "state: expected shuffle = True, got False"),
        ({"bucketed": False}, "state: expected bucketed = True, got False"),
        ({"drop_last": True}, "state: expected drop_last = False, got True"),
        ({"batch_size": 3}, "state: expected batch_size = 2, got 3"),
        ({"epoch": -1}, "state: epoch: expected an integer"),
        ({"block": 2}, "state: expected at most 10 batches, got block 2 and batch 0"),
        ({"batch": 11}, "state: expected at most 10 batches, got block 0 and batch 11"),
        ({"batch": "x"}, "state: batch: expected an integer"),
        ({"batch": None}, "state: batch: expected an integer"),
        ({"tokens": None}, "state: tokens: expected an integer"),
        ({"step": -1}, "state: step: expected an integer"),
    ],
)
def test_load_state_dict__refuses_a_state_of_other_rows_or_options(
    changes: dict[str, Any], message: str
) -> None:
    cursor = Cursor(order_of(10, batch_size=2))
    state = cursor.state_dict()
    for name, value in changes.items():
        place = state if name in ("version", "options", *Position._fields) else state["options"]
        place[name] = value

    with pytest.raises(ValueError, match=message):
        cursor.load_state_dict(state)

    assert cursor.state_dict() == Cursor(cursor.order).state_dict()


def test_load_state_dict__refuses_a_state_that_lacks_something() -> None:
    cursor = Cursor(order_of(10))

    for name in set(cursor.state_dict()) - {"step"}:
        state = cursor.state_dict()
        del state[name]
        with pytest.raises(ValueError, match="state: "):
            cursor.load_state_dict(state)


def test_load_state_dict__says_where_it_resumes(caplog: pytest.LogCaptureFixture) -> None:
    cursor = Cursor(order_of(10, batch_size=2))

    with caplog.at_level("INFO", "mslm_data"):
        cursor.load_state_dict(cursor.state_dict() | {"batch": 2, "step": 2})

    assert caplog.messages == ["resuming epoch 0 after 2 batches of block 0, 2 steps in all"]
