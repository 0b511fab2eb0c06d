"""Peers that do not install beside ours, each in a process of another environment, which answers line by line."""

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
"""Made by `make bench` from `constraints-peers.txt`."""


class Peer:
    """A peer that waits for what it is to do, stopped with its workers: what they do ahead would cost others' turns."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        """Talk to a process; `log` has what it says besides."""
        self._process, self._log = process, log

    def ask(self, line: str) -> str:
        """Say what to do and wait until it is done.

        Raises:
            RuntimeError: The process ended.
        """
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: S101, PT018
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
        AbsentError: There is no such environment, or the peer does not run in it.
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
        name: Of the package.
        scratch: What `write` was given.
        collates: "pad", or "mlm" with the collator of transformers.
        workers: Of its loader.
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
        process.communicate(timeout=60)  # its input ends, and so does it
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _command(verb: str, name: str, scratch: Path, *rest: str) -> list[str]:
    return [str(PYTHON), "-m", "benchmarks.streamers", verb, name, str(scratch), *rest]


def _env(scratch: Path, name: str) -> dict[str, str]:
    """Keep what a peer stores on the way in a folder of `scratch` that it may empty, as litdata does."""
    own = scratch / f"{name}.own"
    own.mkdir(exist_ok=True)
    folders = ("TMPDIR", "DATA_OPTIMIZER_CACHE_FOLDER", "DATA_OPTIMIZER_DATA_CACHE_FOLDER")
    return {**os.environ, **dict.fromkeys(folders, str(own))}


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:])
