"""Which Ray cluster is taken, and what is left of one that was started."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from mslm_data.engine import ray_cluster
from mslm_data.errors import BuildError
from mslm_data.pipeline import read
from tests import made
from tests.engine.nodes import command_of, short_folder
from tests.support.waiting import PATIENCE_S


def test_connected__joins_what_ray_address_names_and_leaves_it(cluster: Any) -> None:
    with ray_cluster.connected(None) as ray:
        with ray_cluster.connected(None) as again:  # a program that is connected stays so
            pass

        assert again.is_initialized()
        assert ray.get_runtime_context().gcs_address == cluster.address

    assert not ray.is_initialized()
    assert ray_cluster._answers(cluster.address)


def test_joins__what_ray_start_left_here(
    cluster: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("RAY_ADDRESS")
    assert ray_cluster._joins()

    with monkeypatch.context() as patch:
        patch.setattr(os, "getuid", lambda: 12345)
        assert not ray_cluster._joins()  # as another user left it

    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text("127.0.0.1:9")
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    assert not ray_cluster._joins()  # as nobody answers


@pytest.mark.parametrize(
    "address", ["127.0.0.1:9", "ray://127.0.0.1:10001", "nonsense", "127.0.0.1:99999"]
)
def test_joins__says_that_nobody_answers(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)

    with pytest.raises(
        BuildError,
        match=f"^RAY_ADDRESS: expected host:port of a cluster .* got {address}, where none",
    ):
        ray_cluster._joins()


def test_joins__says_that_there_is_no_cluster_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.setenv("RAY_ADDRESS", "auto")

    with pytest.raises(
        BuildError, match=r"^RAY_ADDRESS: expected a cluster here for 'auto', found none"
    ):
        ray_cluster._joins()

    monkeypatch.setenv("RAY_ADDRESS", "local")
    assert not ray_cluster._joins()


def test_connected__says_what_ray_said(tmp_path: Path) -> None:
    def init(**_: object) -> None:
        raise RuntimeError("no node here\nand much more")

    with pytest.raises(
        BuildError, match=r"^ray: expected a cluster, got RuntimeError \(no node here\); see"
    ):
        ray_cluster._connect(SimpleNamespace(init=init), {})


def test_connect__works_in_any_thread() -> None:
    called: list[str] = []
    ray = SimpleNamespace(init=lambda **_: called.append("init"))
    thread = threading.Thread(target=lambda: called.append(str(ray_cluster._connect(ray, {}))))
    before = signal.signal(signal.SIGTERM, lambda *_: None)

    thread.start()
    thread.join()

    signal.signal(signal.SIGTERM, before)
    assert called == ["init", "None"]


def test_build__ended_with_a_cluster_of_its_own_leaves_nothing(tmp_path: Path) -> None:
    options = ("shard.unit_bytes=500",)
    command = [
        sys.executable,
        "-m",
        "mslm_data",
        "build",
        "--source",
        "blurb/ncbi-disease",
        "--sample",
    ]
    command += [
        "--set",
        *options,
        "--engine",
        "ray",
        "--workers",
        "2",
        "--out",
        str(tmp_path / "out"),
    ]
    with short_folder() as folder, socket.create_server(("127.0.0.1", 0)) as outside:
        outside.setblocking(False)  # whatever Ray asks the world would come here
        world = f"http://127.0.0.1:{outside.getsockname()[1]}"
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("RAY_")
        }
        environment |= {
            "TMPDIR": str(folder),
            "RAY_AUTH_TOKEN": "0123456789abcdef" * 2,
            "http_proxy": world,
        }
        building = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        while not list((tmp_path / "out").glob(".build/receipts/*.json")):
            assert building.poll() is None, building.communicate()
            time.sleep(0.02)
        processes = psutil.Process(building.pid).children(recursive=True)
        reporter = next(process for process in processes if "dashboard.py" in command_of(process))
        told, hosts = reporter.environ(), set(_hosts(processes))
        modes = [path.stat().st_mode & 0o777 for path in folder.iterdir()]

        building.terminate()
        output, _ = building.communicate(timeout=PATIENCE_S)

        assert building.returncode == 128 + signal.SIGTERM
        assert b"run the same command again" in output
        assert b"Traceback" not in output
        assert list(folder.iterdir()) == []
        assert psutil.wait_procs(processes, timeout=PATIENCE_S)[1] == []
        with pytest.raises(BlockingIOError):
            outside.accept()
    assert told["RAY_USAGE_STATS_ENABLED"] == told["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] == "0"
    assert told["RAY_USAGE_STATS_REPORT_URL"] == told["http_proxy"] == "http://127.0.0.1:9"
    assert hosts
    assert hosts <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}
    assert modes == [0o700]

    pipeline = read("blurb/ncbi-disease", sets=options).sampled()
    made.built(tmp_path / "whole", pipeline=pipeline)
    made.built(tmp_path / "out", pipeline=pipeline)
    assert made.tree(tmp_path / "out") == made.tree(tmp_path / "whole")


def _hosts(processes: list[psutil.Process]) -> Iterator[str]:
    """Give the addresses at which processes listen."""
    for process in processes:
        with suppress(psutil.Error):
            for at in process.net_connections("inet"):
                if at.status == psutil.CONN_LISTEN:
                    yield at.laddr.ip
