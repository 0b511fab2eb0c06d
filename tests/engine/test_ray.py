"""The Ray engine: the same bytes after deaths of processes and nodes, and no text in Ray's files."""

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
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest

from mslm_data import builds
from mslm_data._version import __version__
from mslm_data.builds.verify import verify
from mslm_data.data.columns import FORMAT
from mslm_data.engine import Preload
from mslm_data.engine import ray as engine
from mslm_data.errors import BuildError
from mslm_data.pipeline import read
from tests import made
from tests.engine import nodes, works
from tests.engine.nodes import busy_on, kill_node, processes_of
from tests.engine.works import CANARY, Done, Fake, finely, units
from tests.faults.corpora import CORPORA
from tests.faults.works import FaultyWorker, tell
from tests.support.waiting import PATIENCE_S

NOTHING = Preload("json:loads", "0")


def do(worker: Any, count: int = 4, *, workers: int | None = None) -> list[str]:
    done = Done()
    engine.run(worker, units(count), workers=workers, done=done, preload=NOTHING)
    return sorted(done.names)


# The cluster --------------------------------------------------------------------------------------


@pytest.mark.long
def test_connected__joins_the_cluster_of_ray_address_and_leaves_it(cluster: Any) -> None:
    for _ in range(2):
        with engine.connected() as ray:
            with engine.connected() as again:  # A connected program stays connected.
                pass

            assert again.is_initialized()
            assert ray.get_runtime_context().gcs_address == cluster.address

        assert not ray.is_initialized()


@pytest.mark.long
@pytest.mark.parametrize(
    "address", ["", "auto", "127.0.0.1:9", "ray://127.0.0.1:10001", "127.0.0.1:99999"]
)
def test_connected__accepts_a_named_running_cluster(
    address: str, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)

    with (
        pytest.raises(
            BuildError, match=rf"^RAY_ADDRESS: .* got '{address}'; .* `ray start --head`"
        ),
        engine.connected(),
    ):
        pass


@pytest.fixture
def fake_ray(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A Ray with a running cluster; `init` does nothing by default."""
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    fake = SimpleNamespace(
        is_initialized=lambda: False, init=lambda *_, **__: None, shutdown=lambda: None
    )
    monkeypatch.setattr(engine, "load", lambda *_, **__: fake)
    monkeypatch.setattr(engine, "_answers", lambda _: True)
    return fake


def test_connected__reports_the_error_of_ray(fake_ray: SimpleNamespace) -> None:
    def init(*_: object, **__: object) -> None:
        raise ConnectionError("no node here\nand much more")

    fake_ray.init = init

    with (
        pytest.raises(BuildError, match=r"10\.0\.0\.1:6379: ConnectionError \(no node here\);"),
        engine.connected(),
    ):
        pass


def test_connected__keeps_the_handler_of_sigterm(fake_ray: SimpleNamespace) -> None:
    def end(*_: object) -> None: ...

    def init(*_: object, **__: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    fake_ray.init = init
    before = signal.signal(signal.SIGTERM, end)

    with engine.connected():
        during = signal.getsignal(signal.SIGTERM)

    signal.signal(signal.SIGTERM, before)
    assert during is end


def test_connected__works_in_any_thread(fake_ray: SimpleNamespace) -> None:
    called: list[str] = []

    def connect() -> None:
        with engine.connected():
            called.append("connected")

    before = signal.signal(signal.SIGTERM, lambda *_: None)

    thread = threading.Thread(target=connect)
    thread.start()
    thread.join()

    signal.signal(signal.SIGTERM, before)
    assert called == ["connected"]


# The same bytes -----------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("name", ["blurb/ncbi-disease", "mimic"])
def test_build__writes_the_same_bytes_on_two_nodes(name: str, ray: Any, tmp_path: Path) -> None:
    pipeline = read(name).sampled()
    if pipeline.annotate.use == "medcat":
        pytest.importorskip("medcat")
    pipeline = replace(
        pipeline, shard=replace(pipeline.shard, unit_bytes=30_000 if name == "mimic" else 3000)
    )
    inputs = [made.SAMPLE / Path(name).name]
    made.build(pipeline, inputs, made.word_piece(), tmp_path / "here", workers=1)

    made.build(pipeline, inputs, made.word_piece(), tmp_path / "ray", workers=2, engine="ray")

    assert made.tree(tmp_path / "ray") == made.tree(tmp_path / "here")
    assert len(list((tmp_path / "ray").rglob("*.arrow"))) >= 4
    assert verify(tmp_path / "ray")[1] == []


# Deaths -------------------------------------------------------------------------------------------


@pytest.mark.long
def test_build__continues_when_an_actor_and_a_node_are_killed(
    cluster: Any, ray: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes, out, node = finely("notes"), tmp_path / "out", next(iter(cluster.worker_nodes))
    inputs = notes.write(tmp_path / "in")
    notes.build(inputs, tmp_path / "whole")

    def kill() -> None:
        os.kill(busy_on(cluster.head_node, out), signal.SIGKILL)
        busy_on(cluster.head_node, out)  # Another process.
        busy_on(node, out)
        kill_node(node)
        Path(f"{out}.go").touch()

    monkeypatch.setattr(builds, "BuildWorker", works.SlowWorker)
    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    notes.build(inputs, out, workers=2, engine="ray")
    cluster.remove_node(node)

    assert made.tree(out) == made.tree(tmp_path / "whole")
    assert len(works.deaths(out)) == 2


@pytest.mark.long
def test_build__continues_when_a_raylet_is_killed_and_its_actor_keeps_writing(
    cluster: Any, ray: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes, out = finely("notes"), tmp_path / "out"
    node = cluster.add_node(num_cpus=1)
    inputs = notes.write(tmp_path / "in")
    notes.build(inputs, tmp_path / "whole")
    actors: list[psutil.Process] = []

    def kill() -> None:
        actors.append(psutil.Process(busy_on(node, out)))
        actors[0].suspend()  # Otherwise it might exit with its raylet.
        processes_of(node)[0].kill()
        while not works.deaths(out):
            time.sleep(0.02)
        actors[0].resume()
        Path(f"{out}.go").touch()

    monkeypatch.setattr(builds, "BuildWorker", works.SlowWorker)
    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    notes.build(inputs, out, workers=3, engine="ray")
    cluster.remove_node(node)

    psutil.wait_procs(actors, timeout=PATIENCE_S)
    assert len(works.deaths(out)) == 1
    assert made.tree(out) == made.tree(tmp_path / "whole")


@pytest.mark.long
def test_build__killed_program_leaves_no_actor_and_resumes(
    cluster: Any, ray: Any, tmp_path: Path
) -> None:
    # A separate program, as this process cannot be killed. It takes seconds to start.
    lines, out = finely("lines"), tmp_path / "out"
    inputs = lines.write(tmp_path / "in")
    lines.build(inputs, tmp_path / "whole")
    command = [sys.executable, "-m", "tests.engine.driver", "lines", str(inputs), str(out)]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    busy_on(cluster.head_node, out)
    before = nodes.actors(cluster)

    program.kill()
    program.wait()
    Path(f"{out}.go").touch()

    assert before
    assert psutil.wait_procs(before, timeout=PATIENCE_S)[1] == []
    lines.build(inputs, out, workers=2, engine="ray")
    assert made.tree(out) == made.tree(tmp_path / "whole")


@pytest.mark.long
def test_build__terminated_program_leaves_no_actor_and_resumes(
    cluster: Any, ray: Any, tmp_path: Path
) -> None:
    options, out = ("shard.unit_bytes=500",), tmp_path / "out"
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
    before = nodes.actors(cluster)

    building.terminate()
    output, _ = building.communicate(timeout=60)

    assert building.returncode == 128 + signal.SIGTERM
    assert b"run the same command again" in output
    assert b"Traceback" not in output
    assert before
    assert psutil.wait_procs(before, timeout=30)[1] == []
    pipeline = read("blurb/ncbi-disease", sets=options).sampled()
    made.built(tmp_path / "whole", pipeline=pipeline)
    made.built(out, pipeline=pipeline)
    assert made.tree(out) == made.tree(tmp_path / "whole")


@pytest.mark.long
def test_build__continues_when_the_object_store_is_full(
    ray: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = CORPORA["words"]
    inputs = words.write(tmp_path / "in")
    words.build(inputs, tmp_path / "whole")
    held = [ray.put(np.ones(nodes.STORE_BYTES // 4, np.uint8)) for _ in range(6)]

    words.build(inputs, tmp_path / "out", workers=2, engine="ray")

    assert len(held) == 6
    assert made.tree(tmp_path / "out") == made.tree(tmp_path / "whole")


@pytest.mark.long
@pytest.mark.parametrize("error", ["ObjectStoreFullError", "OutOfDiskError"])
def test_run__reports_insufficient_memory_or_disk(
    error: str, ray: Any, worker: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put(_: object) -> None:
        raise getattr(ray.exceptions, error)("…")

    monkeypatch.setattr(ray, "put", put)

    with pytest.raises(
        BuildError, match=rf"^engine 'ray': expected room .* got {error}; see `ray memory`, make"
    ):
        do(worker)


@pytest.mark.long
def test_build__sets_aside_a_document_that_kills_its_actor(
    ray: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = CORPORA["lines"]
    inputs, out = lines.write(tmp_path), tmp_path / "out"
    monkeypatch.setattr(builds, "BuildWorker", FaultyWorker)
    tell(out, do="die", document="20")

    manifest = lines.build(inputs, out, workers=2, engine="ray")

    assert manifest
    assert manifest.splits["train"].read == 60 == manifest.splits["train"].written + 3
    assert '"20"' in (out / "set_aside.jsonl").read_text()
    assert verify(out)[1] == []


@pytest.mark.long
def test_run__gives_up_when_no_actor_starts(
    ray: Any, worker: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = ModuleType("nowhere_else")  # A module that the nodes do not have.
    actor = type("TaskActor", (), {"begin": lambda self, *_: None, "__module__": "nowhere_else"})
    monkeypatch.setattr(elsewhere, "TaskActor", actor, raising=False)
    monkeypatch.setitem(sys.modules, "nowhere_else", elsewhere)
    monkeypatch.setattr(engine, "TaskActor", actor)

    with pytest.raises(
        BuildError,
        match=r"^engine 'ray': expected workers that start, got 5 in a row .*DiedError\); is mslm",
    ):
        do(worker)

    assert worker.deaths == []


def test_run__gives_up_when_no_cpu_becomes_free(
    worker: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = SimpleNamespace(options=lambda **_: None)
    ray = SimpleNamespace(put=lambda _: None, remote=lambda _: remote, cluster_resources=dict)
    monkeypatch.setattr(engine, "_LOOK_S", 0.001)
    monkeypatch.setattr(engine, "_WITHOUT_CPU_S", 0.01)

    with pytest.raises(BuildError, match=r"^engine 'ray': expected nodes with CPUs, got none; see"):
        engine._Actors(ray, worker, 1, NOTHING).work_off(units(1), Done())


# Actors -------------------------------------------------------------------------------------------


@pytest.mark.long
def test_run__has_at_most_as_many_actors_as_workers_and_accepts_relative_paths(
    ray: Any, worker: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(worker.folder)
    worker.folder = "."

    assert len(do(worker, 5, workers=1)) == 5
    assert len(worker.processes()) == 1


@pytest.mark.long
def test_run__runs_tasks_added_by_results(ray: Any, worker: Fake) -> None:
    first, *others = units(5)
    done = Done({first.name: others})

    engine.run(worker, [first], workers=None, done=done, preload=NOTHING)

    assert sorted(done.names) == [unit.name for unit in units(5)]


@pytest.mark.long
def test_run__rejects_nodes_that_cannot_see_the_folder(ray: Any, tmp_path: Path) -> None:
    with pytest.raises(
        BuildError,
        match=f"^node .*: expected to see {re.escape(str(tmp_path))}/gone, found no such",
    ):
        do(Fake(str(tmp_path / "gone")))

    assert not (tmp_path / "gone").exists()


@pytest.fixture
def actor(monkeypatch: pytest.MonkeyPatch) -> Iterator[engine.TaskActor]:
    """An actor in this process."""
    monkeypatch.setattr(engine, "_silence", lambda: None)
    before = os.umask(0)
    monkeypatch.chdir(".")
    yield engine.TaskActor()
    assert os.umask(before) == 0o077


def test_begin__rejects_other_versions(actor: engine.TaskActor, worker: Fake) -> None:
    ours = engine.versions()
    begin = [str(Path.cwd()), worker.folder, NOTHING]

    same = actor.begin(ours, *begin)
    more = actor.begin(ours | {"a package that this node has not": "1"}, *begin)
    other = actor.begin(ours | {"pyarrow": "0.1"}, *begin)
    other_folders = actor.begin(ours | {"folder format": "1"}, *begin)

    assert (same, more) == ("", "")
    assert re.search(
        r"^node .*: expected pyarrow 0\.1 .* got [\d.]+; install the same versions", str(other)
    )
    assert re.search(
        rf"^node .*: expected folder format 1 .* got {FORMAT}; install", str(other_folders)
    )


OF_NODE_ELSEWHERE = """
import sys
from mslm_data.engine import ray

ray._OPTIONS["resources"] = {"elsewhere": 1}
from mslm_data.__main__ import main
from tests.support.cases import long

sys.exit(main())
"""


@pytest.mark.long
def test_build__rejects_a_node_with_another_installed_version(cluster: Any, tmp_path: Path) -> None:
    root = Path(engine.__file__).parents[2]
    installed = tmp_path / "installed"
    shutil.copytree(root / "mslm_data", installed / "mslm_data")
    version = installed / "mslm_data" / "_version.py"
    version.write_text(version.read_text("utf-8").replace(__version__, "0.0.9"), encoding="utf-8")
    node = cluster.add_node(
        num_cpus=1, resources={"elsewhere": 1}, env_vars={"PYTHONPATH": str(installed)}
    )

    # A separate program, as Ray's workers search the folder of the connecting program first.
    words = ["build", "--source", "blurb/bc2gm", "--sample", "--engine", "ray", "--workers", "1"]
    done = subprocess.run(
        [sys.executable, "-c", OF_NODE_ELSEWHERE, *words],
        env={**os.environ, "PYTHONPATH": str(root)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    cluster.remove_node(node)

    assert done.returncode == 1
    assert re.search(
        rf"^error: node .*: expected mslm-data {re.escape(__version__)} as where the build was "
        r"started, got 0\.0\.9; install the same versions on all nodes, as bytes depend on them$",
        done.stderr.strip().splitlines()[-1],
    )
    assert "Traceback" not in done.stderr


def test_begin__leaves_model_loading_errors_to_the_units(
    actor: engine.TaskActor, worker: Fake
) -> None:
    preload = Preload("mslm_data.no_such_module:load", "")

    assert actor.begin({}, "/no such folder", worker.folder, preload) == ""


def test_attempt__names_an_input_that_a_node_cannot_see(
    actor: engine.TaskActor, worker: Fake
) -> None:
    worker.how = ("raises",) * 2
    actor.begin({}, ".", worker.folder, NOTHING)

    seen, unseen = (
        actor.attempt(worker, units(2, path)[1]) for path in (__file__, "/nowhere/notes.csv")
    )

    assert str(seen).startswith("train-00000-00001: ValueError in works.py:")
    assert re.search(
        "^node .*: expected to see /nowhere/notes.csv, found no such file; put inputs", str(unseen)
    )


# Privacy ------------------------------------------------------------------------------------------


@pytest.mark.long
def test_run__leaves_no_text(ray: Any, worker: Fake, capfd: pytest.CaptureFixture[str]) -> None:
    worker.how = ("dies", "panics")

    with pytest.raises(
        BuildError, match=r"^train-00000-00001: BaseException in works.py:\d+, which should not"
    ) as raised:
        do(worker, 2)

    said = "".join(map(repr, (raised.value, raised.value.__cause__, raised.value.__context__)))
    session = Path(ray._private.worker._global_node.get_session_dir_path())
    time.sleep(0.5)  # Logs are written with a delay.
    out, err = capfd.readouterr()
    files = [path for path in session.rglob("*") if path.is_file()]
    assert any(path.name.startswith("worker-") for path in files)
    assert not [path for path in files if CANARY.encode() in path.read_bytes()]
    assert CANARY not in out + err + said


@pytest.mark.long
def test_run__names_only_the_class_of_an_unpicklable_error(ray: Any, worker: Fake) -> None:
    with pytest.raises(
        BuildError,
        match=r"^engine 'ray': a node answered with \w+Error; is mslm-data [\w.]+ on all nodes\?$",
    ):
        do(works.Elsewhere(worker.folder), 1)
