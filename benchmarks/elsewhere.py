"""Run peers that do not install beside ours, each in a process of another environment.

Such a process reads one line for each task and answers with one line.
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
"""Made by `make bench` from `tools/constraints-peers.txt`."""


class Peer:
    """A peer that waits for its next task.

    Between tasks it is stopped with its workers, or else they would work ahead in others' turns.
    """

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        """Talk to a process; `log` is the file of its stderr."""
        self._process = process
        self._log = log

    def ask(self, line: str) -> str:
        """Send a task and wait for its answer.

        Raises:
            RuntimeError: The process ended.
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
    """Make the peer's shards of `values.npy` and `offsets.npy` in `scratch`.

    Raises:
        AbsentError: The environment was not made, or the peer does not run in it.
    """
    if not PYTHON.exists():
        raise AbsentError(
            f"{PYTHON.parent.parent.name} is not there; `make .venv-peers/ready` makes it"
        )
    log = scratch / f"{name}.log"
    with log.open("w") as file:
        done = subprocess.run(
            _command("write", name, scratch),
            cwd=ROOT,
            env=_env(scratch, name),
            stderr=file,
            check=False,
        )
    if done.returncode:
        raise AbsentError(_tail(log))


@contextmanager
def reading(name: str, scratch: Path, *, collates: str = "pad", workers: int = 0) -> Iterator[Peer]:
    """Start a peer that reads its shards, and end it.

    Args:
        name: Name of its package.
        scratch: The folder that `write` was given.
        collates: "pad", or "mlm" for the collator of transformers.
        workers: Workers of its loader.
    """
    log = scratch / f"{name}.log"
    with log.open("w") as file:
        process = subprocess.Popen(
            _command("read", name, scratch, collates, str(workers)),
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
        process.communicate(timeout=60)  # ends its input, and so the peer
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _command(verb: str, name: str, scratch: Path, *rest: str) -> list[str]:
    return [str(PYTHON), "-m", "benchmarks.streamers", verb, name, str(scratch), *rest]


def _env(scratch: Path, name: str) -> dict[str, str]:
    """Return an environment whose temporary folders are the peer's own: litdata empties them."""
    own = scratch / f"{name}.own"
    own.mkdir(exist_ok=True)
    folders = ("TMPDIR", "DATA_OPTIMIZER_CACHE_FOLDER", "DATA_OPTIMIZER_DATA_CACHE_FOLDER")
    return {**os.environ, **dict.fromkeys(folders, str(own))}


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:])
