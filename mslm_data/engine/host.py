"""The local engine: workers on this machine, forked by a host process.

```text
    leader ── a pipe ──→ host ── forks, a pipe each ──→ worker, worker, …
```

Workers are not forked by the leader itself, for four reasons:

* The host loads a model of many gigabytes once, and all workers share its pages.
* The host loads while the leader scans the input.
* The host has no threads when it forks; the user's program may have some.
* The host has its own main module, so scripts need no `if __name__ == "__main__":`.

A worker has one task at a time and a pipe of its own, so a death belongs to a known task.

No process is left behind. The host kills its workers on SIGTERM, or when the leader's end of the
pipe is closed. Workers exit when the host is gone. All of them hold the host's end of the pipe, so
the leader reads the end of file only after all of them are gone.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from mslm_data.engine import Crew, Died, Preload, Task, Work, safe, sending_notes
from mslm_data.engine.cpus import cpus
from mslm_data.engine.memory import keep_freed_memory
from mslm_data.errors import BuildError
from mslm_data.log import LOGGER

# The leader's side --------------------------------------------------------------------------------


@contextmanager
def start(
    work: Work, workers: int | None, preload: Preload | None, _: Sequence[str | Path]
) -> Iterator[Crew]:
    """Run tasks in workers of this machine; see `engine.start`."""
    from mslm_data.kernels import _jit  # the host need not wait for its import

    _jit.log_compilation()  # workers print nothing
    host = Host(work, workers or cpus())
    try:
        host.start(preload)
        yield host
    finally:
        host.end()


class Host:
    """A host process with its workers; see `Crew`.

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
        # The leader may ignore SIGTERM, and blocks it below. The host must not.
        command = (
            f"import sys; sys.path[:] = {[*map(str, sys.path)]!r}; import signal; "
            "signal.signal(signal.SIGTERM, signal.SIG_DFL); "
            "signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM}); "
            f"from {__name__} import serve; serve({self._theirs.fileno()})"
        )
        # Signals wait until the process is started and known, or not started at all. The host keeps
        # SIGINT blocked: a terminal sends Ctrl-C to all processes of a command, but only the leader
        # reacts, and ends the others.
        blocked = {signal.SIGINT, signal.SIGTERM}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own code
                [sys.executable, "-c", command],
                stdin=subprocess.DEVNULL,
                pass_fds=[self._theirs.fileno()],
            )
        except OSError as error:
            raise _cannot_start(error) from None
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


def _cannot_start(error: OSError) -> BuildError:
    return BuildError(
        f"engine 'local': expected to start a process, got {type(error).__name__} (out of "
        "memory?); run the same command again with fewer --workers"
    )


# The host's side ----------------------------------------------------------------------------------


def serve(handle: int) -> None:
    """Load the preload, then run tasks in workers until the leader is gone.

    Args:
        handle: File descriptor of the pipe to the leader.
    """
    os.umask(0o077)
    os.set_inheritable(handle, False)
    keep_freed_memory()
    LOGGER.disabled = True  # only the leader logs

    leader = Connection(handle)
    try:
        _load(leader.recv())
        # A worker that is being forked has this handler for a moment, and no workers of its own.
        host = os.getpid()
        signal.signal(signal.SIGTERM, lambda *_: _leave() if os.getpid() == host else os._exit(0))
        _serve(leader)
    except (EOFError, OSError):  # the leader is gone
        pass
    finally:
        _leave()


def _load(preload: Preload | None) -> None:
    # A garbage collection writes into the pages of all objects, and would copy them into each
    # worker. Freeze the loaded objects, so that collections ignore them.
    gc.disable()
    if preload is not None:
        preload.load()
    gc.freeze()
    gc.enable()


def _leave() -> None:
    """Kill all workers, wait for them so that their CPU time is counted, and exit."""
    workers = multiprocessing.active_children()
    for worker in workers:
        worker.kill()
    for worker in workers:
        worker.join()
    os._exit(0)


def _serve(leader: Connection) -> None:
    """Answer each message of the leader, a list of tasks, with one outcome."""
    workers = _Workers(leader.recv())
    while True:
        try:
            for number, task in leader.recv():
                workers.give(number, task)
            outcome = workers.next_outcome(leader)
        except BuildError as error:
            outcome = -1, error
        leader.send(outcome)


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    task: int = -1
    """Number of its task."""
    note: Any = None
    """The last note of its task."""


class _Workers:
    def __init__(self, work: Work) -> None:
        self._work = work
        self._idle: list[_Worker] = []
        self._running: dict[Connection, _Worker] = {}

    def give(self, number: int, task: Task) -> None:
        """Send a task to an idle worker, or to a new one."""
        self._idle = [worker for worker in self._idle if worker.process.is_alive()]
        worker = self._idle.pop() if self._idle else self._fork()
        worker.task = number
        worker.note = None
        with suppress(OSError):  # it has just died: its pipe will say so
            worker.pipe.send(task)
        self._running[worker.pipe] = worker

    def _fork(self) -> _Worker:
        ours, theirs = Pipe()
        fork = multiprocessing.get_context("fork")
        process = fork.Process(target=_work_off, args=(self._work, theirs))
        try:
            process.start()
        except OSError as error:
            raise _cannot_start(error) from None
        # Only the worker keeps its end, so that the pipe ends with it. Workers that are forked
        # later have copies of `ours` alone.
        theirs.close()
        return _Worker(process, ours)

    def next_outcome(self, leader: Connection) -> tuple[int, Any]:
        """Wait for an answer or a death, and return the number of its task with it.

        Raises:
            EOFError: The leader is gone.
        """
        while True:
            ready = wait([leader, *self._running])
            if leader in ready:  # it sends nothing while it waits
                raise EOFError

            pipe = next(pipe for pipe in self._running if pipe in ready)
            worker = self._running[pipe]
            try:
                is_note, value = pipe.recv()
            except (EOFError, OSError):
                worker.process.join()
                pipe.close()
                value = Died(_describe_end(worker.process), worker.note)
            else:
                if is_note:
                    worker.note = value
                    continue
                self._idle.append(worker)
            del self._running[pipe]
            return worker.task, value


def _describe_end(process: BaseProcess) -> str:
    code = process.exitcode or 0
    return f"signal {-code}" if code < 0 else f"exit code {code}"


# A worker's side ----------------------------------------------------------------------------------


def _work_off(work: Work, pipe: Connection) -> None:
    """Answer each task, until the host is gone."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_leave_with_host, daemon=True).start()

    with suppress(EOFError, OSError), sending_notes(lambda value: pipe.send((True, value))):
        while True:
            task = pipe.recv()
            try:
                # An answer that cannot be pickled is an error of the task.
                pipe.send((False, work(task)))
            except BaseException as error:  # noqa: BLE001 - panics of Rust libraries
                pipe.send((False, safe(task.name, error)))


def _leave_with_host() -> None:
    # The pipe does not tell: workers that are forked later keep copies of the host's end.
    host = multiprocessing.parent_process()
    if host is not None:
        wait([host.sentinel])
        os._exit(1)
