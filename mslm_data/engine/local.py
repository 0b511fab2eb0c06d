"""The local engine: runs tasks in this process, or in workers that a host process forks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Pipe
from multiprocessing.spawn import get_executable
from pathlib import Path
from typing import Any

from mslm_data.engine import Crew, Preload, Task, Work, cannot_start, safe
from mslm_data.errors import BuildError, MslmDataError


@contextmanager
def start(
    work: Work, workers: int | None, preload: Preload | None, _: Sequence[str | Path]
) -> Iterator[Crew]:
    """Run tasks in this process (1 worker), or in workers of this machine; see `engine.start`.

    Systems without fork run all tasks in this process.
    """
    if workers == 1 or not hasattr(os, "fork"):
        yield _ThisProcess(work)
        return

    # Import late: a run in this process needs none of these.
    from mslm_data.engine.cpus import cpus
    from mslm_data.kernels import _jit

    _jit.log_compilation_of_workers()  # workers print nothing
    host = Host(work, workers or cpus())
    try:
        host.start(preload)
        yield host
    finally:
        host.end()


class _ThisProcess:
    """Runs tasks in this process; see `Crew`."""

    size = 1

    def __init__(self, work: Work) -> None:
        self._work = work

    def exchange(self, tasks: Sequence[tuple[int, Task]]) -> tuple[int, Any]:
        ((number, task),) = tasks
        try:
            return number, self._work(task)
        except (MslmDataError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            raise safe(task.name, error) from error


class Host:
    """A host process with its workers; see `engine.host` and `Crew`.

    Attributes:
        size: Maximum number of workers.
    """

    def __init__(self, work: Work, size: int) -> None:
        """Prepare a host without starting it."""
        self.size = size
        self._unsent = [work]
        self._pipe, self._theirs = Pipe()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, preload: Preload | None) -> None:
        """Start the process, which starts loading.

        Raises:
            BuildError: The process cannot be started.
        """
        command = (
            f"import sys; sys.path[:] = {[*map(str, sys.path)]!r}; "
            f"from mslm_data.engine.host import serve; serve({self._theirs.fileno()})"
        )
        # Signals wait until the process is started and known, or not started at all. The host keeps
        # SIGINT blocked: a terminal sends Ctrl-C to all processes of a command, but only the leader
        # reacts, and ends the others.
        blocked = {signal.SIGINT, signal.SIGTERM}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own code
                [get_executable(), "-c", command],
                stdin=subprocess.DEVNULL,
                pass_fds=[self._theirs.fileno()],
            )
        except OSError as error:
            raise cannot_start(error) from None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

        self._theirs.close()
        with suppress(OSError):  # it was killed, which the first exchange will report
            self._pipe.send(preload)

    def exchange(self, tasks: Sequence[tuple[int, Task]]) -> tuple[int, Any]:
        try:
            # The work is sent now, and not at the start, because a host that loads does not read.
            while self._unsent:
                self._pipe.send(self._unsent.pop())
            # The host sends nothing before it has read the tasks, so both never wait in `send`.
            self._pipe.send(tasks)
            number, outcome = self._pipe.recv()
        except (EOFError, OSError):
            raise BuildError(
                "engine 'local': the process that starts workers was killed (out of memory?); run "
                "the same command again with fewer --workers"
            ) from None
        return number, outcome

    def end(self) -> None:
        """Kill the host and its workers, and wait until they are gone."""
        self._theirs.close()
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            # The end of file comes when the last worker has closed its copy of the pipe.
            with suppress(OSError):
                while os.read(self._pipe.fileno(), 1 << 16):
                    pass
        self._pipe.close()
