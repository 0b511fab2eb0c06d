"""Tasks in this process and in workers: the same answers, errors and deaths, and nobody is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from mslm_data import engine
from mslm_data.engine import Run, note, start
from mslm_data.errors import BuildError, SourceError
from tests.support.waiting import PATIENCE_S, wait_for

CANARY = "zebulonkanarie"
ROOT = Path(__file__).parents[2]


class Do(NamedTuple):
    """A task: the method of `Work` to call, and a number."""

    number: int
    do: str = "answer"

    @property
    def name(self) -> str:
        return f"task-{self.number}"


class Work(NamedTuple):
    """Does what a task says, and records its process."""

    folder: Path

    def __call__(self, task: Do) -> Any:
        (self.folder / f"{task.name}.{os.getpid()}").touch()
        return getattr(self, f"_{task.do}")(task)

    def _answer(self, task: Do) -> int:
        return task.number * 10

    def _pid(self, task: Do) -> int:
        return os.getpid()

    def _kill(self, task: Do) -> None:
        note("before")
        note(("document", task.number))
        os.kill(os.getpid(), signal.SIGKILL)

    def _exit(self, task: Do) -> None:
        os._exit(3)

    def _die_once(self, task: Do) -> int:
        if len(list(self.folder.glob(f"{task.name}.*"))) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return self._answer(task)

    def _ours(self, task: Do) -> None:
        raise SourceError("notes.csv: line 3: no text")

    def _foreign(self, task: Do) -> None:
        raise ValueError(f"cannot parse {CANARY}")

    def _panic(self, task: Do) -> None:
        raise BaseException(f"panicked at {CANARY}")  # like the panics of Rust libraries

    def _memory(self, task: Do) -> None:
        raise MemoryError(CANARY)

    def _disk(self, task: Do) -> None:
        raise OSError(28, "No space left on device", CANARY)

    def _unpicklable(self, task: Do) -> Any:
        return lambda: CANARY

    def _large(self, task: Do) -> bytes:
        return bytes(3_000_000)

    def _sleep(self, task: Do) -> None:
        time.sleep(100_000)

    def pids(self) -> list[int]:
        """Return the process of each task that has begun."""
        return [int(path.suffix[1:]) for path in self.folder.iterdir()]


@pytest.fixture
def work(tmp_path: Path) -> Work:
    return Work(tmp_path)


def numbers(of: Iterable[tuple[Do, Any]]) -> list[tuple[int, Any]]:
    return sorted((task.number, answer) for task, answer in of)


def gone(pid: int) -> bool:
    # Orphans stay as zombies if no process collects them.
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


# Answers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 3])
def test_run__yields_each_task_with_its_answer_in_several_rounds(workers: int, work: Work) -> None:
    with start(work, workers=workers) as run:
        first = numbers(run(map(Do, range(7))))
        none = numbers(run([]))
        second = numbers(run(Do(number, "pid") for number in range(4)))

    assert first == [(number, number * 10) for number in range(7)]
    assert none == []
    assert {pid for _, pid in second} <= set(work.pids())
    assert len(set(work.pids())) <= workers
    assert (os.getpid() in work.pids()) == (workers == 1)
    assert children() == []


@pytest.mark.parametrize("workers", [1, 2])
def test_run__takes_tasks_when_a_process_is_free(workers: int, work: Work) -> None:
    taken = 0

    def tasks() -> Iterator[Do]:
        nonlocal taken
        for taken in range(1, 8):
            yield Do(taken)

    with start(work, workers=workers) as run:
        ahead = [taken - done for done, _ in enumerate(run(tasks()), 1)]

    assert max(ahead) < workers


def test_run__passes_tasks_and_answers_of_any_size(work: Work) -> None:
    class Large(Do):
        def __reduce__(self) -> Any:
            return _large, (self.number, bytes(3_000_000))

    with start(work, workers=3) as run:
        answers = numbers(run(Large(number, "large") for number in range(9)))

    assert [len(answer) for _, answer in answers] == [3_000_000] * 9


def _large(number: int, _: bytes) -> Do:
    return Do(number, "large")


# Errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("do", "kind", "message"),
    [
        ("ours", SourceError, r"^notes\.csv: line 3: no text$"),
        ("foreign", BuildError, r"^task-5: ValueError in test_start\.py:\d+, which should not"),
        ("panic", BuildError, r"^task-5: BaseException in test_start\.py:\d+, which should not"),
        ("memory", BuildError, r"^task-5: out of memory; run .* with fewer --workers$"),
        ("disk", BuildError, r"^task-5: No space left on device.*; free some space, then run"),
    ],
)
def test_run__raises_our_errors_and_names_the_place_of_others(
    do: str, kind: type[Exception], message: str, workers: int, work: Work
) -> None:
    with (
        pytest.raises(kind, match=message) as raised,
        start(work, workers=workers) as run,
    ):
        [*run([Do(1), Do(5, do), Do(6)])]

    assert CANARY not in str(raised.value)
    assert children() == []


def test_run__names_the_class_of_an_answer_that_cannot_be_sent(work: Work) -> None:
    with (
        pytest.raises(BuildError, match=r"^task-5: \w+Error in reduction\.py:\d+, which"),
        start(work, workers=2) as run,
    ):
        [*run([Do(5, "unpicklable")])]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_run__in_this_process_can_be_interrupted(kind: type[BaseException], tmp_path: Path) -> None:
    def interrupted(_: Any) -> None:
        raise kind

    with pytest.raises(kind), start(interrupted, workers=1) as run:
        [*run([Do(1)])]


class Elsewhere(Work):
    """Cannot be unpickled in another process; the error contains text."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _refuse, (os.getpid(),)


def _refuse(home: int) -> None:
    if os.getpid() != home:
        raise KeyError(CANARY)


def test_run__names_only_the_class_of_an_error_of_unpickling(tmp_path: Path) -> None:
    with (
        pytest.raises(
            BuildError,
            match=r"^engine 'local': a worker could not read its work \(KeyError\); define it in a mod",
        ) as raised,
        start(Elsewhere(tmp_path), workers=2) as run,
    ):
        [*run(Do(number) for number in range(3))]

    assert CANARY not in str(raised.value)


# Deaths -------------------------------------------------------------------------------------------


def test_run__runs_a_task_once_more_after_a_death(work: Work) -> None:
    with start(work, workers=2) as run:
        answers = numbers(run([Do(0), Do(1, "die_once"), Do(2), Do(3)]))
        again = numbers(run([Do(4), Do(5)]))

    assert answers == [(0, 0), (1, 10), (2, 20), (3, 30)]
    assert again == [(4, 40), (5, 50)]
    assert len([*work.folder.glob("task-1.*")]) == 2
    assert len([*work.folder.iterdir()]) == 7  # no other task ran twice


@pytest.mark.parametrize(
    ("do", "how"), [("kill", r"signal 9, out of memory\?\); fewer"), ("exit", "exit code 3, ")]
)
def test_run__names_the_task_of_the_second_death(do: str, how: str, work: Work) -> None:
    with (
        pytest.raises(BuildError, match=rf"^task-1: a worker process died twice \(the last: {how}"),
        start(work, workers=2) as run,
    ):
        [*run([Do(0), Do(1, do), Do(2)])]

    assert len([*work.folder.glob("task-1.*")]) == 2
    assert children() == []


def test_run__asks_what_to_run_instead_with_the_last_note(work: Work) -> None:
    deaths = []

    def died(task: Do, how: str, noted: Any) -> Do:
        deaths.append((task, how, noted))
        return Do(task.number, "exit" if task.do == "kill" else "answer")

    with start(work, workers=2) as run:
        answers = numbers(run([Do(0), Do(1, "kill"), Do(2)], died=died))

    assert answers == [(0, 0), (1, 10), (2, 20)]
    assert deaths == [
        (Do(1, "kill"), "signal 9", ("document", 1)),
        (Do(1, "exit"), "exit code 3", None),
    ]


def test_death_error__explains_a_bus_error() -> None:
    error = engine.death_error("task-1", f"signal {int(signal.SIGBUS)}")

    assert "a file was cut short" in str(error)
    assert "restore the file or check the disk" in str(error)


def test_run__survives_the_death_of_idle_workers(work: Work) -> None:
    with start(work, workers=3) as run:
        [*run(Do(number) for number in range(6))]
        idle = {*work.pids()}
        for pid in idle:
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: all(map(gone, idle)))
        answers = numbers(run([Do(7, "pid"), Do(8, "pid")], died=None))

    assert not idle & {pid for _, pid in answers}
    assert len([*work.folder.glob("task-7.*")]) == 1


def test_run__reports_a_killed_host_that_leaves_nobody(work: Work) -> None:
    with start(work, workers=3) as run:
        answers = run([Do(0), *(Do(number, "sleep") for number in (1, 2, 3))])
        next(answers)
        wait_for(lambda: len(work.pids()) == 3)
        (host,) = psutil.Process().children()
        host.kill()

        with pytest.raises(BuildError, match=r"^engine 'local': the process that starts .* killed"):
            next(answers)

    wait_for(lambda: all(map(gone, work.pids())))


LEADER = """
import sys
from pathlib import Path
from mslm_data.engine import start
from tests.engine.test_start import Do, Work

with start(Work(Path(sys.argv[1])), workers=2) as run:
    [*run([Do(1, "sleep"), Do(2, "sleep")])]
"""


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_run__leaves_nobody_when_the_program_is_killed(sent: signal.Signals, work: Work) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", LEADER, str(work.folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
    )
    wait_for(lambda: len(work.pids()) == 2)
    below = [process.pid for process in psutil.Process(program.pid).children(recursive=True)]

    program.send_signal(sent)
    program.communicate(timeout=PATIENCE_S)

    assert len(below) == 3
    wait_for(lambda: all(map(gone, below)))


@pytest.mark.parametrize("ignored", [signal.SIGTERM, signal.SIGINT])
def test_start__kills_workers_whatever_signals_are_ignored(
    ignored: signal.Signals, work: Work
) -> None:
    def fail(run: Run) -> None:
        next(run([Do(0), Do(1, "sleep"), Do(2, "sleep")]))
        wait_for(lambda: len(work.pids()) == 3)
        raise ZeroDivisionError

    before = signal.signal(ignored, signal.SIG_IGN)
    try:
        with pytest.raises(ZeroDivisionError), start(work, workers=3) as run:
            fail(run)
    finally:
        signal.signal(ignored, before)

    assert children() == []
    wait_for(
        lambda: all(map(gone, work.pids()))
    )  # they have closed all files, and are about to exit
