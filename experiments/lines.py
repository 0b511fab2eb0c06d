"""Results as JSON lines, one per run, committed with the code.

A run is identified by task, corpus, arm, options and seed. It may have several lines, with
different initial weights.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"

Line = Mapping[str, Any]
_encode = json.JSONEncoder(sort_keys=True).encode


@dataclass(frozen=True, kw_only=True)
class Run:
    """A declared run.

    Attributes:
        task: `ner`, `few-shot`, `adaptation` or `classification`.
        corpus: Corpus to score on; `domain` or `open text` for an adaptation.
        arm: Name of the arm.
        seed: Seed of new weights, order, masks and dropout.
        options: Everything else that determines the result, as JSON values.
    """

    task: str
    corpus: str
    arm: str
    seed: int
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The run's identity as text."""
        # Not by `asdict`: a page of tables compares a quarter of a million keys.
        return _encode({name: getattr(self, name) for name in _FIELDS})


_FIELDS = [one.name for one in fields(Run)]


def key_of(line: Line) -> str:
    """Return `Run.key` of a line's run."""
    return line.get("key") or _encode(line["run"])


def read(folder: Path = RESULTS) -> list[Line]:
    """Read all lines, file by file. A line cut off by the end of its process is skipped."""
    lines: list[Line] = []
    for path in sorted(folder.glob("*.jsonl")):
        for text in path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError):
                line = json.loads(text)
                # Plans compare lines with runs thousands of times.
                lines.append({**line, "key": key_of(line)})
    return lines


def append(run: Run, result: Mapping[str, Any], folder: Path = RESULTS) -> None:
    """Append the line of a finished run to its task's file, in one write."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{run.task}.jsonl"

    # Do not continue a line that was cut off.
    cut = path.exists() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
    text = ("\n" if cut else "") + json.dumps({"run": asdict(run), **result}, sort_keys=True) + "\n"

    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


def starts(lines: Sequence[Line]) -> dict[str, set[str]]:
    """Return the key of each run with lines -> digests of their initial weights."""
    by_key: dict[str, set[str]] = {}
    for line in lines:
        by_key.setdefault(key_of(line), set()).add(line["start"])
    return by_key
