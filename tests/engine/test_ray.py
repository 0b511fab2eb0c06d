"""Tasks on a Ray cluster: deaths of processes and nodes, and no text in Ray's files."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from mslm_data._version import __version__
from mslm_data.data.columns import FORMAT
from mslm_data.engine import Preload, start
from mslm_data.engine import ray as engine
from mslm_data.errors import BuildError, MslmDataError, SourceError
from mslm_data.pipeline import read
from tests import made
from tests.engine import nodes
from tests.engine.tasks import CANARY, Do, Elsewhere, Work
from tests.support.waiting import PATIENCE_S, wait_for

ROOT = Path(__file__).parents[2]


@pytest.fixture
def work(tmp_path: Path) -> Work:
    folder = tmp_path / "work"
    folder.mkdir()
    return Work(folder)


def numbers(of: Any) -> list[tuple[int, Any]]:
    return sorted((task.number, answer) for task, answer in of)


# Connecting ---------------------------------------------------------------------------------------


@pytest.fixture
def fake_ray(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A Ray with a running cluster; `init` does nothing by default."""
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    fake = SimpleNamespace(
        is_initialized=lambda: False, init=lambda *_, **__: None, shutdown=lambda: None
    )
    monkeypatch.setattr(engine, "load", lambda *_, **__: fake)
    monkeypatch.setattr(engine, "_answers", lambda address: address == "10.0.0.1:6379")
    return fake


@pytest.mark.parametrize("address", ["", "auto", "127.0.0.1:9", "ray://127.0.0.1:1", "a:99999"])
def test_connected__accepts_a_named_running_cluster(
    address: str, fake_ray: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(engine, "load", lambda *_, **__: fake_ray)
    monkeypatch.setenv("RAY_ADDRESS", address)

    with (
        pytest.raises(
            BuildError, match=rf"^RAY_ADDRESS: .* got '{address}'; .* `ray start --head`"
        ),
        engine.connected(),
    ):
        pass


def test_connected__reports_the_error_of_ray(fake_ray: SimpleNamespace) -> None:
    def init(*_: object, **__: object) -> None:
        raise ConnectionError("no node here\nand much more")

    fake_ray.init = init

    with (
        pytest.raises(BuildError, match=r"10\.0\.0\.1:6379: ConnectionError \(no node here\);"),
        engine.connected(),
    ):
        pass


class Ended(BaseException):
    """Raised by the handler of SIGTERM of a test."""


@pytest.fixture
def handler() -> Iterator[Any]:
    """The handler of SIGTERM of a program, which raises `Ended`."""

    def end(*_: object) -> None:
        raise Ended

    before = signal.signal(signal.SIGTERM, end)
    yield end
    signal.signal(signal.SIGTERM, before)


def test_connected__keeps_the_handler_of_sigterm(fake_ray: SimpleNamespace, handler: Any) -> None:
    fake_ray.init = lambda *_, **__: signal.signal(signal.SIGTERM, signal.SIG_IGN)

    with engine.connected():
        during = signal.getsignal(signal.SIGTERM)

    assert during is handler


@pytest.mark.usefixtures("handler")
def test_connected__sigterm_during_the_connection_has_its_own_handler(
    fake_ray: SimpleNamespace,
) -> None:
    def init(*_: object, **__: object) -> None:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(number))  # as Ray does
        signal.raise_signal(signal.SIGTERM)

    fake_ray.init = init

    with pytest.raises(Ended), engine.connected():
        pass


@pytest.mark.usefixtures("handler")
def test_connected__signals_wait_for_the_end_of_the_shutdown(fake_ray: SimpleNamespace) -> None:
    done: list[str] = []

    def shutdown() -> None:
        signal.raise_signal(signal.SIGTERM)
        done.append("shutdown")

    fake_ray.shutdown = shutdown

    with pytest.raises(Ended), engine.connected():
        pass

    assert done == ["shutdown"]


def test_connected__leaves_handlers_that_are_not_pythons(
    fake_ray: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(signal, "getsignal", lambda _: None)
    done: list[str] = []
    fake_ray.shutdown = lambda: done.append("shutdown")

    with engine.connected():
        pass

    monkeypatch.undo()
    assert done == ["shutdown"]
    assert signal.getsignal(signal.SIGINT) is before


def test_connected__works_in_any_thread(fake_ray: SimpleNamespace) -> None:
    called: list[str] = []

    def connect() -> None:
        with engine.connected():
            called.append("connected")

    thread = threading.Thread(target=connect)
    thread.start()
    thread.join()

    assert called == ["connected"]


# On a node ----------------------------------------------------------------------------------------


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Keep what `prepare_process` changes in a process of a node."""
    before = os.umask(0)
    streams = {stream: os.dup(stream) for stream in (1, 2)}
    monkeypatch.chdir(".")
    engine.prepare_process.cache_clear()
    yield
    os.umask(before)
    for stream, copy in streams.items():
        os.dup2(copy, stream)
        os.close(copy)


@pytest.mark.usefixtures("node")
def test_prepare_process__rejects_other_versions_and_missing_paths() -> None:
    def prepare(*versions: tuple[str, str], path: str = __file__) -> None:
        engine.prepare_process(frozenset(versions), "/nowhere", (path,), None)

    prepare(*engine.versions())
    prepare(("a package that this node has not", "1"))

    for package in ("pyarrow", "rensa"):
        with pytest.raises(
            BuildError,
            match=rf"^node .*: expected {package} 0\.1 .* got [\d.]+; install the same version",
        ):
            prepare((package, "0.1"))
    with pytest.raises(BuildError, match=rf"expected folder format 1 .* got {FORMAT}; install"):
        prepare(("folder format", "1"))
    with pytest.raises(
        BuildError, match=r"^node .*: expected to see /nowhere/x, found no such file"
    ):
        prepare(path="/nowhere/x")


@pytest.mark.usefixtures("node")
def test_prepare_process__loads_what_tasks_share(tmp_path: Path) -> None:
    for _ in range(2):  # once in a process, so the second call does not fail
        engine.prepare_process(frozenset(), ".", (), Preload("os:mkdir", str(tmp_path / "loaded")))

    assert (tmp_path / "loaded").is_dir()


@pytest.mark.usefixtures("node")
def test_run_task__is_private_and_silent(
    work: Work, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shared = (work, (frozenset(), str(tmp_path), (), None))

    answer = engine.run_task(shared, None, 0, Do(1, "cwd"))
    error = engine.run_task(shared, None, 1, Do(2, "foreign"))

    assert answer == str(tmp_path)
    assert re.search(r"^node .*: task-2: ValueError in tasks.py:\d+, which should", str(error))
    assert {path.stat().st_mode & 0o777 for path in work.folder.iterdir()} == {0o600}
    assert capfd.readouterr() == ("", "")


# Without a cluster --------------------------------------------------------------------------------


class RayError(Exception):
    """Base of the errors of `FakeRay`."""


class RayTaskError(RayError):
    """An error that left a task."""

    cause = KeyError(CANARY)


class FakeRef:
    """A task that has been submitted."""

    def __init__(self, function: Any, arguments: Any) -> None:
        self.function = function
        self.arguments = arguments


class FakeQueue(list[Any]):
    """A queue of Ray."""

    def __init__(self, **_: Any) -> None:
        super().__init__()

    put, size, get_nowait_batch = list.append, list.__len__, lambda self, _: self


class FakeRay:
    """Runs functions and actors in this process, the last task first; starting Ray takes seconds.

    Tasks are long: they do not end in the time that `wait` is given.

    Attributes:
        cancelled: Numbers of cancelled tasks.
    """

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self) -> None:
        self.cancelled: list[int] = []
        scheduling = SimpleNamespace(NodeAffinitySchedulingStrategy=lambda *_, **__: None)
        self.util = SimpleNamespace(scheduling_strategies=scheduling)

    def put(self, value: Any) -> Any:
        return value

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(get_node_id=str)

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 2.0}

    def remote(self, function: Any) -> Any:
        made = SimpleNamespace(remote=lambda *arguments: FakeRef(function, arguments))
        return SimpleNamespace(options=lambda **_: made)

    def wait(
        self, refs: list[Any], *, num_returns: int, timeout: float | None = None
    ) -> tuple[list[Any], list[Any]]:
        return ([], refs) if timeout else (refs[-num_returns:], refs[:-num_returns])

    def get(self, ref: Any) -> Any:
        shared, notes, number, task = ref.arguments
        if task.do == "lost":
            notes.put((number, "a document"))
            raise RayError(CANARY)
        if task.do == "unreadable":
            raise RayTaskError(CANARY)
        return ref.function(shared, notes, number, task)

    def cancel(self, ref: Any, *, force: bool) -> None:
        assert force
        self.cancelled.append(ref.arguments[3].number)


@pytest.fixture(params=[True, False], ids=["stays_connected", "disconnects"])
def stays_connected(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def here(node: None, stays_connected: bool, monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    fake = FakeRay()
    monkeypatch.setattr(engine, "connected", lambda: nullcontext((fake, stays_connected)))
    monkeypatch.setattr(engine, "load", lambda *_, **__: SimpleNamespace(Queue=FakeQueue))
    return fake


def test_run__yields_answers_and_asks_about_deaths(here: FakeRay, work: Work) -> None:
    deaths = []

    def died(task: Do, how: str, note: Any) -> Do:
        deaths.append((task.number, how, note))
        return Do(task.number)

    with start(work, engine="ray", paths=[work.folder]) as run:
        answers = numbers(run([Do(0), Do(1, "lost"), Do(2)], died=died))

    assert answers == [(0, 0), (1, 10), (2, 20)]
    assert deaths == [(1, "RayError", "a document")]
    assert here.cancelled == []


@pytest.mark.parametrize(
    ("do", "message"),
    [
        ("ours", r"^notes\.csv: line 3: no text$"),
        ("foreign", r"^node .*: task-5: ValueError in tasks\.py:\d+, which should not happen"),
        ("lost", r"^task-5: a worker process died twice \(the last: RayError, "),
        ("unreadable", r"^engine 'ray': a node answered with KeyError; is mslm-data .* on all nod"),
    ],
)
def test_run__raises_errors_of_nodes_and_cancels_other_tasks_if_ray_does_not(
    do: str, message: str, here: FakeRay, stays_connected: bool, work: Work
) -> None:
    with (
        pytest.raises(MslmDataError, match=message) as raised,
        start(work, workers=2, engine="ray") as run,
    ):
        [*run([Do(4), Do(5, do), Do(6)])]

    assert CANARY not in str(raised.value)
    assert here.cancelled == ([4] if stays_connected else [])


def test_start__reports_a_lost_cluster(here: FakeRay, work: Work) -> None:
    def lose(*_: Any, **__: Any) -> None:
        raise RayError(CANARY)

    here.wait = lose  # type: ignore[assignment]

    with (
        pytest.raises(BuildError, match=r"^engine 'ray': RayError; see `ray status` and .*again"),
        start(work, engine="ray") as run,
    ):
        [*run([Do(1)])]


# A cluster ----------------------------------------------------------------------------------------


@pytest.fixture
def ray(cluster: Any, connected: Any) -> Any:
    """Ray, connected to a cluster of one node."""
    return connected


@pytest.mark.long
def test_run__answers_fails_and_dies_like_the_local_engine(
    ray: Any, work: Work, capfd: pytest.CaptureFixture[str]
) -> None:
    deaths = []

    def died(task: Do, how: str, note: Any) -> Do:
        deaths.append((task, how, note))
        return Do(task.number)

    with start(work, engine="ray") as run:
        first = numbers(run(map(Do, range(5))))
        second = numbers(run([Do(1, "kill"), Do(2)], died=died))
        third = numbers(run([Do(7, "die_once")]))
        with pytest.raises(SourceError, match=r"^notes\.csv: line 3: no text$"):
            [*run([Do(1, "ours")])]
        with pytest.raises(
            BuildError, match=r"^node .*: task-8: ValueError in tasks\.py:\d+"
        ) as foreign:
            [*run([Do(8, "foreign")])]
        with pytest.raises(
            BuildError, match=r"^node .*: task-9: BaseException in tasks\.py:\d+"
        ) as panic:
            [*run([Do(9, "panic")])]

    assert first == [(number, number * 10) for number in range(5)]
    assert second == [(1, 10), (2, 20)]
    assert third == [(7, 70)]
    assert deaths == [(Do(1, "kill"), "WorkerCrashedError", ("document", 1))]

    # Ray's logs are readable by all, and are written with a delay.
    time.sleep(0.5)
    session = Path(ray._private.worker._global_node.get_session_dir_path())
    files = [path for path in session.rglob("*") if path.is_file()]
    assert any(path.name.startswith("worker-") for path in files)
    assert not [path for path in files if CANARY.encode() in path.read_bytes()]
    assert CANARY not in "".join([*capfd.readouterr(), repr(foreign.value), repr(panic.value)])


@pytest.mark.long
def test_run__names_only_the_class_of_an_error_of_unpickling(ray: Any, tmp_path: Path) -> None:
    with (
        pytest.raises(
            BuildError,
            match=r"^engine 'ray': a node answered with \w+Error; is mslm-data [\w.]+ on all nodes",
        ) as raised,
        start(Elsewhere(tmp_path), engine="ray") as run,
    ):
        [*run([Do(1)])]

    assert CANARY not in repr(raised.value)


@pytest.mark.long
def test_run__continues_when_a_node_is_lost(cluster: Any, ray: Any, work: Work) -> None:
    node = cluster.add_node(num_cpus=1)
    deaths = []

    def died(task: Do, how: str, _: Any) -> Do:
        deaths.append(how)
        return Do(task.number)

    def kill() -> None:
        wait_for(lambda: {p.pid for p in nodes.processes_of(node)} & {*work.pids()})
        nodes.kill_node(node)
        (work.folder.parent / "go").touch()

    killer = threading.Thread(target=kill)
    killer.start()
    with start(work, engine="ray") as run:
        answers = numbers(run((Do(number, "wait") for number in range(5)), died=died))
    killer.join()
    cluster.remove_node(node)

    assert answers == [(number, number * 10) for number in range(5)]
    assert deaths == ["NodeDiedError"]


@pytest.mark.long
def test_start__cancels_tasks_and_stays_connected(ray: Any, work: Work) -> None:
    def fail(run: Any) -> None:
        next(run([Do(0), Do(2, "sleep")]))
        wait_for(lambda: len(work.pids()) == 2)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), start(work, workers=2, engine="ray") as run:
        fail(run)
    with start(work, engine="ray") as run:
        assert numbers(run([Do(3)])) == [(3, 30)]  # the only CPU is free

    assert ray.is_initialized()


@pytest.mark.long
@pytest.mark.parametrize("error", ["ObjectStoreFullError", "OutOfDiskError"])
def test_start__reports_insufficient_memory_or_disk(
    error: str, ray: Any, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put(_: object) -> None:
        raise getattr(ray.exceptions, error)("…")

    monkeypatch.setattr(ray, "put", put)

    with (
        pytest.raises(BuildError, match=rf"^engine 'ray': {error}; see .* `ray memory`"),
        start(work, engine="ray"),
    ):
        pass


@pytest.mark.long
@pytest.mark.parametrize("name", ["blurb/ncbi-disease", "mimic"])
def test_build__writes_the_same_bytes(name: str, ray: Any, tmp_path: Path) -> None:
    pipeline = read(name, sets=("shard.input_bytes=3000",)).sampled()
    inputs = [made.SAMPLE / Path(name).name]
    made.build(pipeline, inputs, made.word_piece(), tmp_path / "here", workers=1)

    made.build(pipeline, inputs, made.word_piece(), tmp_path / "ray", workers=2, engine="ray")

    assert made.tree(tmp_path / "ray") == made.tree(tmp_path / "here")


@pytest.mark.long
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_build__ended_program_leaves_no_worker_and_resumes(
    sent: signal.Signals, cluster: Any, ray: Any, tmp_path: Path
) -> None:
    options, out = ("shard.input_bytes=500",), tmp_path / "out"
    words = ["build", "--source", "blurb/ncbi-disease", "--sample", "--set", *options]
    words += ["--engine", "ray", "--workers", "2", "--out", str(out)]
    building = subprocess.Popen(
        [sys.executable, "-m", "mslm_data", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    while not list(out.glob(".build/receipts/*.json")):
        assert building.poll() is None, building.communicate()
        time.sleep(0.02)
    before = wait_for(lambda: nodes.workers(cluster))

    building.send_signal(sent)
    output, _ = building.communicate(timeout=PATIENCE_S)

    if sent == signal.SIGTERM:
        assert building.returncode == 128 + sent, output
        assert b"run the same command again" in output
        assert b"Traceback" not in output
    assert psutil.wait_procs(before, timeout=PATIENCE_S)[1] == []
    pipeline = read("blurb/ncbi-disease", sets=options).sampled()
    made.built(tmp_path / "whole", pipeline=pipeline)
    made.built(out, pipeline=pipeline)
    assert made.tree(out) == made.tree(tmp_path / "whole")


@pytest.mark.long
def test_build__rejects_a_node_with_another_installed_version(tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    shutil.copytree(ROOT / "mslm_data", installed / "mslm_data")
    version = installed / "mslm_data" / "_version.py"
    version.write_text(version.read_text("utf-8").replace(__version__, "0.0.9"), encoding="utf-8")

    with nodes.started(cpus=0) as cluster:
        cluster.add_node(num_cpus=1, env_vars={"PYTHONPATH": str(installed)})
        # A separate program, as Ray's workers search the folder of the connecting program first.
        words = ["build", "--source", "blurb/bc2gm", "--sample", "--engine", "ray"]
        done = subprocess.run(
            [sys.executable, "-m", "mslm_data", *words],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    assert done.returncode == 1
    assert re.search(
        rf"^error: node .*: expected mslm-data {re.escape(__version__)} as where the build was "
        r"started, got 0\.0\.9; install the same versions on all nodes, as bytes depend on them$",
        done.stderr.strip().splitlines()[-1],
    )
    assert "Traceback" not in done.stderr
