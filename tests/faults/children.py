"""A process that forks builds and lets them die: `python -m tests.faults.children`.

It reads lines `corpus inputs out call`, and answers each with the exit status of the child and its
number of calls.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

from tests.faults.corpora import CORPORA
from tests.faults.disk import watched
from tests.support.waiting import PATIENCE_S

NO_THREADS = {"TOKENIZERS_PARALLELISM": "false"}
"""Environment of a parent without threads, as a fork would lose them."""


class Children:
    """A client of the process: starts builds that are killed."""

    def __enter__(self) -> Children:
        command, environment = (
            [sys.executable, "-m", "tests.faults.children"],
            os.environ | NO_THREADS,
        )
        self._server = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=environment,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        assert self._server.stdin
        self._server.stdin.close()
        self._server.wait(PATIENCE_S)

    def build(self, corpus: str, inputs: Path, out: Path, *, kill_at: int) -> tuple[int, int]:
        """Build until a call.

        Returns:
            The exit status, negative for a signal, and the number of calls.
        """
        assert self._server.stdin
        assert self._server.stdout
        self._server.stdin.write(f"{corpus}\t{inputs}\t{out}\t{kill_at}\n")
        status, calls = self._server.stdout.readline().split()
        return int(status), int(calls)


def _die(_: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _child(corpus: str, inputs: str, out: str, at: str) -> int:
    with watched(int(at), _die) as count:
        CORPORA[corpus].build(Path(inputs), Path(out))
    return count.calls


def main() -> None:
    """Serve until the end of the input."""
    os.fsync = lambda _: None  # The written bytes of a killed process remain, synced or not.
    with tempfile.TemporaryDirectory() as folder:  # The children find kernels and tables in memory.
        for name, corpus in CORPORA.items():
            corpus.build(corpus.write(Path(folder) / name), Path(folder) / f"{name}-out")
    for line in sys.stdin:
        read, write = os.pipe()
        child = os.fork()
        if not child:
            calls = _child(*line.rstrip("\n").split("\t"))
            os.write(write, b"%d" % calls)
            os._exit(0)
        os.close(write)
        _, status = os.waitpid(child, 0)
        calls = os.read(read, 20) or b"0"
        os.close(read)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)} {calls.decode()}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
