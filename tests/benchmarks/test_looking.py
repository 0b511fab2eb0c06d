"""The page's benchmark: its environment, and its server if the browser fails."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from benchmarks import looking
from benchmarks.inputs import ROOT
from tests import made
from tests.support import driver


def test_slider__stops_the_server_if_the_browser_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(profile: Path) -> AbstractContextManager[driver.Browser]:
        raise AssertionError(f"never came: {profile.name}")

    monkeypatch.setattr(driver, "CHROMIUM", "chromium")
    monkeypatch.setattr(driver, "browser", fail)
    made.built(tmp_path / "ncbi")
    running = set(threading.enumerate())

    with pytest.raises(AssertionError, match="never came: chromium"):
        looking._slider(tmp_path / "ncbi")

    assert set(threading.enumerate()) == running


def test_slider__needs_no_package_of_the_tests() -> None:
    code = "import sys; sys.modules['pytest'] = None; import tests.support.driver"

    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
