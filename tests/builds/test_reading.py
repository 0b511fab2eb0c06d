from __future__ import annotations

from pathlib import Path

import pytest

from mslm_data.annotate.terms.annotator import Terms
from mslm_data.builds import stages
from mslm_data.builds.stages import load_annotator
from mslm_data.pipeline import AnnotateOptions
from tests import made
from tests.faults.corpora import CORPORA

# Models are loaded once ---------------------------------------------------------------------------


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables that were loaded, each time."""
    started: list[str] = []
    start = Terms.start

    def count(self: Terms) -> object:
        started.append(str(self.table))
        return start(self)

    monkeypatch.setattr(stages, "_LOADED", {})
    monkeypatch.setattr(Terms, "start", count)
    return started


def test_build__loads_the_model_once_for_all_units(starts: list[str], tmp_path: Path) -> None:
    lines = CORPORA["lines"]

    manifest = lines.build(lines.write(tmp_path), tmp_path / "out")

    assert manifest
    assert len(manifest.splits["train"].shards) == 4
    assert len(starts) == 1


def test_load_annotator__keeps_the_last_one_only(starts: list[str], tmp_path: Path) -> None:
    first = AnnotateOptions(use="terms", options={"table": str(made.SAMPLE / "concepts.csv")})
    (tmp_path / "terms.csv").write_text("name,label\nasthma,Disease\n")
    second = AnnotateOptions(use="terms", options={"table": str(tmp_path / "terms.csv")})

    again = load_annotator(first) is load_annotator(first)
    load_annotator(second)
    load_annotator(first)

    assert again
    assert [Path(table).name for table in starts] == ["concepts.csv", "terms.csv", "concepts.csv"]
    assert len(stages._LOADED) == 1
