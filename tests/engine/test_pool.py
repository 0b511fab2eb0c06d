"""The worker pool: any main module, an end with its leader or host, and no leftover process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from mslm_data.engine import Preload, local, pool
from mslm_data.errors import BuildError
from tests import made
from tests.engine import works
from tests.engine.works import CANARY, Done, Fake, units
from tests.faults.corpora import CORPORA
from tests.support.cases import long
from tests.support.waiting import PATIENCE_S, wait_for

NOTHING = Preload("json:loads", "0")
ROOT = Path(__file__).parents[2]
LINES = CORPORA["lines"]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return LINES.write(tmp_path_factory.mktemp("lines"))


@pytest.fixture(scope="module")
def whole(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("whole") / "out"
    LINES.build(inputs, out)
    return made.tree(out)


# Main modules -------------------------------------------------------------------------------------


def of_script(folder: Path, code: str) -> list[str]:
    script = folder / "script.py"
    script.write_text(code, encoding="utf-8")
    return [str(script)]


def of_module(folder: Path, code: str) -> list[str]:
    (folder / "unguarded_module.py").write_text(code, encoding="utf-8")
    return ["-m", "unguarded_module"]


def of_argument(_: Path, code: str) -> list[str]:
    return ["-c", code]


def of_stdin(folder: Path, code: str) -> list[str]:
    (folder / "stdin").write_text(code, encoding="utf-8")
    return ["-"]


def of_session(folder: Path, code: str) -> list[str]:
    """Run code in a `__main__` without a file, like an interactive session or a notebook."""
    run = (
        "import sys, __main__\n"
        "__main__.__dict__.pop('__file__', None)\n__main__.__spec__ = None\n"
        f"exec(compile({code!r}, '<cell 1>', 'exec'), __main__.__dict__)\n"
    )
    return of_script(folder, run)


def run_python(of: Any, folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    arguments = of(folder, code)
    stdin = folder / "stdin"
    stdin.touch()
    with stdin.open() as given:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"},
            stdin=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )


@pytest.mark.parametrize("of", [of_script, *long(of_module, of_argument, of_stdin, of_session)])
def test_build__has_workers_without_a_main_guard(
    of: Any, inputs: Path, whole: dict[str, bytes], tmp_path: Path
) -> None:
    code = f"""
from pathlib import Path
from tests.faults.corpora import CORPORA

print("main runs")
CORPORA["lines"].build(Path({str(inputs)!r}), Path({str(tmp_path / "out")!r}), workers=2)
print("main ends")
"""

    done = run_python(of, tmp_path, code)

    assert (done.returncode, done.stdout, done.stderr) == (0, "main runs\nmain ends\n", "")
    assert made.tree(tmp_path / "out") == whole


def test_build__workers_import_the_package_of_the_caller(
    inputs: Path, whole: dict[str, bytes], tmp_path: Path
) -> None:
    # The package is on `sys.path` only by the program's own change.
    code = f"""
import sys
from pathlib import Path
sys.path[:] = [path for path in sys.path if path != {str(ROOT)!r}]
sys.path.insert(0, {str(ROOT)!r})
from tests.faults.corpora import CORPORA
CORPORA["lines"].build(Path({str(inputs)!r}), Path({str(tmp_path / "out")!r}), workers=2)
"""
    folder = tmp_path / "cwd"
    folder.mkdir()
    (folder / "random.py").write_text("raise SystemExit('not this one')")

    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, *of_script(tmp_path, code)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert made.tree(tmp_path / "out") == whole


# Threads and Ctrl-C -------------------------------------------------------------------------------


@pytest.mark.long
def test_build__works_in_any_thread(inputs: Path, whole: dict[str, bytes], tmp_path: Path) -> None:
    outs = [tmp_path / "a", tmp_path / "b"]
    threads = [
        threading.Thread(target=LINES.build, args=(inputs, out), kwargs={"workers": 2})
        for out in outs
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [made.tree(out) for out in outs] == [whole, whole]


INTERRUPTED = """
import os, signal, sys, threading, time
from pathlib import Path
import psutil
from mslm_data import builds
from tests.faults.corpora import CORPORA

inputs, out, workers, first = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]

def interrupt():
    while first == "unit" and not list(out.glob(".build/receipts/*.json")):
        time.sleep(0.001)
    while first == "worker" and not psutil.Process().children():
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
try:
    CORPORA["lines"].build(inputs, out, workers=workers)
    time.sleep(10)
    print("finished")
except KeyboardInterrupt:
    print("interrupted", len(psutil.Process().children(recursive=True)))
CORPORA["lines"].build(inputs, out, workers=workers)
print("built", len(psutil.Process().children(recursive=True)))
"""


@pytest.mark.long
@pytest.mark.parametrize(("workers", "first"), [(1, "unit"), (2, "unit"), (2, "worker")])
def test_build__interrupted_in_python_resumes_in_the_same_process(
    workers: int, first: str, inputs: Path, whole: dict[str, bytes], tmp_path: Path
) -> None:
    out = tmp_path / "out"

    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(inputs), str(out), str(workers), first],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted 0\nbuilt 0\n", "")
    assert made.tree(out) == whole


AT_EACH_LINE = """
import gc, sys, psutil
from mslm_data.engine import Preload, pool

def enter(at):
    line = 0
    def trace(frame, event, argument):
        nonlocal line
        if frame.f_code.co_filename != pool.__file__:
            return None
        line += event == "line"
        if event == "line" and line == at:
            raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        with pool.started(Preload("json:loads", "0")):
            sys.settrace(None)
            return False
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)

before = psutil.Process().num_fds()
at = 1
while enter(at):
    psutil.wait_procs(psutil.Process().children())
    at += 1
gc.collect()
print("lines" if at > 10 else at, psutil.Process().num_fds() - before)
"""


def test_started__interrupted_at_any_line_leaves_no_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_EACH_LINE],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )

    assert (done.stdout, done.stderr) == ("lines 0\n", "")


# Ends ---------------------------------------------------------------------------------------------


class Napping(Fake):
    """Records the process at a unit, and sleeps."""

    def __call__(self, unit: Any) -> str:
        (Path(self.folder) / f"at.{os.getpid()}").touch()
        time.sleep(100_000)
        return str(unit.name)

    def busy(self) -> list[psutil.Process]:
        return [psutil.Process(int(path.suffix[1:])) for path in Path(self.folder).glob("at.*")]


def gone(process: psutil.Process) -> bool:
    # Orphans stay as zombies if no process collects them.
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("ignored", [signal.SIGTERM, signal.SIGINT])
def test_end__kills_workers_at_once_whatever_signals_are_ignored(
    ignored: signal.Signals, worker: Fake
) -> None:
    before = signal.signal(ignored, signal.SIG_IGN)
    napping = Napping(worker.folder)
    try:
        with pool.started(NOTHING) as started:
            started.begin(napping)
            for number in (1, 2):
                started.give(number, units(1)[0], workers=2)
            wait_for(lambda: len(napping.busy()) == 2)
            busy = napping.busy()
    finally:
        signal.signal(ignored, before)

    wait_for(lambda: all(map(gone, busy)))  # They have closed all files, and are about to exit.


def test_end__does_not_wait_for_loading_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = tmp_path / "loads"
    (tmp_path / "slow_to_load.py").write_text(
        "import time\nfrom pathlib import Path\n"
        "def load(at): Path(at).touch(); time.sleep(100_000)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    with pool.started(Preload("slow_to_load:load", str(loads))):
        wait_for(loads.exists)


def test_run__reports_a_killed_host(worker: Fake) -> None:
    napping = Napping(worker.folder)
    killed: list[psutil.Process] = []

    def kill() -> None:
        killed.extend(wait_for(napping.busy))
        killed[0].parent().kill()  # type: ignore[union-attr]

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(BuildError, match=r"^engine 'local': the process that starts .* was killed"):
        local.run(napping, units(1), workers=2, done=Done(), preload=NOTHING)
    killer.join()

    assert (napping.suspects, napping.deaths) == ([], [])
    wait_for(lambda: all(map(gone, killed)))


LED = """
import sys
from mslm_data.engine import Preload, local
from tests.engine.test_pool import NOTHING, Napping
from tests.engine.works import Done, units

local.run(Napping(sys.argv[1]), units(2), workers=2, done=Done(), preload=NOTHING)
"""


def test_run__killed_program_leaves_no_process(worker: Fake) -> None:
    napping = Napping(worker.folder)
    program = subprocess.Popen(
        [sys.executable, "-c", LED, worker.folder], env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    wait_for(lambda: len(napping.busy()) == 2)
    below = psutil.Process(program.pid).children(recursive=True)

    program.kill()
    program.wait()

    assert len(below) == 3
    wait_for(lambda: all(map(gone, below)))


def test_run__leaves_no_file_open(worker: Fake) -> None:
    worker.how = ("dies",)
    folder = Path("/proc/self/fd")
    if not folder.is_dir():
        pytest.skip("looks for files in /proc")
    before = len(list(folder.iterdir()))

    local.run(worker, units(4), workers=2, done=Done(), preload=NOTHING)

    assert len(list(folder.iterdir())) == before
    assert "train-00000-00001" in worker.suspects


def test_run__continues_when_the_preload_fails(
    worker: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fails_to_import.py").write_text("raise RuntimeError('a model is broken')")
    monkeypatch.syspath_prepend(tmp_path)
    done = Done()

    local.run(worker, units(3), workers=2, done=done, preload=Preload("fails_to_import:load", ""))

    assert len(done.names) == 3
    assert capfd.readouterr().err == ""


def test_run__names_only_the_class_of_an_unpicklable_error(worker: Fake) -> None:
    unreadable = works.Elsewhere(worker.folder)

    with pytest.raises(
        BuildError,
        match=r"^engine 'local': a worker could not read its work \(KeyError\); define it in a mod",
    ) as raised:
        local.run(unreadable, units(1), workers=2, done=Done(), preload=NOTHING)

    assert CANARY not in str(raised.value)


def test_run__reports_that_no_process_starts(worker: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "get_executable", lambda: "/no such program")

    with pytest.raises(
        BuildError, match=r"^engine 'local': expected to start a process, got FileNotFoundError"
    ):
        local.run(worker, units(1), workers=2, done=Done(), preload=NOTHING)


def test_run__reports_that_no_worker_can_be_forked(
    worker: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "cannot_fork.py").write_text(
        "import os\ndef fork(): raise BlockingIOError\ndef load(_): os.fork = fork\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(
        BuildError, match=r"^engine 'local': expected to start a process, got BlockingIOError"
    ):
        local.run(worker, units(2), workers=2, done=Done(), preload=Preload("cannot_fork:load", ""))


def test_pool__replaces_a_dead_idle_worker(worker: Fake) -> None:
    first, second = units(2)

    with pool.started(NOTHING) as started:
        started.begin(worker)
        started.give(1, first, workers=2)
        assert started.answer() == (1, first.name)
        workers = psutil.Process().children(recursive=True)[1:]
        workers[0].kill()
        wait_for(lambda: all(map(gone, workers)))  # The pool ends the other.
        started.give(2, second, workers=2)

        assert started.answer() == (2, second.name)


@pytest.mark.parametrize(("how", "said"), [("dies", "signal 9"), ("exits", "exit code 3")])
def test_pool__reports_how_a_worker_ended(how: str, said: str, worker: Fake) -> None:
    worker.how = (how,)

    with pool.started(NOTHING) as started:
        started.begin(worker)
        started.give(7, units(2)[1], workers=2)

        assert started.answer() == (7, pool.Died(said))


def test_run__workers_write_private_files(worker: Fake) -> None:
    before = os.umask(0)
    try:
        local.run(worker, units(2), workers=2, done=Done(), preload=NOTHING)
    finally:
        os.umask(before)

    assert {path.stat().st_mode & 0o777 for path in Path(worker.folder).glob("train-*")} == {0o600}
