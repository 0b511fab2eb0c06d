"""Peers in another environment: requests, answers, and missing environments."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import elsewhere
from benchmarks.harness import AbsentError

_ECHO = "import sys\nfor line in sys.stdin:\n    print(line.strip().upper(), flush=True)\n"


def _instead(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(elsewhere, "PYTHON", Path(sys.executable))
    monkeypatch.setattr(elsewhere, "command", lambda *_: [sys.executable, "-c", code])


def test_write__reports_a_missing_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(elsewhere, "PYTHON", tmp_path / ".venv-peers" / "bin" / "python")

    with pytest.raises(
        AbsentError,
        match=r"^\.venv-peers is not there; `make \.venv-peers/ready` makes it$",
    ):
        elsewhere.write("litdata", tmp_path)


def test_write__reports_why_a_peer_does_not_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _instead(monkeypatch, "raise SystemExit('no such package')")

    with pytest.raises(AbsentError, match="no such package"):
        elsewhere.write("litdata", tmp_path)


def test_reading__answers_line_by_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _instead(monkeypatch, _ECHO)

    with elsewhere.reading("litdata", tmp_path) as peer:
        assert [peer.ask("take 1"), peer.ask("digest")] == ["TAKE 1", "DIGEST"]


def test_ask__reports_the_last_line_of_a_stopped_peer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _instead(monkeypatch, "input()\nraise SystemExit('out of rows')")

    with (
        pytest.raises(RuntimeError, match="expected an answer of the peer, it ended:\nout of rows"),
        elsewhere.reading("litdata", tmp_path) as peer,
    ):
        peer.ask("digest")
