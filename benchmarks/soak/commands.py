"""Run and disturb the command in a child process, and check its end and its leftovers."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from benchmarks.inputs import ROOT

PATIENCE_S = 300.0
"""Timeout of a command in seconds. Undisturbed commands take a few."""
_GONE_S = 15.0
"""Seconds after which descendants of a killed command must have ended."""
_NEVER = re.compile(
    r"Traceback|Exception ignored|Fatal Python error|Segmentation|Bus error|resource_tracker|"
    r"should not happen|ResourceWarning|core dumped"
)
"""Signs of a crash on stderr, instead of an error message."""


class Ended(NamedTuple):
    """The end of a command.

    Attributes:
        words: Arguments of the command.
        code: Exit code, negative for a signal.
        out: Output on stdout.
        err: Output on stderr.
        hung: Whether it exceeded `PATIENCE_S` and was killed with SIGABRT.
        left: Command lines of processes and names of temporary files left behind.
    """

    words: tuple[str, ...]
    code: int
    out: str
    err: str
    hung: bool
    left: tuple[str, ...]


class Running:
    """A running command in its own session, with faulthandler to print where it hangs."""

    def __init__(self, words: Sequence[str], folder: Path) -> None:
        """Start the command.

        Args:
            words: Arguments of the command.
            folder: New folder for its output and temporary files.
        """
        self.words = tuple(words)
        self._folder = folder
        (folder / "tmp").mkdir(parents=True)
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-m", "mslm_data", *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=ROOT,
                env={**os.environ, "TMPDIR": str(folder / "tmp")},
                start_new_session=True,
            )

    def end(self) -> Ended:
        """Wait for the command and its descendants; kill the ones that stay."""
        pid = self.process.pid
        hung = False
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            hung = True
            os.killpg(pid, signal.SIGABRT)  # faulthandler prints tracebacks
            self.process.wait()

        deadline = time.monotonic() + _GONE_S
        while (left := session(pid)) and time.monotonic() < deadline:
            time.sleep(0.05)
        lines = [_command_line(process) for process in sorted(left)]
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

        out, err = ((self._folder / name).read_text("utf-8", "replace") for name in ("out", "err"))
        temporary = [path.name for path in (self._folder / "tmp").iterdir()]
        shutil.rmtree(self._folder)
        return Ended(self.words, self.process.returncode, out, err, hung, (*lines, *temporary))


def run(words: Sequence[str], folder: Path) -> Ended:
    """Run the command undisturbed. See `Running` for arguments."""
    return Running(words, folder).end()


def disturb(words: Sequence[str], folder: Path, rng: random.Random) -> tuple[str, Ended]:
    """Run the command, and send a signal to it or a descendant at a random moment.

    Returns:
        A key of `CODES`, and the end of the command.
    """
    running = Running(words, folder)
    started = running.process
    _await_handlers(started)
    # 0 to 3 s, more often early than late.
    time.sleep(rng.uniform(0, 3) ** 2 / 3)

    how = rng.choice(("kill", "kill below", "SIGTERM", "SIGTERM to all", "Ctrl-C"))
    below = sorted(pid for pid in session(started.pid) if pid != started.pid)
    if started.poll() is not None:
        how = "nothing"
    elif how == "kill below" and not below:
        how = "kill"

    with suppress(ProcessLookupError):
        if how == "kill":
            started.kill()
        elif how == "kill below":
            os.kill(rng.choice(below), signal.SIGKILL)
        elif how == "SIGTERM":
            started.terminate()
        elif how == "SIGTERM to all":
            os.killpg(started.pid, signal.SIGTERM)
        elif how == "Ctrl-C":
            os.killpg(started.pid, signal.SIGINT)
    return how, running.end()


def complaints(ended: Ended, *codes: int) -> Iterator[str]:
    """Yield complaints about the end of a command.

    Args:
        ended: The end.
        codes: Expected exit codes.
    """
    if ended.hung:
        yield f"hung for {PATIENCE_S:.0f} s"
    elif ended.code not in codes:
        last = ended.err.strip().rpartition("\n")[2]
        expected = " or ".join(map(str, codes))
        yield f"{ended.words[0]}: exit code {ended.code}, expected {expected}; {last}"

    # A hanging process prints the tracebacks of faulthandler.
    crash = None if ended.hung else _NEVER.search(ended.err)
    if crash:
        yield f"'{crash[0]}' on stderr"
    if ended.code == 1 and "error: " not in ended.err and not ended.out:
        yield "exit code 1 without a word"
    if ended.left:
        yield f"left behind: {', '.join(ended.left)}"


CODES = {
    "nothing": (0,),
    "kill": (-signal.SIGKILL, 0),
    # A build restarts lost workers, or fails with a message about them.
    "kill below": (0, 1),
    # While Python shuts down, the default handler ends it by the signal itself.
    "SIGTERM": (143, -signal.SIGTERM, 0),
    "SIGTERM to all": (143, -signal.SIGTERM, 0),
    "Ctrl-C": (130, -signal.SIGINT, 0),
}
"""Disturbance -> allowed exit codes. All allow 0, as the command may end before the signal."""


def session(leader: int) -> set[int]:
    """Return the ids of live processes of a session."""
    pids = set()
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with suppress(OSError, IndexError):
                # After the name in brackets come state, parent, group and session.
                state, _, _, session_id, *_ = (path / "stat").read_text().rpartition(")")[2].split()
                if int(session_id) == leader and state != "Z":
                    pids.add(int(path.name))
    return pids


def _await_handlers(started: subprocess.Popen[bytes]) -> None:
    """Wait until the program has a SIGTERM handler. Until then, Python is still starting."""
    bit = 1 << (signal.SIGTERM - 1)
    while started.poll() is None:
        with suppress(OSError):
            status = Path(f"/proc/{started.pid}/status").read_text()
            if int(status.partition("SigCgt:")[2].split()[0], 16) & bit:
                return
        time.sleep(0.01)


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:80]
    except OSError:
        return f"process {pid}"
