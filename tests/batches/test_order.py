from __future__ import annotations

import hashlib
import itertools
import json
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.batches import order as order_module
from mslm_data.batches.batch_options import BatchOptions
from mslm_data.batches.order import (
    WINDOW,
    Cursor,
    EpochOrder,
    Place,
)
from mslm_data.batches.row_order import Shuffled, Stored, row_order
from tests.reference import order as reference
from tests.support.properties import fewer


def bucketed(lengths: list[int], size: int, *, epoch: int = 0) -> list[list[int]]:
    """Return the bucketed batches of rows that are not shuffled."""
    options = BatchOptions(batch_size=size, bucketed=True, shuffle=False, seed=9)
    order = EpochOrder(
        row_order=Stored(len(lengths)),
        options=options,
        lengths=lambda rows: np.array(lengths, np.int64)[rows],
    )
    return [step.batch.rows.tolist() for step in order.batches(Place(epoch))]


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 7), st.integers(0, 5))
def test_batches__bucketed_equal_their_twin(lengths: list[int], size: int, epoch: int) -> None:
    with patch.object(order_module, "WINDOW", 3):
        batches = bucketed(lengths, size, epoch=epoch)

    window = 3 * size
    expected = []
    for number, first in enumerate(range(0, len(lengths), window)):
        of_window = lengths[first : first + window]
        twins = reference.window_batches(of_window, size, 9, epoch, number)
        expected += [[first + row for row in batch] for batch in twins]
    assert batches == expected


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 7))
def test_batches__bucketed_have_each_row_once_beside_rows_of_like_length(
    lengths: list[int], size: int
) -> None:
    batches = bucketed(lengths, size)

    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    bounds = sorted(
        (min(lengths[row] for row in batch), max(lengths[row] for row in batch))
        for batch in batches
    )
    assert all(a[1] <= b[0] for a, b in zip(bounds, bounds[1:], strict=False))  # noqa: RUF007 - reads better


# Order ---------------------------------------------------------------------------------------------


def lengths_of(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return rows * 7 % 50


def lengths_from_one(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return lengths_of(rows) + 1


def order_of(rows: int, *, tokens: int | None = -1, **chosen: Any) -> EpochOrder:
    """Return the order of some rows; -1 counts their tokens."""
    options = BatchOptions(**chosen)
    lengths = lengths_from_one if options.is_by_tokens else lengths_of
    if tokens == -1:
        tokens = int(lengths(np.arange(rows)).sum())
    placed = row_order(range(rows), options)
    return EpochOrder(row_order=placed, options=options, tokens=tokens, lengths=lengths)


def lists(order: EpochOrder, start: Place, *, rank: int = 0, world: int = 1) -> list[Any]:
    batches = order.batches(start, rank=rank, world=world)
    return [[step.batch.rows.tolist(), step.number] for step in batches]


def after(order: EpochOrder, start: Place, steps: int, **ranks: int) -> Place:
    """Return the place after some steps."""
    places = [start, *(step.after for step in order.batches(start, **ranks))]
    return places[steps]


@pytest.mark.parametrize(
    ("shuffle", "bucketed", "drop_last", "expected"),
    [
        (True, True, True, "4646306e2696df55"),
        (True, True, False, "0a436f09b5abbf3f"),
        (True, False, True, "e4ab70cb69ef86c0"),
        (True, False, False, "0f08bfc901addaaf"),
        (False, True, True, "fa53c081d55ae90c"),
        (False, True, False, "e0e5eec0c8f0be39"),
        (False, False, True, "db79b93187d21121"),
        (False, False, False, "c26273e45c97e4ad"),
    ],
)
def test_batches__keep_their_digests(
    shuffle: bool, bucketed: bool, drop_last: bool, expected: str
) -> None:
    """Digests of every batch of many orders, ranks and resumes.

    If a digest changes, a seed gives other batches, and `STATE_VERSION` must be raised.
    """
    digest = hashlib.sha256()
    grid = itertools.product([0, 1, 7, 130, 1000], [1, 3, 8], [(0, 0), (5, 2)], [1, 2, 3])
    for rows, size, (seed, epoch), world in grid:
        order = order_of(
            rows,
            batch_size=size,
            seed=seed,
            shuffle=shuffle,
            bucketed=bucketed,
            drop_last=drop_last,
        )
        for rank in range(world):
            for given_ in (0, min(2 * size * world, rows), min((WINDOW + 2) * size, rows)):
                start = Place(epoch, given_, given_ // size // world)
                batches = lists(order, start, rank=rank, world=world)
                told = [rows, size, seed, epoch, world, rank, given_, batches]
                digest.update(json.dumps(told).encode())

    assert digest.hexdigest()[:16] == expected


@given(
    st.integers(0, 300),
    st.integers(1, 4),
    st.integers(1, 4),
    st.booleans(),
    st.booleans(),
    st.data(),
)
def test_batches__of_a_later_place_are_the_rest(
    rows: int, size: int, world: int, bucketed: bool, drop_last: bool, data: st.DataObject
) -> None:
    order = order_of(rows, batch_size=size, bucketed=bucketed, drop_last=drop_last)
    whole = lists(order, Place(3), rank=world - 1, world=world)
    steps = data.draw(st.integers(0, len(whole)))

    later = after(order, Place(3), steps, world=world)

    assert lists(order, later, rank=world - 1, world=world) == whole[steps:]
    assert order.steps(later, world) == len(whole) - steps


BY_TOKENS: list[dict[str, Any]] = [
    {"batch_tokens": 120},
    {"batch_tokens": 120, "bucketed": True},
    {"batch_size": 2, "row_tokens": 80},
    {"batch_tokens": 120, "flat": True},
]


@pytest.mark.parametrize("options", BY_TOKENS)
@given(rows=st.integers(0, 2000), world=st.integers(1, 4), drop_last=st.booleans(), data=st.data())
@fewer(0.3)
def test_batches__by_tokens_of_a_later_place_are_the_rest(
    options: dict[str, Any], rows: int, world: int, drop_last: bool, data: st.DataObject
) -> None:
    order = order_of(rows, drop_last=drop_last, **options)
    ranks = [lists(order, Place(3), rank=rank, world=world) for rank in range(world)]
    assert {len(of_rank) for of_rank in ranks} == {order.steps(Place(3), world)}
    steps = data.draw(st.integers(0, len(ranks[0])))

    later = after(order, Place(3), steps, world=world)

    for rank in range(world):
        assert lists(order, later, rank=rank, world=world) == ranks[rank][steps:]
    assert order.steps(later, world) == len(ranks[0]) - steps


@pytest.mark.parametrize("options", BY_TOKENS)
@given(rows=st.integers(0, 2000), before=st.integers(1, 4), now=st.integers(1, 4), data=st.data())
@fewer(0.3)
def test_batches__by_tokens_go_on_with_other_ranks(
    options: dict[str, Any], rows: int, before: int, now: int, data: st.DataObject
) -> None:
    order = order_of(rows, **options)
    ranks = [lists(order, Place(), rank=rank, world=before) for rank in range(before)]
    steps = data.draw(st.integers(0, max(len(ranks[0]) - 1, 0)))
    seen = [row for of_rank in ranks for drawn, _ in of_rank[:steps] for row in drawn]

    later = after(order, Place(), steps, world=before)
    rest = [lists(order, later, rank=rank, world=now) for rank in range(now)]

    left = [row for of_rank in rest for drawn, _ in of_rank for row in drawn]
    assert {len(of_rank) for of_rank in rest} == {order.steps(later, now)}
    assert set(seen) | set(left) == set(range(rows))
    assert not set(seen) & set(left)
    assert len(seen) + len(left) - rows < max(now, 1)  # repeated, so that each rank has a row


@pytest.mark.parametrize("options", [{"batch_size": 3}, *BY_TOKENS])
@given(
    rows=st.integers(0, 1500),
    before=st.integers(1, 4),
    now=st.integers(1, 4),
    drop_last=st.booleans(),
    data=st.data(),
)
@fewer(0.3)
def test_step__tokens_are_those_of_earlier_epochs_and_the_share_of_rows_given(
    options: dict[str, Any],
    rows: int,
    before: int,
    now: int,
    drop_last: bool,
    data: st.DataObject,
) -> None:
    """Counts rows one by one over all ranks, also after a resume with other ranks."""
    order = order_of(rows, drop_last=drop_last, **options)
    total = int(lengths_of(np.arange(rows)).sum()) + rows * order.options.is_by_tokens
    whole = [list(order.batches(Place(3), rank=rank, world=before)) for rank in range(before)]
    steps = data.draw(st.integers(0, len(whole[0])))
    later = after(order, Place(3), steps, world=before)
    rest = [list(order.batches(later, rank=rank, world=now)) for rank in range(now)]

    given_rows = 0
    for ranks in ([of_rank[:steps] for of_rank in whole], rest):
        for at_once in zip(*ranks, strict=True):
            assert {step.tokens for step in at_once} == {3 * total + total * given_rows // rows}
            given_rows += sum(len(step.batch.rows) for step in at_once)


def test_step__tokens_count_a_short_batch_of_a_bucket_as_a_full_one() -> None:
    """A partial batch may come first in its window, where a position is a number of batches."""
    order = order_of(50, batch_size=4, bucketed=True)

    steps = list(order.batches(Place(1), world=2))

    total = int(lengths_of(np.arange(50)).sum())
    assert [step.tokens for step in steps] == [total + total * 8 * n // 50 for n in range(7)]


def test_step__has_no_tokens_where_they_are_not_known() -> None:
    order = order_of(50, batch_size=4, tokens=None)

    assert {step.tokens for step in order.batches(Place(1))} == {None}


@pytest.mark.parametrize("options", BY_TOKENS)
def test_batches__by_tokens_fill_their_budget_and_mix_lengths(options: dict[str, Any]) -> None:
    large = {name: 20 * value if "tokens" in name else value for name, value in options.items()}
    order = order_of(200_000, **large)

    means = []
    tokens = []
    for step in order.batches(Place()):
        lengths = lengths_from_one(step.batch.rows)
        tokens.append(int(lengths.sum()))
        means.append(float(lengths.mean()))

    filled = sum(tokens) / (len(tokens) * (order.options.tokens or 0))
    assert filled > (0.95 if order.options.is_packed or order.options.bucketed else 0.5)
    if not order.options.bucketed:
        first, second = np.array_split(np.array(means), 2)
        assert abs(first.mean() - second.mean()) < 1


def test_batches__by_tokens_differ_between_epochs() -> None:
    order = order_of(500, batch_tokens=200, flat=True)

    first, second = ([rows for rows, _ in lists(order, Place(epoch))] for epoch in (0, 1))

    assert first != second


def test_batches__of_a_large_split_cost_no_more_than_a_window() -> None:
    asked: list[int] = []

    def lengths(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        asked.append(len(rows))
        return rows % 50

    options = BatchOptions(batch_size=32, bucketed=True)
    order = EpochOrder(row_order=Shuffled(10**12), options=options, lengths=lengths)

    step = next(order.batches(Place(epoch=1, rows=32 * 10**9, steps=10**9)))

    assert len(step.batch.rows) == 32
    assert step.number == order.steps(Place(1)) + 10**9
    assert asked == [32 * WINDOW]


def test_order__refuses_a_budget_for_rows_without_tokens() -> None:
    with pytest.raises(ValueError, match="batch_tokens, row_tokens: expected rows that have"):
        order_of(3, batch_tokens=64, tokens=None)


# Cursor --------------------------------------------------------------------------------------------


def test_state_dict__is_plain_and_small() -> None:
    order = order_of(10, batch_size=np.int64(2), seed=np.int64(3), tokens=None)
    cursor = Cursor(order, epoch=1)
    for _ in itertools.islice(cursor.begin(world=2), 2):
        cursor.count()

    assert json.loads(json.dumps(cursor.state_dict())) == {
        "version": 5,
        "rows": 10,
        "tokens": None,
        "digest": None,
        "seed": 3,
        "shuffle": True,
        "bucketed": False,
        "drop_last": False,
        "batch_size": 2,
        "epoch": 1,
        "rows_given": 8,
        "batches_given": 0,
        "steps": 2,
    }


def test_begin__stands_at_a_loaded_state_once() -> None:
    cursor = Cursor(order_of(10, batch_size=2))
    cursor.load_state_dict(cursor.state_dict() | {"rows_given": 4, "steps": 2})

    cursor.begin()
    assert cursor.place == Place(0, 4, 2)
    cursor.begin()
    assert cursor.place == Place(0)


def test_set_epoch__keeps_a_loaded_state_of_that_epoch_alone() -> None:
    cursor = Cursor(order_of(10, batch_size=2))
    state = cursor.state_dict() | {"epoch": 3, "rows_given": 4, "steps": 2}

    cursor.load_state_dict(state)
    cursor.set_epoch(3)
    cursor.begin()
    kept = cursor.place
    cursor.load_state_dict(state)
    cursor.set_epoch(4)
    cursor.begin()

    assert kept == Place(3, 4, 2)
    assert cursor.place == Place(4)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("version", 1, "state: expected version 5, got 1; begin the epoch anew"),
        ("version", None, "state: expected version 5, got None"),
        ("rows", 9, "state: expected rows = 10, got 9; load the same split and pass the options"),
        ("tokens", 9, "state: expected tokens = 99, got 9"),
        ("seed", 1, "state: expected seed = 0, got 1"),
        ("shuffle", False, "state: expected shuffle = True, got False"),
        ("bucketed", False, "state: expected bucketed = True, got False"),
        ("drop_last", True, "state: expected drop_last = False, got True"),
        ("batch_size", 3, "state: expected batch_size = 2, got 3"),
        ("epoch", -1, "state: epoch: expected an integer"),
        ("rows_given", 11, "state: expected rows_given of at most 10, got 11"),
        ("rows_given", "x", "state: rows_given: expected an integer"),
        ("steps", None, "state: steps: expected an integer"),
    ],
)
def test_load_state_dict__refuses_a_state_of_other_rows_or_options(
    name: str, value: Any, message: str
) -> None:
    cursor = Cursor(order_of(10, batch_size=2, bucketed=True, tokens=99))
    state = cursor.state_dict()

    with pytest.raises(ValueError, match=message):
        cursor.load_state_dict(state | {name: value})

    assert cursor.state_dict() == state


def test_load_state_dict__refuses_a_state_that_lacks_something() -> None:
    cursor = Cursor(order_of(10))

    for name in set(cursor.state_dict()) - {"batch_size", "tokens", "digest"}:
        state = cursor.state_dict()
        del state[name]
        with pytest.raises(ValueError, match="state: "):
            cursor.load_state_dict(state)


def test_load_state_dict__says_where_it_resumes(caplog: pytest.LogCaptureFixture) -> None:
    cursor = Cursor(order_of(10, batch_size=2))

    with caplog.at_level("INFO", "mslm_data"):
        cursor.load_state_dict(cursor.state_dict() | {"rows_given": 4, "steps": 2})

    assert caplog.messages == ["resuming epoch 0 after 4 of 10 rows, 2 steps"]
