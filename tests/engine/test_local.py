"""The local engine: tasks in this process and in worker processes."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import psutil
import pytest

from mslm_data.builds.tasks import WorkUnit
from mslm_data.engine import Preload, local, pool
from mslm_data.errors import BuildError
from tests.engine.works import Done, Fake, units

NOTHING = Preload("json:loads", "0")


class ScriptedPool:
    """A pool with scripted results: it completes the oldest task first, unless a worker dies.

    Attributes:
        given: Number of each submitted unit, with the number of workers at that time.
        largest: Maximum number of tasks in flight.
    """

    def __init__(self, *, dies_of: Iterable[int] = ()) -> None:
        self._dies_of = [*dies_of]
        self._under_way: dict[int, WorkUnit] = {}
        self._died: deque[int] = deque()
        self.given: list[tuple[int, int]] = []
        self.largest = 0

    def begin(self, worker: Any) -> None: ...

    def give(self, number: int, unit: WorkUnit, *, workers: int) -> None:
        self._under_way[number] = unit
        self.given.append((unit.number, workers))
        self.largest = max(self.largest, len(self._under_way))
        assert len(self._under_way) <= workers

    def answer(self) -> tuple[int, str | pool.Died]:
        fatal = [unit.number for unit in self._under_way.values() if unit.number in self._dies_of]
        if fatal and not self._died:
            self._dies_of.remove(fatal[0])
            self._died.extend(self._under_way)
        if self._died:
            number = self._died.popleft()
            del self._under_way[number]
            return number, pool.Died("signal 9")
        number = next(iter(self._under_way))
        return number, self._under_way.pop(number).name


def work_off(
    worker: Fake, scripted: ScriptedPool, tasks: Sequence[WorkUnit], done: Done, workers: int
) -> None:
    local._run_all(worker, tasks, scripted, workers, done)  # type: ignore[arg-type]


def test_work_off__submits_one_task_per_worker(worker: Fake) -> None:
    first, *others = units(6)
    scripted, done = ScriptedPool(), Done({first.name: others})

    work_off(worker, scripted, [first], done, 3)

    assert done.names == [unit.name for unit in units(6)]
    assert scripted.largest == 3
    assert worker.suspects == worker.deaths == []


def test_work_off__retries_interrupted_tasks_one_at_a_time(worker: Fake) -> None:
    scripted, done = ScriptedPool(dies_of=[1]), Done()

    work_off(worker, scripted, units(6), done, 3)

    assert scripted.given == [
        (0, 3),
        (1, 3),
        (2, 3),
        (0, 1),
        (1, 1),
        (2, 1),
        (3, 3),
        (4, 3),
        (5, 3),
    ]
    assert sorted(done.names) == [unit.name for unit in units(6)]
    assert worker.suspects == [unit.name for unit in units(3)]
    assert worker.deaths == []


def test_work_off__blames_the_task_that_ran_alone_at_a_death(worker: Fake) -> None:
    scripted, done = ScriptedPool(dies_of=[1, 1, 1]), Done()

    work_off(worker, scripted, units(4), done, 2)

    assert scripted.given == [(0, 2), (1, 2), (0, 1), (1, 1), (1, 1), (1, 1), (2, 2), (3, 2)]
    assert sorted(done.names) == [unit.name for unit in units(4)]
    assert worker.deaths == ["train-00000-00001"] * 2


def test_work_off__asks_the_worker_after_too_many_deaths(worker: Fake) -> None:
    scripted = ScriptedPool(dies_of=[1] * 9)

    with pytest.raises(
        BuildError, match=r"^train-00000-00001: died too often, the last by signal 9$"
    ):
        work_off(worker, scripted, units(4), Done(), 2)

    assert worker.deaths == ["train-00000-00001"] * 3


def test_run__runs_tasks_in_order_in_this_process(worker: Fake) -> None:
    first, second, *others = units(5)
    done = Done({first.name: others})

    local.run(worker, [first, second], workers=1, done=done, preload=NOTHING)

    assert done.names == [unit.name for unit in (first, second, *others)]
    assert worker.expected == [unit.name for unit in (second, *others)]
    assert len(worker.processes()) == 1


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_run__runs_tasks_added_by_results(workers: int, worker: Fake) -> None:
    first, *others = units(9)
    done = Done({first.name: others[:3], others[2].name: others[3:]})

    local.run(worker, [first], workers=workers, done=done, preload=NOTHING)

    assert sorted(done.names) == [unit.name for unit in units(9)]
    assert 1 <= len(worker.processes()) <= workers
    assert worker.suspects == worker.deaths == []


def test_run__retries_a_task_after_a_worker_death(worker: Fake) -> None:
    first, *others = units(4)
    worker.how = ("dies", "dies")
    done = Done({first.name: others})

    local.run(worker, [first], workers=2, done=done, preload=NOTHING)

    assert sorted(done.names) == [unit.name for unit in units(4)]
    assert worker.deaths == ["train-00000-00001"]


def test_run__runs_all_tasks_itself_when_the_system_cannot_fork(
    worker: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "fork")

    with local.ahead(NOTHING):
        local.run(worker, units(3), workers=2, done=Done(), preload=NOTHING)

    assert worker.processes() == {f".{os.getpid()}"}


@pytest.mark.long
@pytest.mark.parametrize("other", [False, True])
def test_ahead__is_used_once_by_a_run_with_the_same_preload(
    other: bool, worker: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools: list[pool.Pool] = []
    start = pool.Pool.start

    def counted(self: pool.Pool) -> None:
        pools.append(self)
        start(self)

    monkeypatch.setattr(pool.Pool, "start", counted)
    done = Done()

    with local.ahead(Preload("json:dumps", "") if other else NOTHING):
        local.run(worker, units(2), workers=2, done=done, preload=NOTHING)
        first = len(pools)
        local.run(worker, units(2), workers=2, done=done, preload=NOTHING)
        second = len(pools)
    local.run(worker, units(2), workers=2, done=done, preload=NOTHING)

    assert (first, second, len(pools)) == ((2, 3, 4) if other else (1, 2, 3))
    assert len(done.names) == 6
    assert psutil.Process().children() == []


def test_ahead__ends_after_an_error_without_a_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = {child.pid for child in psutil.Process().children()}

    with pytest.raises(ValueError, match="a wrong input"), local.ahead(NOTHING):
        raise ValueError("a wrong input")

    assert {child.pid for child in psutil.Process().children()} <= before


def test_run__accepts_no_tasks(worker: Fake) -> None:
    local.run(worker, [], workers=2, done=Done(), preload=NOTHING)

    assert worker.processes() == set()
