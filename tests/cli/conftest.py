"""Built folders that the tests of commands read and do not change."""

from __future__ import annotations

from pathlib import Path

import pytest

import mslm_data as md


@pytest.fixture(scope="session")
def ncbi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample of NCBI-disease: 60, 20 and 20 sentences, each a row of its own."""
    out = tmp_path_factory.mktemp("built") / "ncbi"
    md.build("blurb/ncbi-disease", sample=True, out=out, workers=1)
    return out


@pytest.fixture(scope="session")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows, marked as patients' text."""
    out = tmp_path_factory.mktemp("built") / "notes"
    options = {"about.protected": True}
    md.build("blurb/ncbi-disease", sample=True, out=out, workers=1, options=options)
    return out
