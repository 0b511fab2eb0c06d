"""Kills of builds: one build of a folder at a time."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import faults
from benchmarks.faults import Case

NO_PROCESS = 2**30
"""A process id above any system's maximum."""


class Lowest(random.Random):
    """Draws the lowest numbers: one kill, at once, of the first process below the build."""

    def random(self) -> float:
        return 0.0


class Build:
    """A build that runs until somebody waits for it."""

    pid = NO_PROCESS

    def __init__(self, events: list[str]) -> None:
        self._events = events
        events.append("start")

    def poll(self) -> None:
        return None

    def wait(self) -> int:
        self._events.append("wait")
        return 0


def test_disturb__waits_for_a_build_whose_worker_had_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    monkeypatch.setattr(faults, "_start_build", lambda *_: Build(events))
    monkeypatch.setattr(faults, "descendants", lambda _: iter([NO_PROCESS]))
    count = Counter[str]()

    faults._disturb(Case("notes", "local 1", ()), tmp_path, Lowest(), 0.0, count, 0)

    assert events == ["start", "wait"] * 2
    assert count == {}
