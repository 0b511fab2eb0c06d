from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mslm_data.builds import leave_out, preloaded, stages
from mslm_data.engine import PRELOAD
from mslm_data.registry import Registry
from tests import made
from tests.stats.test_overlap import folder_of


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str | None], int]]:
    """Import the module that workers are forked from, and return how many annotators it loaded."""
    monkeypatch.setattr(stages, "_LOADED", {})

    def load(told: str | None) -> int:
        monkeypatch.delenv(PRELOAD, raising=False)
        if told is not None:
            monkeypatch.setenv(PRELOAD, told)
        importlib.reload(preloaded)
        return len(stages._LOADED)

    yield load
    gc.unfreeze()


def stages_with(table: Path, *, source: str = "conll", segment: str = "presplit") -> str:
    """Return the stages of a pipeline that annotates by a table of terms."""
    pipeline = made.pipeline_of(
        source={"use": source},
        annotate={"use": "terms", "table": str(table)},
        segment=segment,
    )
    return pipeline.to_preload()


Loaded = Callable[[str | None], int]


def test_preloaded__loads_nothing_unasked(loaded: Loaded) -> None:
    assert loaded(None) == 0


def test_preloaded__has_the_annotator_that_the_build_told_it(
    loaded: Loaded, tmp_path: Path
) -> None:
    (tmp_path / "terms.csv").write_text("name,label\nasthma,Disease\n")

    assert loaded(stages_with(tmp_path / "terms.csv")) == 1


def test_preloaded__leaves_errors_to_the_workers(loaded: Loaded, tmp_path: Path) -> None:
    assert loaded(stages_with(tmp_path / "none.csv")) == 0


def test_preloaded__imports_source_and_segmenter(
    loaded: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    load = Registry.load

    def noted(self: Registry, name: str) -> Any:
        names.append(name)
        return load(self, name)

    monkeypatch.setattr(Registry, "load", noted)
    loaded(stages_with(tmp_path / "none.csv", source="pubtator", segment="clinical"))

    assert {"pubtator", "clinical"} <= set(names)


def test_preloaded__has_the_folders_that_are_left_out(
    loaded: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leave_out, "_LOADED", {})
    folder = folder_of(tmp_path / "test_set", ["kinase inhibitors work"])
    monkeypatch.chdir(tmp_path)
    source = {"use": "conll", "leave_out": ["test_set"]}

    loaded(made.pipeline_of(source=source).to_preload())

    ((folders, of_tokenizers),) = leave_out._LOADED.items()
    assert folders == (str(folder),)
    assert [len(one.fingerprints.sentences) for one in of_tokenizers] == [1]


def test_preloaded__leaves_damaged_folders_to_the_workers(loaded: Loaded, tmp_path: Path) -> None:
    source = {"use": "conll", "leave_out": [str(tmp_path / "nothing")]}

    loaded(made.pipeline_of(source=source).to_preload())


@pytest.mark.parametrize("before", [None, "mine"])
def test_engine__leaves_the_environment_as_it_was(
    monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    from mslm_data.engine import Preload, launch

    monkeypatch.delenv(PRELOAD, raising=False)
    if before is not None:
        monkeypatch.setenv(PRELOAD, before)

    launch.ForkServer(Preload("mslm_data.builds.preloaded", "{}")).end()

    assert os.environ.get(PRELOAD) == before
