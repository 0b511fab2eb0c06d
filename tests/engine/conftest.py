"""A Ray cluster shared by all tests of engines."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest

from mslm_data.engine import ray as engine
from tests.engine import nodes


@pytest.fixture(scope="package")
def cluster() -> Iterator[Any]:
    if not importlib.util.find_spec("ray"):  # Its environment must be set before the import.
        pytest.skip("ray is not installed")
    with nodes.started() as started:
        yield started


@pytest.fixture(scope="module")
def connected(cluster: Any) -> Iterator[Any]:
    """Ray, connected once per module, as connecting takes seconds."""
    with engine.connected() as (ray, _):
        yield ray
