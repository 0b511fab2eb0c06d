from __future__ import annotations

import gc
import importlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mslm_data.builds import preloaded, stages
from mslm_data.engine import PRELOAD


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


Loaded = Callable[[str | None], int]


def test_preloaded__loads_nothing_unasked(loaded: Loaded) -> None:
    assert loaded(None) == 0


def test_preloaded__has_the_annotator_that_the_build_told_it(
    loaded: Loaded, tmp_path: Path
) -> None:
    (tmp_path / "terms.csv").write_text("name,label\nasthma,Disease\n")
    told = json.dumps({"use": "terms", "options": {"table": str(tmp_path / "terms.csv")}})

    assert loaded(told) == 1


def test_preloaded__leaves_errors_to_the_workers(loaded: Loaded, tmp_path: Path) -> None:
    told = json.dumps({"use": "terms", "options": {"table": str(tmp_path / "none.csv")}})

    assert loaded(told) == 0


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
