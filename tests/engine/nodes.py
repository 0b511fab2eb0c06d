"""Local Ray clusters with processes as nodes, and functions that kill them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from mslm_data._optional import load

_QUICK = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 1000,
    "health_check_failure_threshold": 3,
}
"""Heartbeat settings that detect a dead node in two seconds instead of twelve."""
_OFFLINE = {
    # Ports are open to this machine only.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # With usage reports off, Ray 2.60 still asks three clouds where it runs. Nobody answers here.
    "http_proxy": "http://127.0.0.1:9",
}
STORE_BYTES = 80 << 20
"""Memory of the first node's object store, near Ray's minimum, so that tests can fill it."""


@contextmanager
def short_folder() -> Iterator[Path]:
    """Create a folder with a path short enough for the name of a socket."""
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def started(*, cpus: int = 1) -> Iterator[Any]:
    """Start a cluster of one node on its own ports; RAY_ADDRESS names it."""
    with pytest.MonkeyPatch.context() as patch, short_folder() as folder:
        for name, value in (_OFFLINE | {"RAY_TMPDIR": str(folder)}).items():
            patch.setenv(name, value)
        load("ray", wanted_by="a test")
        from ray.cluster_utils import Cluster

        head = {
            "num_cpus": cpus,
            "include_dashboard": False,
            "object_store_memory": STORE_BYTES,
            "_system_config": _QUICK,
        }
        cluster = Cluster(initialize_head=True, head_node_args=head)
        patch.setenv("RAY_ADDRESS", cluster.address)
        try:
            yield cluster
        finally:
            cluster.shutdown()


def kill_node(node: Any) -> None:
    """Kill all processes of a node at once, like a machine that is switched off."""
    for process in processes_of(node):
        with suppress(psutil.NoSuchProcess):
            process.kill()


def processes_of(node: Any) -> list[psutil.Process]:
    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
    return [raylet, *raylet.children(recursive=True)]


def workers(cluster: Any) -> list[psutil.Process]:
    """Return the processes that may be at a task."""
    processes = [process for node in cluster.list_all_nodes() for process in processes_of(node)]
    return [process for process in processes if "ray::run_task" in command_of(process)]


def command_of(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:  # The process is dead.
        return ""
