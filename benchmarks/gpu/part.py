"""A part of the GPU benchmark: a sequence of measured runs with a time limit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.harness import AbsentError
from benchmarks.inputs import ROOT

Numbers = Mapping[str, Any]
"""Column -> number or text, a row of the part's table."""

NO_TIME = "no time left"


@dataclass(frozen=True, kw_only=True)
class Part:
    """Runs and goals of a part.

    Attributes:
        title: Title of its section.
        about: Lines describing its inputs.
        runs: Name -> function that measures a row of the table.
        goals: Goal as text -> function of the measured rows. It returns the reached value as text
            and whether the goal is met, and raises KeyError if a row is missing.
    """

    title: str
    about: list[str]
    runs: Mapping[str, Callable[[], Numbers]]
    goals: Mapping[str, Callable[[Mapping[str, Numbers]], tuple[str, bool]]] = field(
        default_factory=dict
    )


def measure(part: Part, seconds: float, out: Path) -> None:
    """Measure the runs of a part, and write the results after each.

    If a run fails, the class of its error is recorded and the next one starts. The message, which
    may contain local paths, is printed to stderr only. A run is skipped if its package is not
    installed, or if the time left is shorter than the longest run so far.

    Args:
        part: The part.
        seconds: Time limit.
        out: JSON file to write.
    """
    end = time.monotonic() + seconds
    longest = 0.0
    rows: list[dict[str, Any]] = []
    for name, run in part.runs.items():
        begun = time.monotonic()
        row: dict[str, Any] = {"name": name}
        if begun + longest > end:
            row["left out"] = NO_TIME
        else:
            try:
                row["numbers"] = dict(run())
            except AbsentError as absent:
                row["left out"] = str(absent)
            except Exception as error:  # noqa: BLE001 - other runs must go on
                traceback.print_exc()
                row["error"] = type(error).__name__
            longest = max(longest, time.monotonic() - begun)
        rows.append(row)
        record = {
            "title": part.title,
            "about": part.about,
            "rows": rows,
            "goals": _goals(part, rows),
        }
        out.write_text(json.dumps(record, indent=1), encoding="utf-8")


def _goals(part: Part, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Evaluate each goal on the measured rows."""
    measured = {row["name"]: row["numbers"] for row in rows if "numbers" in row}
    record = []
    for goal, judge in part.goals.items():
        try:
            reached, met = judge(measured)
        except KeyError:
            reached, met = "not measured", False
        record.append({"goal": goal, "reached": reached, "met": met})
    return record


def run_within(
    command: Sequence[str], seconds: float, *, within_group: bool = False
) -> tuple[int | None, str]:
    """Run a program in the checkout with a time limit.

    Args:
        command: The program and its arguments.
        seconds: Time limit. After it, the program is killed.
        within_group: Whether the program stays in this process group, so that killing the group
            ends it too. Default: False, it leads its own group, which is killed as a whole.

    Returns:
        Exit code, None if the program was killed, and its output.
    """
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=not within_group,
    ) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            if within_group:
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            code = None
    return code, output.decode("utf-8", "replace")
