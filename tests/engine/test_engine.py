"""Tasks in this process and in workers: the same answers, errors and deaths, and nobody is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from mslm_data import engine
from mslm_data.engine import Preload, Run, host, start
from mslm_data.errors import BuildError, PipelineError, SourceError
from tests.engine.tasks import CANARY, Do, Work, gone
from tests.support.waiting import PATIENCE_S, wait_for

ROOT = Path(__file__).parents[2]


@pytest.fixture
def work(tmp_path: Path) -> Work:
    folder = tmp_path / "work"
    folder.mkdir()
    return Work(folder)


def numbers(of: Iterable[tuple[Do, Any]]) -> list[tuple[int, Any]]:
    return sorted((task.number, answer) for task, answer in of)


@pytest.fixture(autouse=True)
def earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave processes of earlier tests out of `children`, such as a resource tracker."""
    before = psutil.Process().children(recursive=True)
    monkeypatch.setitem(globals(), "BEFORE", before)


BEFORE: list[psutil.Process] = []


def children() -> list[psutil.Process]:
    every = psutil.Process().children(recursive=True)
    return [process for process in every if process not in BEFORE]


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
        ("foreign", BuildError, r"^task-5: ValueError in tasks\.py:\d+, which should not"),
        ("panic", BuildError, r"^task-5: BaseException in tasks\.py:\d+, which should not"),
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
        (host,) = [one for one in children() if one.ppid() == os.getpid()]
        host.kill()

        with pytest.raises(BuildError, match=r"^engine 'local': the process that starts .* killed"):
            next(answers)

    wait_for(lambda: all(map(gone, work.pids())))


LEADER = """
import sys
from pathlib import Path
from mslm_data.engine import start
from tests.engine.tasks import Do, Work

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


AT_EACH_LINE = """
import gc, sys, psutil
from mslm_data.engine import host

def enter(at):
    line = 0
    def trace(frame, event, argument):
        nonlocal line
        if frame.f_code.co_filename != host.__file__:
            return None
        line += event == "line"
        if event == "line" and line == at:
            raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        with host.start(print, 2, None, ()):
            sys.settrace(None)
            return False
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)

enter(-1)
before = psutil.Process().num_fds()
at = 1
while enter(at):
    assert psutil.Process().children() == []
    at += 1
gc.collect()
print("lines" if at > 10 else at, psutil.Process().num_fds() - before)
"""


def run_python(code: str, *words: object, cwd: Path = ROOT) -> str:
    """Run code in a process of its own, and return its output."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_start__interrupted_at_any_line_leaves_no_process() -> None:
    assert run_python(AT_EACH_LINE) == "lines 0\n"


# The host -----------------------------------------------------------------------------------------


@pytest.fixture
def loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Preload]:
    """Make a module for `Preload` whose function `load` has the given body."""
    folder = tmp_path / "modules"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)

    def make(body: str) -> Preload:
        code = f"import os, time\nfrom pathlib import Path\ndef load(argument):\n {body}\n"
        (folder / "loading.py").write_text(code)
        return Preload("loading:load", str(tmp_path / "loaded"))

    return make


def test_start__loads_once_before_any_task(
    loads: Callable[[str], Preload], work: Work, tmp_path: Path
) -> None:
    preload = loads("open(argument, 'a').write('x')")

    with start(work, workers=2, preload=preload) as run:
        answers = numbers(run(Do(number, "loaded") for number in range(4)))

    assert answers == [(number, "x") for number in range(4)]


def test_start__leaves_errors_of_loading_to_the_tasks(
    loads: Callable[[str], Preload], work: Work, capfd: pytest.CaptureFixture[str]
) -> None:
    with start(work, workers=2, preload=loads("raise RuntimeError('a broken model')")) as run:
        assert len([*run([Do(1), Do(2)])]) == 2

    assert capfd.readouterr() == ("", "")


def test_start__does_not_wait_for_a_host_that_is_loading(
    loads: Callable[[str], Preload], work: Work, tmp_path: Path
) -> None:
    with start(work, workers=2, preload=loads("open(argument, 'w'); time.sleep(100_000)")):
        wait_for((tmp_path / "loaded").exists)

    assert children() == []


def test_start__reports_that_no_host_starts(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no such program")

    with (
        pytest.raises(
            BuildError, match=r"expected to start a process, got FileNotFoundError \(out"
        ),
        start(work, workers=2),
    ):
        pass


def test_run__reports_that_no_worker_can_be_forked(
    loads: Callable[[str], Preload], work: Work
) -> None:
    preload = loads("os.fork = lambda: open('/no such file')")

    with (
        pytest.raises(
            BuildError, match=r"expected to start a process, got FileNotFoundError \(out"
        ),
        start(work, workers=2, preload=preload) as run,
    ):
        [*run([Do(1), Do(2)])]


def test_run__workers_leave_no_file_open(work: Work) -> None:
    fds = psutil.Process().num_fds()

    with start(work, workers=2) as run:
        [*run([Do(1), Do(2, "die_once")])]

    assert psutil.Process().num_fds() == fds


IN_THREADS = """
import sys, threading
from pathlib import Path
from mslm_data.engine import start
from tests.engine.tasks import Do, Work

def work_off():
    with start(Work(Path(sys.argv[1])), workers=2) as run:
        print(sorted(answer for _, answer in run([Do(1), Do(2)])))

for thread in [threading.Thread(target=work_off) for _ in range(2)]:
    thread.start()
print("main ends")
"""


def test_start__works_in_any_thread_of_an_unguarded_main_module(tmp_path: Path) -> None:
    lines = run_python(IN_THREADS, tmp_path).splitlines()

    assert sorted(lines) == ["[10, 20]", "[10, 20]", "main ends"]


OWN_PATH = """
import sys
from pathlib import Path
sys.path[:] = [path for path in sys.path if path != sys.argv[2] and path]
sys.path.insert(0, sys.argv[2])
from mslm_data.engine import start
from tests.engine.tasks import Do, Work
with start(Work(Path(sys.argv[1])), workers=2) as run:
    print(len([*run([Do(1), Do(2)])]))
"""


def test_start__workers_import_from_the_path_of_the_program(tmp_path: Path) -> None:
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    (cwd / "random.py").write_text("raise SystemExit('not this one')")
    (tmp_path / "work").mkdir()

    assert run_python(OWN_PATH, tmp_path / "work", ROOT, cwd=cwd) == "2\n"


def test_start__has_one_worker_for_each_available_cpu(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "cpus", lambda: 3)

    with start(work) as run:
        answers = numbers(run(Do(number, "pause") for number in range(9)))

    assert len({pid for _, pid in answers}) == 3


def test_start__without_fork_runs_all_tasks_in_this_process(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "fork")

    with start(work, workers=2) as run:
        answers = numbers(run([Do(1, "pid"), Do(2, "pid")]))

    assert answers == [(1, os.getpid()), (2, os.getpid())]


def test_start__names_the_engines_for_an_unknown_one(work: Work) -> None:
    with pytest.raises(PipelineError, match="did you mean 'local'"), start(work, engine="locl"):
        pass
