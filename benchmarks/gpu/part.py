"""A part of the benchmark: runs that are measured one after the other, within a bound of time."""

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
"""Column of the part's table -> number or text."""

NO_TIME = "no time left"


@dataclass(frozen=True, kw_only=True)
class Part:
    """Describe one part: its runs and its goals.

    Attributes:
        title: Of its section.
        about: Lines about its inputs.
        runs: Name -> function that measures one row of the table.
        goals: Goals in words -> function of the rows' numbers that returns what was reached, and
            whether that is enough. Rows that failed are not among them; a goal whose rows are
            missing raises KeyError.
    """

    title: str
    about: list[str]
    runs: Mapping[str, Callable[[], Numbers]]
    goals: Mapping[str, Callable[[Mapping[str, Numbers]], tuple[str, bool]]] = field(
        default_factory=dict
    )


def measure(part: Part, seconds: float, out: Path) -> None:
    """Take the runs of a part, and write what is known after each to a file.

    A run that fails leaves the class of its error in its place, and the others go on. The message
    goes to stderr alone, as it may hold paths of the machine. A run whose package is not installed
    is left out, and one that would not fit into the time left, if it took as long as the longest so
    far.

    Args:
        part: What is measured.
        seconds: The bound.
        out: The file, JSON.
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
            except Exception as error:  # noqa: BLE001 - anything may fail on a machine of others
                traceback.print_exc()
                row["error"] = type(error).__name__
            longest = max(longest, time.monotonic() - begun)
        rows.append(row)
        found = {
            "title": part.title,
            "about": part.about,
            "rows": rows,
            "goals": _goals(part, rows),
        }
        out.write_text(json.dumps(found, indent=1), encoding="utf-8")


def _goals(part: Part, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what was reached of each goal, as far as its rows were measured."""
    measured = {row["name"]: row["numbers"] for row in rows if "numbers" in row}
    found = []
    for goal, judge in part.goals.items():
        try:
            reached, met = judge(measured)
        except KeyError:
            reached, met = "not measured", False
        found.append({"goal": goal, "reached": reached, "met": met})
    return found


def run_within(
    command: Sequence[str], seconds: float, *, within_group: bool = False
) -> tuple[int | None, str]:
    """Run a program in the checkout, and end it after some seconds.

    Args:
        command: The program with its arguments.
        seconds: The bound.
        within_group: Whether it stays in this process's group, so that it ends with that. Else all
            that it started is ended with it.

    Returns:
        Its exit code, None where it was ended; and what it printed.
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
