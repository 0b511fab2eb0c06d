"""Built folders for the tests of shards."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests import made


@pytest.fixture(scope="session")
def one_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three splits in several shards, for read-only tests."""
    out = tmp_path_factory.mktemp("built") / "ncbi"
    made.built(out, pipeline=made.pipeline_of(unit_bytes=2000))
    return out


@pytest.fixture
def folder(one_build: Path, tmp_path: Path) -> Path:
    """A copy of the folder, for tests that damage it."""
    return Path(shutil.copytree(one_build, tmp_path / "folder"))
