"""GPU tests, each file in its own process."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from benchmarks.gpu.part import Numbers, Part, run_within
from benchmarks.gpu.scale import Scale
from benchmarks.inputs import ROOT

_SHOWN = 5
"""Maximum number of failed tests named in the table."""
_OUTCOMES = "PASSED|FAILED|ERROR|SKIPPED"
_LINES = (
    re.compile(rf"(?P<test>tests/.+?) (?P<outcome>{_OUTCOMES})\b"),
    re.compile(rf"(?:\[gw\d+\] \[ *\d+%\] )?(?P<outcome>{_OUTCOMES}) (?P<test>tests/.+?)( - .*)?$"),
)
"""Lines of `pytest -v` without and with pytest-xdist. Its summary lines match the second too."""


def part(scale: Scale, folder: Path) -> Part:  # noqa: ARG001 - tests use no folder
    """Return the part that runs and counts the tests."""
    return Part(
        title="Tests",
        about=["of the folder `tests/gpu`, which run on a card where torch sees one"],
        runs={Path(file).stem: partial(run_tests, file, scale) for file in scale.tests},
        goals={"no test fails": _none_failed},
    )


def _none_failed(rows: Mapping[str, Numbers]) -> tuple[str, bool]:
    failed = sum(row["failed"] for row in rows.values())
    passed = sum(row["passed"] for row in rows.values())
    return f"{failed} failed, {passed:,} passed", failed == 0 < passed


def run_tests(file: str, scale: Scale) -> Numbers:
    """Run a test file, and count passed, failed and skipped tests.

    If pytest-xdist is installed, tests run in `scale.test_processes` processes.
    """
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--tb=short"]
    command += ["-c", "/dev/null", "--rootdir", str(ROOT), file]
    if find_spec("xdist") and scale.test_processes > 1:
        command += ["-n", str(scale.test_processes)]

    begun = time.perf_counter()
    code, output = run_within(command, scale.test_seconds, within_group=True)
    print(output, file=sys.stderr, flush=True)
    return counted(output, code) | {"seconds": time.perf_counter() - begun}


def counted(output: str, code: int | None) -> dict[str, int | str]:
    """Count tests by outcome.

    Args:
        output: Output of `pytest -v`, possibly truncated.
        code: Exit code, None if the run was killed. A killed run, and one with a non-zero exit
            code but no failed test, counts as a failure.
    """
    outcomes: dict[str, str] = {}
    for line in output.splitlines():
        for form in _LINES:
            match = form.match(line.rstrip())
            if match:
                outcomes[match["test"]] = match["outcome"]

    counts = Counter(outcomes.values())
    bad = [
        test.partition("::")[2] or test
        for test, outcome in outcomes.items()
        if outcome in ("FAILED", "ERROR")
    ]
    if code is None:
        bad.append("stopped before its end")
    elif code and not bad:
        bad.append(f"exit code {code}")
    return {
        "passed": counts["PASSED"],
        "failed": len(bad),
        "skipped": counts["SKIPPED"],
        "failing": ", ".join(bad[:_SHOWN]) + (" …" if len(bad) > _SHOWN else ""),
    }
