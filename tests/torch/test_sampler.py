from __future__ import annotations

import itertools
import json
import pickle
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

from mslm_data.torch.data.sampler import BatchRows, ShardSampler, read_epoch
from tests.support.properties import fewer
from tests.torch.samplers import sampler_of


class Sized:
    """Rows that have only lengths."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    @property
    def shard_rows(self) -> tuple[int, ...]:
        """Return the sizes of five shards: equal ones, and the remainder first."""
        return (self.size - 4 * (self.size // 5), *[self.size // 5] * 4)

    def lengths(self, rows: Any) -> Any:
        return np.asarray(rows) * 7 % 50


options = st.fixed_dictionaries(
    {
        "batch_size": st.integers(1, 4),
        "seed": st.integers(0, 3),
        "epoch": st.integers(0, 3),
        "shuffle": st.sampled_from([True, False, "shards"]),
        "open_shards": st.integers(1, 6),
        "bucketed": st.booleans(),
        "drop_last": st.booleans(),
    }
)
worlds = st.integers(1, 4)
sizes = st.integers(0, 600)


def ranks(size: int, world: int, **chosen: Any) -> list[ShardSampler]:
    return [sampler_of(Sized(size), rank=rank, world=world, **chosen) for rank in range(world)]


def steps(samplers: list[ShardSampler]) -> list[tuple[list[int], ...]]:
    """Return the batches of each step, one per rank."""
    return list(zip(*map(list, samplers), strict=True))


def rows(of: list[tuple[list[int], ...]]) -> list[int]:
    return [row for step in of for batch in step for row in batch]


@given(sizes, worlds, options)
@fewer(0.3)
def test_sampler__gives_each_row_once_over_all_ranks(
    size: int, world: int, chosen: dict[str, Any]
) -> None:
    every = steps(ranks(size, world, **chosen))

    counts = Counter(rows(every))
    assert all(batch for step in every for batch in step)
    assert set(counts) <= set(range(size))
    if chosen["drop_last"]:
        assert sum(counts.values()) == len(every) * world * chosen["batch_size"] == len(counts)
        assert size - len(counts) < (world + 1) * chosen["batch_size"]
    else:
        assert set(counts) == set(range(size))
        assert sum(counts.values()) - size < world


@given(sizes, worlds, worlds, options, st.data())
@fewer(0.3)
def test_state_dict__resumes_with_the_remaining_rows_on_any_number_of_ranks(
    size: int, world: int, other: int, chosen: dict[str, Any], data: st.DataObject
) -> None:
    before = ranks(size, world, **chosen)
    whole = steps(before)
    for sampler in before:
        sampler.set_epoch(chosen["epoch"])
    after = data.draw(st.integers(0, len(whole)))
    given_ = [list(itertools.islice(sampler, after)) for sampler in before]
    states = [json.loads(json.dumps(sampler.state_dict())) for sampler in before]
    again = ranks(size, other, **(chosen | {"epoch": 0}))

    for sampler in again:
        sampler.load_state_dict(states[0])
    rest = steps(again)

    assert all(state == states[0] for state in states)
    assert {sampler.epoch for sampler in again} == {chosen["epoch"]}
    assert all(len(sampler) == states[0]["steps"] + len(rest) for sampler in again)
    if world == other:
        assert list(zip(*given_, strict=True)) + rest == whole
        assert len(again[0]) == len(before[0])
    seen = {row for batches in given_ for batch in batches for row in batch}
    assert not seen & set(rows(rest))
    if not chosen["drop_last"]:
        assert seen | set(rows(rest)) == set(range(size))


@given(sizes, worlds, options, st.data())
@fewer(0.3)
def test_state_dict__without_buckets_resumes_with_another_batch_size(
    size: int, world: int, chosen: dict[str, Any], data: st.DataObject
) -> None:
    chosen = chosen | {"bucketed": False, "drop_last": False}
    (before,) = ranks(size, 1, **chosen)
    seen = set(
        rows(
            [(batch,) for batch in itertools.islice(before, data.draw(st.integers(0, len(before))))]
        )
    )
    again = ranks(size, world, **(chosen | {"batch_size": data.draw(st.integers(1, 5))}))

    for sampler in again:
        sampler.load_state_dict(before.state_dict())

    assert set(rows(steps(again))) == set(range(size)) - seen


def test_sampler__returns_epoch_and_step_with_the_rows() -> None:
    sampler = sampler_of(Sized(10), batch_size=4, epoch=2)

    told = [(read_epoch(batch), batch.step) for batch in sampler if isinstance(batch, BatchRows)]

    assert told == [(2, 6), (2, 7), (2, 8)]
    again = pickle.loads(pickle.dumps(sampler_rows := next(iter(sampler))))  # noqa: S301 - our own
    assert (again, read_epoch(again), vars(again)) == (sampler_rows, 3, vars(sampler_rows))
    assert read_epoch([1, 2]) is None


def test_step__continues_after_a_resume_and_counts_steps_of_all_ranks() -> None:
    first = sampler_of(Sized(20), batch_size=2, epoch=1, world=2)
    assert [batch.step for batch in itertools.islice(first, 3)] == [5, 6, 7]
    again = sampler_of(Sized(20), batch_size=2, world=2, rank=1)

    again.load_state_dict(first.state_dict())

    assert [batch.step for batch in again] == [8, 9]


def test_sampler__distributes_the_rows_of_an_incomplete_step() -> None:
    short = steps(ranks(8 + 5, 2, batch_size=4, shuffle=False))
    shared = steps(ranks(8 + 3, 2, batch_size=4, shuffle=False))
    repeated = steps(ranks(4, 3, batch_size=1, shuffle=False))

    assert short[-1] == ([8, 9, 10, 11], [12])
    assert shared[-1] == ([8, 9], [10])
    assert repeated[-1] == ([3], [3], [3])


def test_set_epoch__keeps_the_position_in_the_current_epoch() -> None:
    sampler = sampler_of(Sized(10), batch_size=2, shuffle=False, epoch=1)
    state = sampler.state_dict() | {"rows_given": 6, "steps": 3}

    sampler.load_state_dict(state)
    sampler.set_epoch(1)
    kept = list(sampler)
    sampler.load_state_dict(state)
    sampler.set_epoch(2)

    assert kept == [[6, 7], [8, 9]]
    assert len(list(sampler)) == len(sampler) == 5
    assert sampler.sampler is sampler


def test_state_dict__before_iterating_is_the_loaded_state() -> None:
    sampler = sampler_of(Sized(10), batch_size=2)
    list(sampler)
    begin = sampler.state_dict() | {"rows_given": 0, "steps": 0}

    sampler.load_state_dict(begin)

    assert sampler.state_dict() == begin


def test_sampler__gives_no_rows_before_the_set_epoch() -> None:
    sampler = sampler_of(Sized(10), batch_size=2)
    ahead = iter(sampler)
    next(ahead)

    sampler.set_epoch(0)
    next(ahead)
    sampler.set_epoch(1)

    with pytest.raises(ValueError, match="epoch: set to 1 after workers had started epoch 0; "):
        next(ahead)
    assert read_epoch(next(iter(sampler))) == 1


def test_set_epoch__goes_back_only_after_a_batch() -> None:
    """Loaders prepared by Accelerate count from 0 again when training is resumed."""
    sampler = sampler_of(Sized(10), batch_size=2)
    state = sampler.state_dict() | {"epoch": 2}

    sampler.set_epoch(1)
    with pytest.raises(ValueError, match="epoch: expected at least 1, which was set before, got 0"):
        sampler.set_epoch(0)
    sampler.load_state_dict(state)
    with pytest.raises(ValueError, match="epoch: expected at least 2, which was set before, got 1"):
        sampler.set_epoch(1)
    next(iter(sampler))
    sampler.set_epoch(0)

    assert read_epoch(next(iter(sampler))) == 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rank": 2, "world": 2}, "rank: expected a number from 0 to 1, got 2"),
        ({"rank": -1}, "rank: expected a number from 0 to 0, got -1"),
        ({"rank": None}, "rank, world: expected both or neither, got rank=None and world=1"),
        ({"epoch": -1}, "epoch: expected an integer"),
    ],
)
def test_sampler__refuses_wrong_options(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sampler_of(Sized(3), **wrong)


def test_sampler__refuses_buckets_of_rows_without_lengths() -> None:
    with pytest.raises(ValueError, match="bucketed: expected rows that have `lengths`, got others"):
        sampler_of([1, 2, 3], bucketed=True)


def test_iter__keeps_the_loaded_position_for_the_used_iterator() -> None:
    """DataLoader with workers creates two iterators of a sampler, and discards the first."""
    sampler = sampler_of(Sized(10), batch_size=2, shuffle=False)
    sampler.load_state_dict(sampler.state_dict() | {"rows_given": 6, "steps": 3})

    thrown_away, used = iter(sampler), iter(sampler)

    assert list(used) == [[6, 7], [8, 9]]
    assert next(thrown_away) == [0, 1]
