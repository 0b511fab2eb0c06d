"""A concept table and a model pack made from it, for the tests of MedCAT."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.annotate.medcat_made import make_pack, write_table


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("concepts") / "concepts.csv")


@pytest.fixture(scope="session")
def pack(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model pack made from the table by MedCAT."""
    pytest.importorskip("medcat")
    return make_pack(table, tmp_path_factory.mktemp("packs") / "pack")


@pytest.fixture
def private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("MSLM_DATA_CACHE", str(folder))
    return folder
