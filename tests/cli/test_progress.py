from __future__ import annotations

import io
import sys

import pytest

from mslm_data.cli.progress import counting, downloading


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_progress__shows_names_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brackets would be rich's marks, and those that close nothing an error."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)

    with counting("notes[/red]", "rows") as count:
        count(1, 2)
    with downloading() as tell:
        tell("train[/b].tsv", 1, 2)

    assert "notes[/red]" in terminal.getvalue()
    assert "train[/b].tsv" in terminal.getvalue()
