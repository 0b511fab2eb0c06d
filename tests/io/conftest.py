from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest


@pytest.fixture
def disk_steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The syncs, of a "file" or a "folder", and the calls of `Path.replace`, in order."""
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def note_fsync(handle: int) -> None:
        steps.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    def note_replace(self: Path, target: Path) -> Path:
        steps.append("replace")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(Path, "replace", note_replace)
    return steps
