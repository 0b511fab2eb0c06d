"""Built folders shared by the tests of the page."""

from __future__ import annotations

import pytest

import mslm_data as md
from mslm_data.api.loading import Shards
from tests.look.serving import hostile


@pytest.fixture(scope="session")
def chem(tmp_path_factory: pytest.TempPathFactory) -> Shards:
    """The shipped sample of chemicals."""
    return md.build(
        "blurb/bc5cdr-chem", sample=True, out=tmp_path_factory.mktemp("look") / "chem", workers=1
    )


@pytest.fixture(scope="session")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Shards:
    """The same corpus, marked as protected."""
    out = tmp_path_factory.mktemp("look") / "notes"
    options = {"about.protected": True}
    return md.build("blurb/bc5cdr-chem", sample=True, out=out, workers=1, options=options)


@pytest.fixture(scope="session")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Shards:
    """A corpus with markup in words, label and ids."""
    return md.load(hostile(tmp_path_factory.mktemp("look") / "evil"))
