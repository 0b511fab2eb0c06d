"""Lines of results: one JSON object a run, kept with the code as data.

A run's identity is its task, corpus, arm, options and seed. It may have several lines, which began
with different weights.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"

Line = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run that is declared.

    Attributes:
        task: `ner`, `adaptation` or `classification`.
        corpus: What it is scored on; `domain` for an adaptation.
        arm: Name of what is compared.
        seed: Of new weights, order, masks and dropout.
        options: All that the run's result depends on besides, ready for JSON.
    """

    task: str
    corpus: str
    arm: str
    seed: int
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The identity as text."""
        return json.dumps(asdict(self), sort_keys=True)


def key_of(line: Line) -> str:
    """Return the identity of a line's run, as `Run.key` has it."""
    return line.get("key") or json.dumps(line["run"], sort_keys=True)


def read(folder: Path = RESULTS) -> list[Line]:
    """Return all lines, in the order of files and lines.

    A line that was cut off, as its process ended, is left out.
    """
    lines: list[Line] = []
    for path in sorted(folder.glob("*.jsonl")):
        for text in path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError):
                line = json.loads(text)
                # Plans compare lines with runs thousands of times.
                lines.append({**line, "key": key_of(line)})
    return lines


def append(run: Run, result: Mapping[str, Any], folder: Path = RESULTS) -> None:
    """Add the line of a finished run to its task's file, in one write."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{run.task}.jsonl"

    # A line that was cut off has no end: it must not swallow this one.
    cut = path.exists() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
    text = ("\n" if cut else "") + json.dumps({"run": asdict(run), **result}, sort_keys=True) + "\n"

    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


def starts(lines: Sequence[Line]) -> dict[str, set[str]]:
    """Return the identity of each run that has lines -> the weights that these began with."""
    found: dict[str, set[str]] = {}
    for line in lines:
        found.setdefault(key_of(line), set()).add(line["start"])
    return found
