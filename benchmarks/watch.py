"""Run a command, and measure time and memory of it and its descendants.

`python -m benchmarks.watch FIGURE.json COMMAND …` runs between the benchmark and the command, as a
subreaper: orphaned descendants of the command, such as workers whose parent has ended, are
reparented to it, so their CPU time is counted.
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

_INTERVAL_S = 0.05
"""Sampling interval in seconds."""
_MIN_BUSY = 0.25
"""Minimum share of an interval spent computing for a process to count as busy. A runnable process
that waits for a core is busy too."""
_TAKE_ORPHANS = 36
"""PR_SET_CHILD_SUBREAPER of Linux's prctl(2)."""
_NO_MODULES_KEPT = "PYTHONDONTWRITEBYTECODE"
"""Environment variable that disables bytecode caching. It is removed for commands, as installed
packages have cached bytecode."""
_COUNTED = ("Pss_Anon:", "Pss_Shmem:")
"""Lines of `/proc/PID/smaps_rollup` with memory not backed by files. A page shared by n processes
counts as 1/n of a page in each."""


class Figure(NamedTuple):
    """Time and memory of a command.

    Attributes:
        seconds: Wall time of the command.
        cpu: CPU seconds of the command and its descendants.
        mib: Peak of their total memory in MiB, without file-backed pages; 0 without `/proc`.
        alone: Seconds with fewer than two busy processes; equals `seconds` without `/proc`.
        disk: Seconds of `alone` in which a process waited for the disk.
        printed: Output on stdout.
    """

    seconds: float
    cpu: float
    mib: float
    alone: float
    disk: float
    printed: str


def watched(command: Sequence[str], *, env: Mapping[str, str] | None = None) -> Figure:
    """Run a Python command and measure it.

    Args:
        command: Arguments of the Python interpreter, such as `["-m", "mslm_data", "build", …]`.
        env: Additional environment variables. Default: none.

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
    """Run a command, and write its figures (all but `printed`) to a JSON file."""
    figure, *command = arguments
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_TAKE_ORPHANS, 1, 0, 0, 0)

    start = time.perf_counter()
    with subprocess.Popen(command) as process:
        stopped = threading.Event()
        sampler = _Sampler(start)
        thread = threading.Thread(target=sampler.run, args=(stopped,))
        thread.start()

        code = process.wait()
        seconds = time.perf_counter() - start
        stopped.set()
        thread.join()

    # RUSAGE_CHILDREN covers only children that have been waited for.
    _await_orphans()
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    measured = {
        "seconds": seconds,
        "cpu": spent.ru_utime + spent.ru_stime,
        "mib": sampler.kib / 1024,
        "alone": seconds - sampler.parallel,
        "disk": sampler.disk,
    }
    Path(figure).write_text(json.dumps(measured))
    return code


class _Observed(NamedTuple):
    """State of a process in a sample.

    Attributes:
        cpu: CPU seconds since its start.
        runs: Whether it is running or runnable.
        waits: Whether it waits for the disk.
    """

    cpu: float
    runs: bool
    waits: bool


_UNOBSERVED = _Observed(cpu=0, runs=False, waits=False)


class _Sampler:
    """Sample the descendants of this process.

    Attributes:
        kib: Peak of their total memory in KiB.
        parallel: Seconds with two or more busy processes.
        disk: Seconds with fewer than two, in which a process waited for the disk.
    """

    def __init__(self, start: float) -> None:
        """Begin at `start`, a value of `time.perf_counter`."""
        self.kib = 0
        self.parallel = 0.0
        self.disk = 0.0
        self._last = start
        self._observed: dict[int, _Observed] = {}

    def run(self, stopped: threading.Event) -> None:
        """Take samples until `stopped` is set."""
        while not stopped.wait(_INTERVAL_S):
            self._sample()

    def _sample(self) -> None:
        pids = list(descendants(os.getpid()))
        self.kib = max(self.kib, sum(map(memory, pids)))

        now = time.perf_counter()
        passed = now - self._last
        observed = {pid: _observe(pid) for pid in pids}

        # Count busy processes, and add the interval to one of the two sums.
        at_work = 0
        for pid, process in observed.items():
            # All CPU time of a process new since the last sample falls into this interval.
            before = self._observed.get(pid, _UNOBSERVED)
            if process.runs or process.cpu - before.cpu >= _MIN_BUSY * passed:
                at_work += 1
        if at_work >= 2:
            self.parallel += passed
        elif any(process.waits for process in observed.values()):
            self.disk += passed

        self._last = now
        self._observed = observed


def _await_orphans() -> None:
    """Wait for orphaned descendants of the command."""
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def descendants(pid: int) -> Iterator[int]:
    """Yield the ids of all descendants of a process."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [child for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return
    for child in children:
        yield int(child)
        yield from descendants(int(child))


def memory(pid: int) -> int:
    """Return the memory of a process in KiB, without file-backed pages.

    Returns 0 if the process has ended, or without `/proc`.
    """
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(_COUNTED))


def _observe(pid: int) -> _Observed:
    """Return the state of a process; that of an idle one if it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return _UNOBSERVED

    # Field 2 is the program name in brackets, which may contain spaces and brackets. After it come
    # field 3, the state, and fields 14 and 15, the clock ticks in user and in kernel mode.
    fields = stat.rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return _Observed(
        cpu=ticks / os.sysconf("SC_CLK_TCK"), runs=fields[0] == "R", waits=fields[0] == "D"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
