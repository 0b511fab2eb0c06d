"""Run peers with conflicting dependencies in a separate environment.

A peer process (`benchmarks.streamers`) reads a task per line on stdin, and answers with a line on
stdout.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.harness import AbsentError
from benchmarks.inputs import ROOT

PYTHON = ROOT / ".venv-peers" / "bin" / "python"
"""Python of the peers' environment, which `make bench` makes from `tools/constraints-peers.txt`."""


class Peer:
    """A peer process that waits for tasks.

    Between tasks, the process and its workers are stopped by SIGSTOP. Otherwise, workers would
    prefetch batches while another contestant is timed.
    """

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        """Wrap a running process.

        Args:
            process: Leader of a process group, with pipes for stdin and stdout.
            log: File of its stderr, quoted in errors.
        """
        self._process = process
        self._log = log

    def ask(self, line: str) -> str:
        """Send a task and return the answer.

        Raises:
            RuntimeError: The process ended without an answer.
        """
        assert self._process.stdin is not None  # noqa: S101
        assert self._process.stdout is not None  # noqa: S101

        os.killpg(self._process.pid, signal.SIGCONT)
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(
                f"{line}: expected an answer of the peer, it ended:\n{_tail(self._log)}"
            )

        os.killpg(self._process.pid, signal.SIGSTOP)
        return answer.strip()


def write(name: str, scratch: Path) -> None:
    """Write `values.npy` and `offsets.npy` in `scratch` as shards of a peer.

    Raises:
        AbsentError: The peers' environment is missing, or the peer fails in it.
    """
    if not PYTHON.exists():
        raise AbsentError(
            f"{PYTHON.parent.parent.name} is not there; `make .venv-peers/ready` makes it"
        )
    log = scratch / f"{name}.log"
    with log.open("w") as file:
        done = subprocess.run(
            command("write", name, str(scratch)),
            cwd=ROOT,
            env=_env(scratch, name),
            stderr=file,
            check=False,
        )
    if done.returncode:
        raise AbsentError(_tail(log))


@contextmanager
def reading(name: str, scratch: Path, *, collates: str = "pad", workers: int = 0) -> Iterator[Peer]:
    """Start a peer that reads its shards; end it on exit.

    Args:
        name: Name of the peer's package.
        scratch: Folder passed to `write`.
        collates: "pad" (default), or "mlm" for the MLM collator of transformers.
        workers: Number of workers of its loader. Default: 0.
    """
    log = scratch / f"{name}.log"
    with log.open("w") as file:
        process = subprocess.Popen(
            command("read", name, str(scratch), collates, str(workers)),
            cwd=ROOT,
            env=_env(scratch, name),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            start_new_session=True,
        )
    try:
        yield Peer(process, log)
        os.killpg(process.pid, signal.SIGCONT)
        process.communicate(timeout=60)  # closes stdin, so the peer exits
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def command(*arguments: str) -> list[str]:
    """Return the command line of `benchmarks.streamers` in the peers' environment."""
    return [str(PYTHON), "-m", "benchmarks.streamers", *arguments]


def _env(scratch: Path, name: str) -> dict[str, str]:
    """Return environment variables with separate temporary folders, as litdata empties them."""
    own = scratch / f"{name}.own"
    own.mkdir(exist_ok=True)
    folders = ("TMPDIR", "DATA_OPTIMIZER_CACHE_FOLDER", "DATA_OPTIMIZER_DATA_CACHE_FOLDER")
    return {**os.environ, **dict.fromkeys(folders, str(own))}


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:])
