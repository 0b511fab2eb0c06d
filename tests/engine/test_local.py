"""The embedded engine: tasks of this process and of processes of this machine."""

from __future__ import annotations

import psutil
import pytest

from mslm_data.engine import Preload, launch, local
from tests.engine.works import Done, Fake, units

NOTHING = Preload("mslm_data.engine", "")


def test_run__does_tasks_in_order_in_this_process(work: Fake) -> None:
    first, second, *others = units(5)
    done = Done({first.name: others})

    local.run(work, [first, second], workers=1, done=done, preload=NOTHING)

    assert done.names == [unit.name for unit in (first, second, *others)]
    assert work.expected == [unit.name for unit in (second, *others)]
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


@pytest.mark.long
@pytest.mark.parametrize("other", [False, True])
def test_ahead__is_used_by_the_run_that_needs_the_same(
    other: bool, work: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers: list[launch.ForkServer] = []
    fork_server = launch.ForkServer

    def counted(preload: Preload) -> launch.ForkServer:
        servers.append(fork_server(preload))
        return servers[-1]

    monkeypatch.setattr(launch, "ForkServer", counted)
    done = Done()

    with local.ahead(Preload("mslm_data.engine.crew", "") if other else NOTHING):
        early = servers[0]
        local.run(work, units(2), workers=2, done=done, preload=NOTHING)
        first = len(servers)
        local.run(work, units(2), workers=2, done=done, preload=NOTHING)
        second = len(servers)
    local.run(work, units(2), workers=2, done=done, preload=NOTHING)

    assert (first, second, len(servers)) == ((2, 3, 4) if other else (1, 2, 3))
    assert len(done.names) == 6
    assert early._process.returncode is not None


def test_ahead__ends_though_nothing_was_run_and_an_error_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = {child.pid for child in psutil.Process().children()}

    with pytest.raises(ValueError, match="a wrong input"), local.ahead(NOTHING):
        raise ValueError("a wrong input")

    assert {child.pid for child in psutil.Process().children()} <= before


def test_run__does_nothing_if_there_is_nothing_to_do(work: Fake) -> None:
    local.run(work, [], workers=2, done=Done(), preload=NOTHING)

    assert work.processes() == set()
