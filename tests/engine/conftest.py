"""A Ray cluster shared by all tests of engines."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mslm_data.engine import ray as engine
from tests.engine import nodes
from tests.engine.works import Fake


@pytest.fixture(scope="package")
def cluster() -> Iterator[Any]:
    if not importlib.util.find_spec("ray"):  # Its environment must be set before the import.
        pytest.skip("ray is not installed")
    with nodes.started() as started:
        yield started


@pytest.fixture(scope="module")
def connected(cluster: Any) -> Iterator[Any]:
    """Ray, connected once per module, as connecting takes seconds."""
    with engine.connected() as ray:
        yield ray


@pytest.fixture
def ray(cluster: Any, connected: Any) -> Any:
    """Ray, connected to two nodes."""
    if not cluster.worker_nodes:
        cluster.add_node(num_cpus=1)
    return connected


@pytest.fixture
def worker(tmp_path: Path) -> Fake:
    (tmp_path / "work" / ".build").mkdir(parents=True)
    return Fake(str(tmp_path / "work"))
