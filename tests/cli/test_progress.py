from __future__ import annotations

import io
import re
import sys
from types import SimpleNamespace

import pytest

from mslm_data.builds import Progress
from mslm_data.cli import progress
from mslm_data.cli.progress import counting, downloading, showing


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def test_progress__shows_names_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """rich would interpret brackets as markup, and raise an error for unbalanced ones."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)

    with counting("notes[/red]", "rows") as count:
        count(1, 2)
    with downloading() as tell:
        tell("train[/b].tsv", 1, 2)

    assert "notes[/red]" in terminal.getvalue()
    assert "train[/b].tsv" in terminal.getvalue()


def test_showing__does_not_count_bytes_of_an_interrupted_build(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter(range(100))
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(times)))
    monkeypatch.setattr(progress, "_EVERY_S", 0)

    with showing("notes") as show:
        show(of_build(0, total=0))
        show(of_build(90_000_000))
        show(of_build(90_000_001))

    rates = re.findall(r"([\d.]+) MB/s", capsys.readouterr().err)
    assert rates == ["0.0", "0.0"]


def test_showing__shows_few_bytes_in_kilobytes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_EVERY_S", 0)

    with showing("sample") as show:
        show(of_build(0, total=0))
        show(of_build(0, total=40_000))
        show(of_build(12_000, total=40_000))

    assert re.search(
        r"sample: 12 of 40 kB, [\d,]+ kB/s, [\d,]+ s left; 0 documents, 0/2 work units\n",
        capsys.readouterr().err,
    )


def test_counting__shows_rate_and_time_left_of_this_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([0, 0, 0, 10, 10])  # made, first amount twice, second amount twice
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(times)))
    monkeypatch.setattr(progress, "_EVERY_S", 0)

    with counting("scores", "tokens") as count:
        count(5_000, 9_000)
        count(6_000, 9_000)

    assert capsys.readouterr().err.splitlines() == [
        "scores: 5,000 of 9,000 tokens, 0 tokens/s",
        "scores: 6,000 of 9,000 tokens, 100 tokens/s, 30 s left",
    ]


def of_build(done: int, total: int = 100_000_000) -> Progress:
    """Return the progress of a build; the total is 0 while files are scanned."""
    units = 2 if total else 0
    return Progress(done=0, total=units, bytes_done=done, bytes_total=total, documents=0, rows=0)
