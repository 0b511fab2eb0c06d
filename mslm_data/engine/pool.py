"""A pool of worker processes of this machine, which lives in a process of its own.

```text
    leader ── a pipe ──→ host, with a ProcessPoolExecutor ── forks ──→ worker, worker, …
```

The pool is the standard library's. It has a host for four reasons. A model of many gigabytes is
loaded once, and its pages are shared by all workers. The host loads while the leader finds out what
is to do. It has no threads yet when it forks, which the caller's program may have. And its main
module is ours, so a script needs no `if __name__ == "__main__":`.

Nothing is left behind. The host ends its workers at SIGTERM, or when the leader's end of the pipe
is closed. Workers leave when the host is gone. All of them hold the host's end of the pipe, so the
leader knows that they are gone when it reads the end of the file.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import pkgutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection, Pipe, wait
from multiprocessing.spawn import get_executable
from typing import Any, NamedTuple

from mslm_data.engine import Preload, Task, Worker, attempt
from mslm_data.engine.memory import keep_freed_memory
from mslm_data.errors import BuildError, MslmDataError
from mslm_data.log import LOGGER


class Died(NamedTuple):
    """Answers a task that was given to a pool in which a worker died.

    Attributes:
        how: A signal or an exit code; never text of a document.
    """

    how: str


# The leader's side --------------------------------------------------------------------------------


class Pool:
    """Workers that do tasks, each named by a number.

    Attributes:
        preload: What the workers have in memory.
    """

    def __init__(self, preload: Preload) -> None:
        """Start nothing yet; see `started`."""
        self.preload = preload
        self._pipe, self._theirs = Pipe()
        self._starter = threading.Thread(target=self._start_host)
        self._has_started = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._error: OSError | None = None
        self._is_ready = False

    def start(self) -> None:
        """Start the host, which begins to load.

        Raises:
            BuildError: The system starts no process.
        """
        # Ctrl-C is raised in the main thread. Another one starts the process whole or not at all.
        self._starter.start()
        self._has_started.wait()  # a `join` that is interrupted marks the thread as ended
        self._theirs.close()
        if self._error is not None:
            raise _cannot_start(self._error) from None
        self._send(self.preload)

    def _start_host(self) -> None:
        try:
            self._popen()
        finally:
            self._has_started.set()

    def _popen(self) -> None:
        # The process inherits this: a terminal sends Ctrl-C to every process of a command, and the
        # leader ends the others.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})

        command = (
            f"import sys; sys.path[:] = {[*map(str, sys.path)]!r}; "
            f"from {__name__} import serve; serve({self._theirs.fileno()})"
        )
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own code
                [get_executable(), "-c", command],
                stdin=subprocess.DEVNULL,
                pass_fds=[self._theirs.fileno()],
            )
        except OSError as error:
            self._error = error

    def is_ready(self) -> bool:
        """Return whether the host has loaded what workers need, or is dead."""
        return self._is_ready or self._pipe.poll(0)

    def begin(self, worker: Worker[Any]) -> None:
        """Wait until the host has loaded, and tell it what is done to each task."""
        self._receive()
        self._is_ready = True
        self._send(worker)

    def give(self, number: int, task: Task, *, workers: int) -> None:
        """Ask for a task.

        Args:
            number: Its name in the answer.
            task: The task.
            workers: Number of workers in the pool. It may change only while no task is under way.
        """
        self._send((number, workers, task))

    def answer(self) -> tuple[int, str | Died]:
        """Wait for a task, and return its number and what was answered.

        Raises:
            BuildError: The host was killed, or starts no worker, or a worker cannot read its task.
            MslmDataError: The task failed.
        """
        number, outcome = self._receive()
        if isinstance(outcome, MslmDataError):
            raise outcome
        return number, outcome

    def _send(self, message: object) -> None:
        try:
            self._pipe.send(message)
        except OSError:
            raise _host_killed() from None

    def _receive(self) -> Any:
        try:
            return self._pipe.recv()
        except (EOFError, OSError):
            raise _host_killed() from None

    def end(self) -> None:
        """End the host and its workers, whatever they are at, and wait until they are gone."""
        if self._starter.ident is not None:
            self._has_started.wait()
        self._theirs.close()
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            with suppress(OSError):
                while os.read(self._pipe.fileno(), 1 << 16):
                    pass
        self._process = None
        self._pipe.close()


@contextmanager
def started(preload: Preload) -> Iterator[Pool]:
    """Give a pool whose host has begun to load, and end it afterwards.

    Raises:
        BuildError: The system starts no process.
    """
    pool = Pool(preload)
    try:
        pool.start()
        yield pool
    finally:
        pool.end()


def _cannot_start(error: OSError) -> BuildError:
    return BuildError(
        f"engine 'local': expected to start a process, got {type(error).__name__} (out of "
        "memory?); run the same command again with fewer --workers"
    )


def _host_killed() -> BuildError:
    return BuildError(
        "engine 'local': the process that starts workers was killed (out of memory?); run the same "
        "command again with fewer --workers"
    )


# The host's side ----------------------------------------------------------------------------------

_worker: Any = None
"""Does the tasks; worker processes inherit it by fork."""


def serve(handle: int) -> None:
    """Load what workers need, then have a pool of them do tasks until the leader is gone.

    Args:
        handle: File descriptor of the pipe to the leader.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the leader may ignore it
    os.umask(0o077)
    os.set_inheritable(handle, False)
    keep_freed_memory()
    LOGGER.disabled = True  # the leader speaks for all

    pipe = Connection(handle)
    try:
        _load(pipe.recv())
        signal.signal(signal.SIGTERM, lambda *_: _leave())
        pipe.send(None)
        _Host(pipe).run()
    except (EOFError, OSError):  # the leader is gone
        pass
    finally:
        _leave()


def _load(preload: Preload) -> None:
    # What is loaded stays. A collection would write into its pages, and so give each worker a copy.
    gc.disable()
    with suppress(Exception):  # the workers meet the error again, and report it
        pkgutil.resolve_name(preload.function)(preload.argument)
    gc.freeze()
    gc.enable()


def _leave() -> None:
    """Kill all workers, wait for them so that their time counts, and end this process."""
    workers = multiprocessing.active_children()
    for worker in workers:
        worker.kill()
    for worker in workers:
        worker.join()
    os._exit(0)


class _Host:
    """Passes tasks from the leader to a pool, and answers back."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._sending = threading.Lock()
        """Held while an answer is sent, by this thread or by the pool's."""

        self._pool: ProcessPoolExecutor | None = None
        self._size = 0  # of the pool; 0 if a new one is needed
        self._workers: list[Any] = []

    def run(self) -> None:
        """Pass on tasks until the leader is gone."""
        global _worker  # noqa: PLW0603 - a fork hands it on without a copy
        try:
            _worker = self._pipe.recv()
            while True:
                self._submit(*self._pipe.recv())
        except (EOFError, OSError):
            raise
        except Exception as error:  # noqa: BLE001 - what is read may be of any class
            self._answer(
                0,
                BuildError(
                    f"engine 'local': a worker could not read its work ({type(error).__name__}); "
                    "define it in a module that can be imported, as workers do not import the main "
                    "module, or pass --workers 1"
                ),
            )
            self._pipe.recv()  # nothing more comes

    def _submit(self, number: int, size: int, task: Task) -> None:
        try:
            try:
                future = self._submitted(size, task)
            except BrokenProcessPool:  # a worker died that was not at a task
                self._size = 0
                future = self._submitted(size, task)
        except OSError as error:
            self._answer(number, _cannot_start(error))
        else:
            future.add_done_callback(partial(self._take, number))

    def _submitted(self, size: int, task: Task) -> Future[Any]:
        if self._pool is not None and self._size == size:
            return self._pool.submit(_attempt, task)

        # All workers of the last pool are gone before those of the next one begin.
        if self._pool is not None:
            self._pool.shutdown()
        self._size = size
        fork = multiprocessing.get_context("fork")
        self._pool = ProcessPoolExecutor(size, fork, initializer=_begin)
        future = self._pool.submit(_attempt, task)
        self._workers = multiprocessing.active_children()
        return future

    def _take(self, number: int, future: Future[Any]) -> None:
        """Send the outcome of a task to the leader."""
        error = future.exception()
        if error is None:
            self._answer(number, future.result())
        elif isinstance(error, BrokenProcessPool):
            self._size = 0
            self._answer(number, Died(self._how_it_died()))
        else:
            self._answer(
                number,
                BuildError(f"engine 'local': {type(error).__name__}, which should not happen"),
            )

    def _how_it_died(self) -> str:
        """Describe how the worker ended that broke the pool."""
        dead = wait([worker.sentinel for worker in self._workers], timeout=0)
        for worker in self._workers:
            if worker.sentinel in dead:
                worker.join()
                code = worker.exitcode or 0
                return f"signal {-code}" if code < 0 else f"exit code {code}"
        return "an unknown end"

    def _answer(self, number: int, outcome: str | MslmDataError | Died) -> None:
        with self._sending, suppress(OSError):  # the leader may be gone
            self._pipe.send((number, outcome))


# A worker's side ----------------------------------------------------------------------------------


def _begin() -> None:
    """Have this process end as others do, and when the host is gone."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_leave_with_host, daemon=True).start()


def _leave_with_host() -> None:
    host = multiprocessing.parent_process()
    if host is not None:
        wait([host.sentinel])
        os._exit(1)


def _attempt(task: Task) -> str | MslmDataError:
    return attempt(_worker, task)
