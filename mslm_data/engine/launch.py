"""Starts the worker processes of this machine, forked from one that has loaded what they need.

```text
    leader ── starts ──→ server ── forks ──→ worker, worker, …
       └──────────────── a pipe to each ──────────┘
```

multiprocessing starts processes too, but none without the caller's main module. It imports that
module in each of them, so a script without `if __name__ == "__main__":` would run again there, and
a program that comes from stdin cannot be imported at all. Workers need nothing of that module.
Besides, multiprocessing has one fork server for the whole program, which loads one model for good,
whatever the next build needs. So this server is ours, one for each run.

The chain ends from either side. A leader that ends, or dies, closes its socket; then the server
kills its workers and ends. A server that dies breaks a pipe that all workers listen to, and each
leaves at once. So no worker writes into a folder whose lock the leader has given back.
"""

from __future__ import annotations

import _thread
import gc
import importlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.spawn import get_executable
from typing import Any, Protocol

from mslm_data.engine import PRELOAD, Preload
from mslm_data.engine.memory import keep_freed_memory
from mslm_data.engine.worker import serve
from mslm_data.errors import BuildError

_STATUS_BYTES = 100
"""More than any status has: a few words on how a worker ended."""


class Launcher(Protocol):
    """Starts worker processes, and ends them all."""

    advice: str
    """Advice for users whose workers do not start."""

    def start(self, pipe: Connection) -> Callable[[], str]:
        """Start a worker.

        Args:
            pipe: The worker's end of its pipe, which the caller closes afterwards.

        Returns:
            A function that waits until the worker has ended, and says how.

        Raises:
            OSError: The system starts none.
        """
        ...

    def end(self) -> None:
        """End all workers, whatever they are at, and wait until they are gone.

        Does nothing the second time.
        """
        ...


@contextmanager
def launching(preload: Preload) -> Iterator[Launcher]:
    """Give what starts workers on this system, and end them all afterwards.

    Raises:
        BuildError: The system starts no process.
    """
    starting = _Starting(preload)
    try:
        yield starting.launcher()
    finally:
        starting.end()


class _Starting:
    """Starts a launcher in a thread of its own.

    Ctrl-C is raised in the main thread, between any two lines there. The thread starts the process
    whole or not at all, and the lock tells which. Both are the interpreter's own, written in C:
    `threading.Event` and `Thread.start` can be interrupted in their middle.
    """

    def __init__(self, preload: Preload) -> None:
        self._preload = preload
        self._lock = threading.Lock()
        self._is_over = False
        self._launcher: Launcher | None = None

        self._trying = threading.Lock()
        """Held until the thread has tried."""
        self._trying.acquire()
        self._error: BuildError | None = None

    def launcher(self) -> Launcher:
        """Start the launcher, and return it.

        Raises:
            BuildError: The system starts no process.
        """
        _thread.start_new_thread(self._start, ())
        self._trying.acquire()
        if self._error is not None:
            raise self._error
        assert self._launcher is not None  # noqa: S101 - for the type checker
        return self._launcher

    def _start(self) -> None:
        _block_ctrl_c()
        try:
            with self._lock:
                if not self._is_over:
                    self._launcher = _started(self._preload)
        except BuildError as error:
            self._error = error
        finally:
            self._trying.release()

    def end(self) -> None:
        """End the launcher, if it was started, and start none from here on."""
        with self._lock:
            self._is_over = True
            launcher = self._launcher
        if launcher is not None:
            launcher.end()


def _block_ctrl_c() -> None:
    """Block Ctrl-C in this thread, and so in processes that it starts, from their first moment.

    A terminal sends it to every process of a command, and the leader ends the others.
    """
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def _started(preload: Preload) -> Launcher:
    try:
        return ForkServer(preload) if hasattr(os, "fork") else Spawner()
    except OSError as error:
        raise cannot_start(error) from None


def cannot_start(error: OSError) -> BuildError:
    """Return what to raise if the system starts no process."""
    if isinstance(error, ConnectionError):  # of the pipe to the process that starts them
        got = "none, as the process that starts others was killed"
    else:
        got = f"{type(error).__name__} (out of memory?)"
    return BuildError(
        f"engine 'local': expected to start a process, got {got}; run the same command again with "
        "fewer --workers"
    )


# The leader's side --------------------------------------------------------------------------------


class ForkServer:
    """A process that imports a module, and then forks workers that share what it has loaded.

    It imports while the caller goes on. A module that cannot be imported is left to the workers,
    which meet the error again at their first task and report it.
    """

    advice = "close other programs if memory is short; --workers 1 needs no other process"

    def __init__(self, preload: Preload) -> None:
        """Start the process."""
        self._statuses: set[int] = set()
        """File descriptors that will bring how workers ended."""

        self._control, theirs = socket.socketpair()
        command = (
            f"import sys; sys.path[:] = {[*map(str, sys.path)]!r}; "
            f"from {__name__} import serve_forks; "
            f"serve_forks({theirs.fileno()}, {preload.module!r})"
        )
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own code
                [get_executable(), "-c", command],
                stdin=subprocess.DEVNULL,
                env={**os.environ, PRELOAD: preload.told},
                pass_fds=[theirs.fileno()],
            )

    def start(self, pipe: Connection) -> Callable[[], str]:
        """Ask for a worker; see `Launcher`."""
        status, theirs = os.pipe()
        try:
            socket.send_fds(self._control, [b"w"], [pipe.fileno(), theirs])
        except OSError:
            os.close(status)
            raise
        finally:
            os.close(theirs)
        self._statuses.add(status)

        def how_it_ended() -> str:
            how = os.read(status, _STATUS_BYTES).decode()
            self._statuses.remove(status)
            os.close(status)
            return how or "with the process it was forked from"

        return how_it_ended

    def end(self) -> None:
        """End the process and its workers; see `Launcher`."""
        # A copy of the socket may live on in processes that the caller has forked, so it is shut
        # down and not only closed.
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        self._control.close()

        # The server ignores this unless it still imports, which may take long and has no workers.
        self._process.terminate()
        self._process.wait()
        for status in self._statuses:
            os.close(status)
        self._statuses.clear()


class Spawner:
    """Starts each worker anew, on systems that cannot fork."""

    advice = (
        "a script must call build below `if __name__ == '__main__':` to have workers on this "
        "system, and --workers 1 needs none"
    )

    def __init__(self) -> None:
        self._processes: list[Any] = []

    def start(self, pipe: Connection) -> Callable[[], str]:
        """Start a process; see `Launcher`."""
        process = get_context("spawn").Process(target=_spawned, args=(pipe,), daemon=True)
        process.start()
        self._processes.append(process)

        def how_it_ended() -> str:
            process.join()
            return _words(process.exitcode or 0)

        return how_it_ended

    def end(self) -> None:
        """End all processes; see `Launcher`."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()


def _spawned(pipe: Connection) -> None:
    """Serve in a process that was started anew."""
    keep_freed_memory()
    leader = parent_process()
    if leader is not None:
        _leave_when(lambda: wait([leader.sentinel]))
    serve(pipe)


# The server's side --------------------------------------------------------------------------------


def serve_forks(control: int, module: str) -> None:
    """Import a module, then fork workers until the leader is gone: all that a server does.

    Args:
        control: File descriptor of the socket to the leader.
        module: Name of the module.
    """
    # The leader's choices are inherited, and it may ignore what should end this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    keep_freed_memory()
    gc.disable()  # what is imported stays, so there is nothing to collect
    with suppress(Exception):
        importlib.import_module(module)
    gc.enable()

    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # from here on, the leader closes the socket
    _Server(socket.socket(fileno=control)).run()


class _Server:
    """Forks, and says how each worker has ended."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._status_of: dict[int, int] = {}
        """Process -> file descriptor that takes how it ended."""

        # Nothing is written here. Workers read, and it ends when this process does.
        self._alive, self._alive_end = os.pipe()

        # A death of a worker wakes the selector through this pipe.
        self._woken, self._wakes = os.pipe()
        for end in (self._woken, self._wakes):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakes)

    def run(self) -> None:
        """Answer the leader's requests until it is gone, then kill the workers."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._control, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)

            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                if self._woken in ready:
                    os.read(self._woken, 1 << 16)
                    self._report_the_dead(os.WNOHANG)
                if self._control in ready and not self._answer():
                    break

        # They are our children and not yet waited for, so these numbers are still theirs.
        for process in self._status_of:
            os.kill(process, signal.SIGKILL)
        self._report_the_dead(0)

    def _answer(self) -> bool:
        """Fork a worker for the next request; return False if the leader is gone."""
        try:
            request, ends, *_ = socket.recv_fds(self._control, 1, 2)
        except ConnectionError:
            return False
        if not request:
            return False

        if len(ends) < 2:  # this process may open no more files, so the leader finds a broken pipe
            for end in ends:
                os.close(end)
            return True
        pipe, status = ends

        try:
            process = os.fork()
        except OSError as error:
            _tell(status, f"{type(error).__name__} at its start")
            os.close(status)
        else:
            if process == 0:
                self._become_worker(pipe, status)
            self._status_of[process] = status
        os.close(pipe)
        return True

    def _become_worker(self, pipe: int, status: int) -> None:
        """Serve in the process that was just forked, and never return."""
        code = 1
        try:
            # Each worker's status ends with the server's copy, so a worker may keep none.
            signal.set_wakeup_fd(-1)
            self._control.close()
            for end in (self._alive_end, self._woken, self._wakes, status):
                os.close(end)
            for end in self._status_of.values():
                os.close(end)

            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            _leave_when(lambda: os.read(self._alive, 1))

            serve(Connection(pipe))
            code = 0
        except BaseException:  # noqa: BLE001 - nothing may unwind into the server's own frames
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)

    def _report_the_dead(self, options: int) -> None:
        """Tell the leader how workers have ended.

        Args:
            options: Of `os.waitpid`: 0 waits for all workers.
        """
        while self._status_of:
            process, result = os.waitpid(-1, options)
            if process == 0:
                return
            status = self._status_of.pop(process, None)
            if status is not None:
                _tell(status, _words(os.waitstatus_to_exitcode(result)))
                os.close(status)


def _tell(status: int, how: str) -> None:
    with suppress(OSError):  # the leader may be gone
        os.write(status, how.encode())


def _words(code: int) -> str:
    """Describe how a process ended, by the exit code that Python gives it."""
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _leave_when(over: Callable[[], object]) -> None:
    """Have this process leave at once when a call returns."""

    def leave() -> None:
        over()
        os._exit(1)

    threading.Thread(target=leave, daemon=True).start()
