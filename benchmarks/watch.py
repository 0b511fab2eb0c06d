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
"""Seconds between two looks at the processes."""
_AT_WORK = 0.25
"""Minimum share of the time between two looks that a process at work computes. One that waits for
its turn on a core is at work as well."""
_TAKE_ORPHANS = 36
"""PR_SET_CHILD_SUBREAPER of Linux's prctl(2)."""
_NO_MODULES_KEPT = "PYTHONDONTWRITEBYTECODE"
"""By this variable Python keeps no compiled modules, and compiles them in every process. Users of a
package have them from its installation, so commands run without it."""
_COUNTED = ("Pss_Anon:", "Pss_Shmem:")
"""What `/proc/PID/smaps_rollup` says of memory that is not of files. A page that some processes
share counts once in their sum."""


class Figure(NamedTuple):
    """What a command took.

    Attributes:
        seconds: Wall time until the command itself ended.
        cpu: Seconds of all cores, for the command and all processes below it.
        mib: Peak of their memory together, without pages of files; 0 where `/proc` does not say.
        alone: Seconds in which fewer than two of these processes were at work; all seconds where
            `/proc` does not say.
        disk: Those of `alone` in which one of the processes waited for the disk.
        printed: What it wrote to stdout.
    """

    seconds: float
    cpu: float
    mib: float
    alone: float
    disk: float
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
        inherited = {name: value for name, value in os.environ.items() if name != _NO_MODULES_KEPT}
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.watch", str(figure), sys.executable, *command],
            check=False,
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**inherited, **(env or {})},
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
        looks = _Looks(start)
        looking = threading.Thread(target=looks.go_on, args=(over,))
        looking.start()

        code = process.wait()
        seconds = time.perf_counter() - start
        over.set()
        looking.join()

    _await_orphans()
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = {
        "seconds": seconds,
        "cpu": spent.ru_utime + spent.ru_stime,
        "mib": looks.kib / 1024,
        "alone": seconds - looks.together,
        "disk": looks.disk,
    }
    Path(figure).write_text(json.dumps(took))
    return code


class _Seen(NamedTuple):
    """A process at one look.

    Attributes:
        cpu: Seconds that it has computed.
        runs: Whether it computes or could.
        waits: Whether it waits for the disk.
    """

    cpu: float
    runs: bool
    waits: bool


_UNSEEN = _Seen(cpu=0, runs=False, waits=False)


class _Looks:
    """What repeated looks at the processes below this one have found.

    Attributes:
        kib: The largest memory that they had together.
        together: Seconds in which two or more of them were at work.
        disk: Seconds in which fewer were, and one of them waited for the disk.
    """

    def __init__(self, start: float) -> None:
        """Begin at a time of `time.perf_counter`."""
        self.kib = 0
        self.together = 0.0
        self.disk = 0.0
        self._last = start
        self._seen: dict[int, _Seen] = {}

    def go_on(self, over: threading.Event) -> None:
        """Look at the processes again and again."""
        while not over.wait(_LOOK_S):
            self._look()

    def _look(self) -> None:
        pids = list(_below(os.getpid()))
        self.kib = max(self.kib, sum(map(memory, pids)))

        now = time.perf_counter()
        passed = now - self._last
        seen = {pid: _see(pid) for pid in pids}

        at_work = 0
        for pid, process in seen.items():
            # A process that was not there at the last look has computed since then only.
            before = self._seen.get(pid, _UNSEEN)
            if process.runs or process.cpu - before.cpu >= _AT_WORK * passed:
                at_work += 1
        if at_work >= 2:
            self.together += passed
        elif any(process.waits for process in seen.values()):
            self.disk += passed

        self._last = now
        self._seen = seen


def _await_orphans() -> None:
    """Wait for the processes that the command left behind."""
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def _below(pid: int) -> Iterator[int]:
    """Yield the processes below a process."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [child for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return
    for child in children:
        yield int(child)
        yield from _below(int(child))


def memory(pid: int) -> int:
    """Return the KiB of a process; 0 where it has ended or `/proc` does not say."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(_COUNTED))


def _see(pid: int) -> _Seen:
    """Look at a process, which may have ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return _UNSEEN

    # The name of the program stands in brackets and may hold anything. Field 3, the state, is the
    # first after it; 14 and 15 are the ticks that it has spent, by itself and in the kernel for it.
    fields = stat.rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return _Seen(
        cpu=ticks / os.sysconf("SC_CLK_TCK"), runs=fields[0] == "R", waits=fields[0] == "D"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
