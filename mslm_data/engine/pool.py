"""A pool of local worker processes, in a process of its own.

```text
    leader ── a pipe ──→ host, with a ProcessPoolExecutor ── forks ──→ worker, worker, …
```

The pool is the standard library's. It runs in a host process for four reasons:

* The host loads a model of many gigabytes once, and all workers share its pages.
* The host loads while the leader scans the input.
* The host has no threads when it forks; the user's program may have some.
* The host has its own main module, so scripts need no `if __name__ == "__main__":`.

No process is left behind. The host kills its workers on SIGTERM, or when the leader's end of the
pipe is closed. Workers exit when the host is gone. All of them hold the host's end of the pipe, so
the leader reads the end of file only after all of them are gone.
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
    """The answer to a task whose pool broke, because a worker died.

    Attributes:
        how: A signal or an exit code; never text of a document.
    """

    how: str


# The leader's side --------------------------------------------------------------------------------


class Pool:
    """A pool of workers. Tasks are identified by numbers.

    Attributes:
        preload: The data in the memory of the workers.
    """

    def __init__(self, preload: Preload) -> None:
        """Create the pool without starting it; see `started`."""
        self.preload = preload
        self._pipe, self._theirs = Pipe()
        self._starter = threading.Thread(target=self._start_host)
        self._has_started = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._error: OSError | None = None

    def start(self) -> None:
        """Start the host, which starts loading.

        Raises:
            BuildError: The process cannot be started.
        """
        # Ctrl-C is raised in the main thread, so start the process in another one: completely or
        # not at all.
        self._starter.start()
        self._has_started.wait()  # not `join`, which marks the thread as ended when interrupted
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
        # A terminal sends Ctrl-C to all processes of a command. The host inherits this mask, so
        # that only the leader reacts and ends the others.
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

    def begin(self, worker: Worker[Any]) -> None:
        """Wait until the host has finished loading, and send the worker."""
        self._receive()
        self._send(worker)

    def give(self, number: int, task: Task, *, workers: int) -> None:
        """Send a task.

        Args:
            number: Number of the task, for its answer.
            task: The task.
            workers: Number of workers in the pool. It may change only when no task is running.
        """
        self._send((number, workers, task))

    def answer(self) -> tuple[int, str | Died]:
        """Wait for any task, and return its number and answer.

        Raises:
            BuildError: The host was killed or cannot start workers, or a worker cannot read its
                task.
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
        """Kill the host and its workers, and wait until they are gone."""
        if self._starter.ident is not None:
            self._has_started.wait()
        self._theirs.close()
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            # The end of file comes when the last worker has closed its copy of the pipe.
            with suppress(OSError):
                while os.read(self._pipe.fileno(), 1 << 16):
                    pass
        self._process = None
        self._pipe.close()


@contextmanager
def started(preload: Preload) -> Iterator[Pool]:
    """Start a pool, and end it with the context.

    Raises:
        BuildError: The process cannot be started.
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
"""The worker that runs tasks. Worker processes inherit it by fork, without a copy."""


def serve(handle: int) -> None:
    """Load the preload, then run tasks in a pool until the leader is gone.

    Args:
        handle: File descriptor of the pipe to the leader.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the leader may ignore it
    os.umask(0o077)
    os.set_inheritable(handle, False)
    keep_freed_memory()
    LOGGER.disabled = True  # only the leader logs

    pipe = Connection(handle)
    try:
        _load(pipe.recv())
        # A worker that is being forked has this handler for a moment, and no workers of its own.
        host = os.getpid()
        signal.signal(signal.SIGTERM, lambda *_: _leave() if os.getpid() == host else os._exit(0))
        pipe.send(None)
        _Host(pipe).run()
    except (EOFError, OSError):  # the leader is gone
        pass
    finally:
        _leave()


def _load(preload: Preload) -> None:
    # A garbage collection writes into the pages of all objects, and would copy them into each
    # worker. Freeze the loaded objects, so that collections ignore them.
    gc.disable()
    with suppress(Exception):  # workers meet the same error, and report it
        pkgutil.resolve_name(preload.function)(preload.argument)
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


class _Host:
    """Passes tasks from the leader to a pool, and answers back."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._sending = threading.Lock()
        """Held while sending an answer, from this thread or the pool's."""

        self._pool: ProcessPoolExecutor | None = None
        self._size = 0  # number of workers; 0 if a new pool is needed
        self._workers: list[Any] = []

    def run(self) -> None:
        """Pass on tasks until the leader is gone."""
        global _worker  # noqa: PLW0603 - a fork hands it on without a copy
        try:
            # Global, so that forked workers inherit it.
            _worker = self._pipe.recv()
            while True:
                self._submit(*self._pipe.recv())
        except (EOFError, OSError):
            raise
        except Exception as error:  # noqa: BLE001 - unpickling may raise any class
            self._answer(
                0,
                BuildError(
                    f"engine 'local': a worker could not read its work ({type(error).__name__}); "
                    "define it in a module that can be imported, as workers do not import the main "
                    "module, or pass --workers 1"
                ),
            )
            self._pipe.recv()  # wait until the leader closes the pipe

    def _submit(self, number: int, size: int, task: Task) -> None:
        try:
            try:
                future = self._submitted(size, task)
            except BrokenProcessPool:  # a worker died between tasks
                self._size = 0
                future = self._submitted(size, task)
        except OSError as error:
            self._answer(number, _cannot_start(error))
        else:
            future.add_done_callback(partial(self._take, number))

    def _submitted(self, size: int, task: Task) -> Future[Any]:
        if self._pool is not None and self._size == size:
            return self._pool.submit(_attempt, task)

        # Shut the last pool down first, so that the workers of two pools never run together.
        if self._pool is not None:
            self._pool.shutdown()
        self._size = size
        fork = multiprocessing.get_context("fork")
        self._pool = ProcessPoolExecutor(size, fork, initializer=_begin)
        future = self._pool.submit(_attempt, task)
        self._workers = multiprocessing.active_children()
        return future

    def _take(self, number: int, future: Future[Any]) -> None:
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
        """Describe the death of the worker."""
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
    """Restore the default SIGTERM, and exit when the host is gone."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_leave_with_host, daemon=True).start()


def _leave_with_host() -> None:
    host = multiprocessing.parent_process()
    if host is not None:
        wait([host.sentinel])
        os._exit(1)


def _attempt(task: Task) -> str | MslmDataError:
    return attempt(_worker, task)
