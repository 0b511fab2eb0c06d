"""The embedded engine: tasks of this process and of processes of this machine."""

from __future__ import annotations

import pytest

from mslm_data.engine import Preload, local
from tests.engine.works import Done, Fake, units

NOTHING = Preload("mslm_data.engine", "")


def test_run__does_tasks_in_order_in_this_process(work: Fake) -> None:
    first, second, *others = units(5)
    done = Done({first.name: others})

    local.run(work, [first, second], workers=1, done=done, preload=NOTHING)

    assert done.names == [unit.name for unit in (first, second, *others)]
    assert len(work.processes()) == 1


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_run__does_what_becomes_possible(workers: int, work: Fake) -> None:
    first, *others = units(9)
    done = Done({first.name: others[:3], others[2].name: others[3:]})

    local.run(work, [first], workers=workers, done=done, preload=NOTHING)

    assert sorted(done.names) == [unit.name for unit in units(9)]
    assert 1 <= len(work.processes()) <= workers
    assert work.deaths == []


def test_run__tries_a_task_again_whose_worker_died(work: Fake) -> None:
    first, *others = units(4)
    work.how = ("dies",)
    done = Done({first.name: others})

    local.run(work, [first], workers=2, done=done, preload=NOTHING)

    assert sorted(done.names) == [unit.name for unit in units(4)]
    assert work.deaths == ["train-00000-00001"]


def test_run__does_nothing_if_there_is_nothing_to_do(work: Fake) -> None:
    local.run(work, [], workers=2, done=Done(), preload=NOTHING)

    assert work.processes() == set()
