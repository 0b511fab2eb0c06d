from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mslm_data.engine import PRELOAD

SCRIPT = """
import mslm_data.builds.preloaded
from mslm_data.builds import stages
print(len(stages._LOADED))
"""


def started(told: str | None) -> int:
    """Import what workers are forked from, and return how many annotators it has in memory."""
    environment = {name: value for name, value in os.environ.items() if name != PRELOAD}
    if told is not None:
        environment[PRELOAD] = told
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def test_preloaded__loads_nothing_unasked() -> None:
    assert started(None) == 0


def test_preloaded__has_the_annotator_that_the_build_told_it(tmp_path: Path) -> None:
    (tmp_path / "terms.csv").write_text("name,label\nasthma,Disease\n")
    told = json.dumps({"use": "terms", "options": {"table": str(tmp_path / "terms.csv")}})

    assert started(told) == 1


def test_preloaded__leaves_errors_to_the_workers(tmp_path: Path) -> None:
    told = json.dumps({"use": "terms", "options": {"table": str(tmp_path / "none.csv")}})

    assert started(told) == 0


@pytest.mark.parametrize("before", [None, "mine"])
def test_engine__leaves_the_environment_as_it_was(
    monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    from mslm_data.engine import Preload, local

    monkeypatch.delenv(PRELOAD, raising=False)
    if before is not None:
        monkeypatch.setenv(PRELOAD, before)

    local._context(Preload("mslm_data.builds.preloaded", "{}"))

    assert os.environ.get(PRELOAD) == before
