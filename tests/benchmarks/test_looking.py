"""The page's benchmark: its server ends, whatever the browser does."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from benchmarks import looking
from tests import made
from tests.support import browser, driver


def test_slider__stops_the_server_if_the_browser_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(profile: Path) -> AbstractContextManager[driver.Browser]:
        raise AssertionError(f"never came: {profile.name}")

    monkeypatch.setattr(browser, "CHROMIUM", "chromium")
    monkeypatch.setattr(driver, "browser", fail)
    made.built(tmp_path / "ncbi")
    running = set(threading.enumerate())

    with pytest.raises(AssertionError, match="never came: chromium"):
        looking._slider(tmp_path / "ncbi")

    assert set(threading.enumerate()) == running
