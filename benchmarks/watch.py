"""Run a command, and say what it took with all processes below it.

`python -m benchmarks.watch FIGURE.json COMMAND …` is a small process of its own between us and the
command: the system hands it the processes that the command leaves behind, so that their CPU time is
counted too. Such are workers whose parent was forked from the command and does not outlive it.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.inputs import ROOT

_LOOK_S = 0.05
"""Seconds between two readings of memory."""
_TAKE_ORPHANS = 36
"""PR_SET_CHILD_SUBREAPER of Linux's prctl(2)."""
_COUNTED = ("Pss_Anon:", "Pss_Shmem:")
"""What `/proc/PID/smaps_rollup` says of memory that is not of files. A page that some processes
share counts once in their sum."""


class Figure(NamedTuple):
    """What a command took.

    Attributes:
        seconds: Wall time until the command itself ended.
        cpu: Seconds of all cores, for the command and all processes below it.
        mib: Peak of their memory together, without pages of files; 0 where `/proc` does not say.
        printed: What it wrote to stdout.
    """

    seconds: float
    cpu: float
    mib: float
    printed: str


def watched(command: Sequence[str], *, env: Mapping[str, str] | None = None) -> Figure:
    """Run a command of this Python and return what it took.

    Args:
        command: What follows the name of the interpreter: `-m`, a module, and its words.
        env: Environment variables besides ours.

    Raises:
        RuntimeError: The command fails.
    """
    with tempfile.TemporaryDirectory(prefix="mslm-watch-") as folder:
        figure = Path(folder) / "figure.json"
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.watch", str(figure), sys.executable, *command],
            check=False,
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, **(env or {})},
        )
        if done.returncode:
            last = "\n".join(done.stderr.splitlines()[-5:])
            raise RuntimeError(
                f"{' '.join(command[:3])}: expected it to succeed, got exit code "
                f"{done.returncode}:\n{last}"
            )
        return Figure(**json.loads(figure.read_text()), printed=done.stdout)


def main(arguments: Sequence[str]) -> int:
    """Run a command and write what it took, except for what it printed."""
    figure, *command = arguments
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_TAKE_ORPHANS, 1, 0, 0, 0)

    start = time.perf_counter()
    with subprocess.Popen(command) as process:
        over = threading.Event()
        peak = _Peak(process.pid)
        looking = threading.Thread(target=peak.look_until, args=(over,))
        looking.start()

        code = process.wait()
        seconds = time.perf_counter() - start
        over.set()
        looking.join()

    _await_orphans()
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = {"seconds": seconds, "cpu": spent.ru_utime + spent.ru_stime, "mib": peak.kib / 1024}
    Path(figure).write_text(json.dumps(took))
    return code


class _Peak:
    """The largest memory that a process and those below it were seen to have together."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.kib = 0

    def look_until(self, over: threading.Event) -> None:
        while not over.wait(_LOOK_S):
            self.kib = max(self.kib, sum(map(_memory, _all(self._pid))))


def _await_orphans() -> None:
    """Wait for the processes that the command left behind."""
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def _all(pid: int) -> Iterator[int]:
    """Yield a process and those below it."""
    yield pid
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [child for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return
    for child in children:
        yield from _all(int(child))


def _memory(pid: int) -> int:
    """Return the KiB of a process; 0 where it has ended or `/proc` does not say."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(_COUNTED))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
