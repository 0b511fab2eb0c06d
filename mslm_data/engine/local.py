"""The embedded engine: this process, or processes of this machine that are replaced if they die."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import (
    get_all_start_methods,
    get_context,
    parent_process,
    resource_tracker,
)
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.forkserver import ensure_running
from multiprocessing.process import BaseProcess
from typing import Any

from mslm_data.engine import PRELOAD, AnyTask, Preload, Task, Work, attempt
from mslm_data.engine.crew import Answer, Died, Ready, supervise
from mslm_data.errors import BuildError, of_the_system


def run(
    work: Work[AnyTask],
    tasks: Sequence[AnyTask],
    *,
    workers: int | None,
    done: Callable[[str], Sequence[AnyTask]],
    preload: Preload,
) -> None:
    """Run tasks in this process (one worker) or in processes of this machine; see `Engine`.

    Args:
        work: See `Engine`.
        tasks: See `Engine`.
        workers: Number of processes; None: one for each CPU.
        done: See `Engine`.
        preload: See `Engine`; loaded once, by the process that the workers are forked from.

    Raises:
        BuildError: Processes cannot be started, or do not live.
        MslmDataError: See `Engine`.
    """
    if workers == 1:
        waiting = deque(tasks)
        while waiting:
            waiting += done(work(waiting.popleft()))
        return

    most = workers or os.cpu_count() or 1
    supervise(work, tasks, Processes(work, most, _context(preload)), done)


class Processes:
    """Worker processes, each named by our end of its pipe. A broken pipe is a dead process."""

    where = "engine 'local'"
    advice = (
        "a script must call build below `if __name__ == '__main__':` to have workers, "
        "and --workers 1 needs none"
    )

    def __init__(self, work: Work[Any], most: int, context: BaseContext) -> None:
        self._work = work
        self._most = most
        self._context = context
        self._processes: dict[Connection, BaseProcess] = {}

    def room(self) -> int:
        """Return the number of processes that were asked for."""
        return self._most

    def start(self) -> Connection:
        """Start a process.

        Raises:
            BuildError: The system starts none.
        """
        ours, theirs = self._context.Pipe()
        process: Any = self._context.Process(  # type: ignore[attr-defined]
            target=_serve, args=(theirs,), daemon=True
        )
        try:
            process.start()
        except (EOFError, OSError) as error:
            raise BuildError(
                f"{self.where}: expected to start a process, got {type(error).__name__} "
                "(out of memory?); run the same command again with fewer --workers"
            ) from None
        self._processes[ours] = process

        # Only the process itself may hold its end: so its death breaks the pipe.
        theirs.close()

        # The work has megabytes, so it goes through the pipe. As an argument it would keep `start`
        # busy while a model loads, and a signal in between would leave a process with half of its
        # arguments, which prints a traceback.
        with suppress(OSError):  # it is dead: `answers` finds its pipe broken
            ours.send(self._work)
        return ours

    def give(self, worker: Connection, task: Task) -> None:
        """Send a task to a process."""
        with suppress(OSError):  # it is dead: `answers` finds its pipe broken
            worker.send(task)

    def answers(self) -> list[Answer]:
        """Wait for a process that has answered or died."""
        ready: list[Any] = wait(list(self._processes))
        return [Answer(worker, self._answer(worker)) for worker in ready]

    def _answer(self, worker: Connection) -> Any:
        try:
            return worker.recv()
        except (EOFError, OSError):
            worker.close()
            process = self._processes.pop(worker)
            process.join()
            code = process.exitcode or 0
            return Died(f"signal {-code}" if code < 0 else f"exit code {code}")

    def end(self) -> None:
        """End all processes."""
        for process in self._processes.values():
            process.terminate()
        for worker, process in self._processes.items():
            process.join()
            worker.close()


def _serve(pipe: Connection) -> None:
    """Receive the work, then do tasks until there are no more, in a process of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the process that leads
    os.umask(0o077)
    threading.Thread(target=_end_with_leader, daemon=True).start()

    with suppress(EOFError, OSError):  # the process that leads is gone
        work: Work[Any] = pipe.recv()
        pipe.send(Ready())
        while True:
            pipe.send(attempt(work, pipe.recv()))


def _end_with_leader() -> None:
    """Leave as soon as the process that leads is gone, and with it the lock on the folder."""
    leader = parent_process()
    if leader:
        wait([leader.sentinel])
        os._exit(1)


@contextmanager
def _ctrl_c_blocked() -> Iterator[None]:
    """Block Ctrl-C in processes that are started here, from their first moment and for good.

    A terminal sends it to every process of a command, and this one ends the others. Here it is
    delivered when the block is left, so none gets lost.
    """
    resource_tracker.ensure_running()  # which unblocks it, if it is started later
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _context(preload: Preload) -> BaseContext:
    """Choose how processes start: forked from one that has loaded what all of them need.

    This call starts that one. Where the system has no such way, each process starts anew and loads
    what it needs. Forking this very process is not a choice, as it may have threads.

    Raises:
        BuildError: The process to fork from cannot be started.
    """
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")

    context = get_context("forkserver")
    context.set_forkserver_preload([preload.module])
    before = os.environ.get(PRELOAD)
    os.environ[PRELOAD] = preload.told
    try:
        with _ctrl_c_blocked():
            ensure_running()
    except OSError as error:
        raise BuildError(
            f"engine 'local': expected to start processes, got "
            f"{of_the_system(error) or type(error).__name__}; is the path of the temporary folder "
            "(TMPDIR) longer than a socket's may be? --workers 1 needs none"
        ) from None
    finally:
        del os.environ[PRELOAD]
        if before is not None:
            os.environ[PRELOAD] = before
    return context
