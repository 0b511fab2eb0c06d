"""Stages that workers have in memory before they start."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from mslm_data.builds.worker import load_stages

from mslm_data.builds import decontaminate, stages
from mslm_data.registry import Registry
from tests import made
from tests.stats.test_overlap import folder_of


@pytest.fixture(autouse=True)
def nothing_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "_LOADED", {})


def stages_with(table: Path, *, source: str = "conll", segment: str = "given") -> str:
    """Return the stages of a pipeline with a term table."""
    pipeline = made.pipeline_of(
        source={"use": source},
        annotate={"use": "terms", "table": str(table)},
        segment=segment,
    )
    return pipeline.to_preload()


def test_load_stages__loads_the_annotator(tmp_path: Path) -> None:
    (tmp_path / "terms.csv").write_text("name,label\nasthma,Disease\n")

    load_stages(stages_with(tmp_path / "terms.csv"))

    assert len(stages._LOADED) == 1


def test_load_stages__leaves_errors_to_the_workers(tmp_path: Path) -> None:
    load_stages(stages_with(tmp_path / "none.csv"))

    assert stages._LOADED == {}


def test_load_stages__imports_source_and_segmenter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    load = Registry.load

    def noted(self: Registry, name: str) -> Any:
        names.append(name)
        return load(self, name)

    monkeypatch.setattr(Registry, "load", noted)
    load_stages(stages_with(tmp_path / "none.csv", source="pubtator", segment="clinical"))

    assert {"pubtator", "clinical"} <= set(names)


@pytest.mark.parametrize("threads", [None, "mine"])
def test_load_stages__loads_the_folders_of_decontaminate(
    threads: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decontaminate, "_LOADED", {})
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    if threads:
        monkeypatch.setenv("TOKENIZERS_PARALLELISM", threads)
    folder = folder_of(tmp_path / "test_set", ["kinase inhibitors work"])
    monkeypatch.chdir(tmp_path)
    source: dict[str, object] = {"use": "conll", "decontaminate": ["test_set"]}

    load_stages(made.pipeline_of(source=source).to_preload())

    ((folders, held_out),) = decontaminate._LOADED.items()
    assert folders == (str(folder),)
    assert [len(part.fingerprints.sentences) for part in held_out] == [1]
    assert os.environ.get("TOKENIZERS_PARALLELISM") == threads


def test_load_stages__leaves_damaged_folders_to_the_workers(tmp_path: Path) -> None:
    source: dict[str, object] = {"use": "conll", "decontaminate": [str(tmp_path / "nothing")]}

    load_stages(made.pipeline_of(source=source).to_preload())
