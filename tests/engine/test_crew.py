"""The law of workers, with workers that are made up: deaths, limits, and the end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from mslm_data.builds.tasks import WorkUnit
from mslm_data.engine.crew import Answer, Died, Ready, supervise
from mslm_data.errors import BuildError, SourceError
from tests.engine.works import Done, Fake, units

Said = Callable[[int, WorkUnit | None], Any]
"""What a worker answers: to being started (None), or to a unit."""


class Told:
    """Workers numbered from 0 that answer as they are told, one at a time."""

    where = "engine 'told'"
    advice = "tell them better"

    def __init__(self, said: Said, *, room: Sequence[int] = (2,)) -> None:
        self._said = said
        self._room = deque(room)
        self._answers: deque[Answer] = deque()
        self.started: list[int] = []
        self.given: list[tuple[int, int]] = []
        self.ended = False

    def room(self) -> int:
        return self._room.popleft() if len(self._room) > 1 else self._room[0]

    def start(self) -> int:
        worker = len(self.started)
        self.started.append(worker)
        self._answers.append(Answer(worker, self._said(worker, None)))
        return worker

    def give(self, worker: int, unit: WorkUnit) -> None:
        self.given.append((worker, unit.number))
        self._answers.append(Answer(worker, self._said(worker, unit)))

    def answers(self, *, waits: bool) -> list[Answer]:
        return [self._answers.popleft()] if self._answers else []

    def end(self) -> None:
        self.ended = True


class Slow(Told):
    """Workers that say nothing at first, as they start."""

    silences = 3

    def answers(self, *, waits: bool) -> list[Answer]:
        if self.silences and not waits:
            self.silences -= 1
            return []
        return super().answers(waits=waits)


def well(_: int, unit: WorkUnit | None) -> Any:
    return unit.name if unit else Ready()


def do(work: Fake, workers: Told, count: int = 4) -> list[str]:
    done = Done()
    supervise(work, units(count), workers, done)
    return done.names


@pytest.fixture
def work(tmp_path: Path) -> Fake:
    return Fake(str(tmp_path))


def test_supervise__starts_no_more_workers_than_there_is_room_and_units_for(work: Fake) -> None:
    many, few, none = Told(well, room=[2]), Told(well, room=[9]), Told(well)

    assert sorted(do(work, many, 5)) == [unit.name for unit in units(5)]
    assert len(do(work, few, 3)) == 3
    assert do(work, none, 0) == []

    assert [len(workers.started) for workers in (many, few, none)] == [2, 3, 0]
    assert many.ended
    assert few.ended
    assert none.ended


def test_supervise__does_what_becomes_possible_after_what_waits(work: Fake) -> None:
    first, second, third, fourth, fifth = units(5)
    done = Done({first.name: [third, fourth], fourth.name: [fifth]})
    workers = Told(well, room=[1])

    supervise(work, [first, second], workers, done)

    assert done.names == [unit.name for unit in units(5)]
    assert workers.started == [0]
    assert workers.ended


def test_supervise__starts_more_workers_for_a_wider_wave(work: Fake) -> None:
    first, *others = units(6)
    workers = Told(well, room=[4])

    supervise(work, [first], workers, Done({first.name: others}))

    assert workers.started == [0, 1, 2, 3]
    assert workers.given[0] == (0, 0)
    assert {worker for worker, _ in workers.given[1:]} == {0, 1, 2, 3}


def test_supervise__gives_tasks_to_workers_that_idled(work: Fake) -> None:
    a, b, c, *others = units(6)
    workers = Told(well, room=[3])

    supervise(work, [a, b, c], workers, Done({c.name: others}))  # two idle when c is done

    assert workers.started == [0, 1, 2]
    assert {worker for worker, _ in workers.given[3:]} == {0, 1, 2}


def test_supervise__does_light_tasks_itself_while_all_workers_start(work: Fake) -> None:
    work.light = (0, 2, 3)
    first, second, third, fourth = units(4)
    done = Done({first.name: [fourth]})
    slow = Slow(well, room=[2])

    supervise(work, [first, second, third], slow, done)

    assert done.names[:3] == [first.name, third.name, fourth.name]
    assert [number for _, number in slow.given] == [1]


def test_supervise__leaves_light_tasks_to_workers_that_are_ready(work: Fake) -> None:
    work.light = (1, 2, 3)
    first, *others = units(4)
    workers = Told(well, room=[2])

    supervise(work, [first], workers, Done({first.name: others}))

    assert sorted(number for _, number in workers.given) == [0, 1, 2, 3]


def test_supervise__tries_a_task_of_the_second_wave_again(work: Fake) -> None:
    first, *others = units(4)

    def said(worker: int, unit: WorkUnit | None) -> Any:
        dies = unit is not None and unit.number == 2 and not work.deaths
        return Died("signal 9") if dies else well(worker, unit)

    done = Done({first.name: others})
    workers = Told(said, room=[2])

    supervise(work, [first], workers, done)

    assert sorted(done.names) == [unit.name for unit in units(4)]
    assert work.deaths == ["train-00000-00002"]
    assert workers.started == [0, 1, 2]


def test_supervise__starts_workers_when_there_is_room_at_last(work: Fake) -> None:
    workers = Told(well, room=[0, 0, 1, 3])

    assert len(do(work, workers, 6)) == 6

    assert len(workers.started) == 3


def test_supervise__gives_the_unit_of_a_dead_worker_to_another(work: Fake) -> None:
    def said(worker: int, unit: WorkUnit | None) -> Any:
        return Died("signal 9") if worker == 0 and unit else well(worker, unit)

    workers = Told(said)

    assert sorted(do(work, workers)) == [unit.name for unit in units(4)]

    assert len(work.deaths) == 1
    assert [worker for worker, _ in workers.given].count(0) == 1  # it is not asked again
    assert workers.started == [0, 1, 2]


def test_supervise__asks_the_work_when_a_unit_has_cost_too_many(work: Fake) -> None:
    def said(worker: int, unit: WorkUnit | None) -> Any:
        return Died("signal 9") if unit and unit.number == 1 else well(worker, unit)

    workers = Told(said)

    with pytest.raises(
        BuildError, match=r"^train-00000-00001: died too often, the last by signal 9$"
    ):
        do(work, workers)

    assert work.deaths == ["train-00000-00001"] * 3
    assert workers.ended


def test_supervise__gives_up_where_no_worker_gets_ready(work: Fake) -> None:
    workers = Told(lambda *_: Died("exit code 1"))

    with pytest.raises(
        BuildError,
        match=r"^engine 'told': expected workers that start, got 5 in a row that ended before they "
        r"were ready \(the last: exit code 1\); tell them better$",
    ):
        do(work, workers)

    assert work.deaths == []  # no unit is to blame
    assert workers.ended


def test_supervise__forgets_failed_starts_when_a_worker_is_ready(work: Fake) -> None:
    def said(worker: int, unit: WorkUnit | None) -> Any:
        if unit is None and worker % 5 != 4:
            return Died("exit code 1")
        return Died("signal 9") if worker == 4 and unit else well(worker, unit)

    workers = Told(said, room=[1])

    assert len(do(work, workers, 2)) == 2

    assert len(workers.started) == 10  # four that failed, one that died, four that failed, one
    assert len(work.deaths) == 1


def test_supervise__replaces_an_idle_worker_that_died(work: Fake) -> None:
    class Idle(Told):
        """Worker 0 dies after its only unit; then worker 1 dies at another."""

        def give(self, worker: int, unit: WorkUnit) -> None:
            super().give(worker, unit)
            if (worker, len(self.given)) == (1, 2):
                answer = self._answers.pop()
                self._answers += [Answer(0, Died("signal 9")), answer]

    def said(worker: int, unit: WorkUnit | None) -> Any:
        return Died("signal 9") if worker == 1 and unit else well(worker, unit)

    workers = Idle(said)

    assert len(do(work, workers, 2)) == 2

    assert workers.started == [0, 1, 2]


@pytest.mark.parametrize("error", [SourceError("x: gone"), BuildError("y: full")])
def test_supervise__raises_what_a_worker_answers_and_ends_the_others(
    error: Exception, work: Fake
) -> None:
    workers = Told(lambda worker, unit: error if worker == 1 else well(worker, unit))

    with pytest.raises(type(error), match=str(error)):
        do(work, workers)

    assert workers.ended


def test_supervise__ends_workers_when_the_caller_stops(work: Fake) -> None:
    workers = Told(well)

    def stop(_: str) -> Sequence[WorkUnit]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        supervise(work, units(3), workers, stop)

    assert workers.ended
