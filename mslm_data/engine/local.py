"""The embedded engine: this process, or processes of this machine that are replaced if they die."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

from mslm_data.engine import AnyTask, Preload, Task, Work
from mslm_data.engine.crew import Answer, Died, supervise
from mslm_data.engine.launch import Launcher, cannot_start, launching


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
        workers: Number of processes; None: one for each CPU that this process may use.
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

    if not tasks:
        return
    with launching(preload) as launcher:
        supervise(work, tasks, Processes(work, workers or _cpus(), launcher), done)


class Processes:
    """Worker processes, each named by our end of its pipe. A broken pipe is a dead process."""

    where = "engine 'local'"

    def __init__(self, work: Work[Any], most: int, launcher: Launcher) -> None:
        self.advice = launcher.advice
        self._work = work
        self._most = most
        self._launcher = launcher
        self._how_it_ended: dict[Connection, Callable[[], str]] = {}
        """The pipe of a living worker -> a function that waits for its end."""

    def room(self) -> int:
        """Return the number of processes that were asked for."""
        return self._most

    def start(self) -> Connection:
        """Start a process.

        Raises:
            BuildError: The system starts none.
        """
        ours, theirs = Pipe()
        try:
            self._how_it_ended[ours] = self._launcher.start(theirs)
        except OSError as error:
            raise cannot_start(error) from None
        finally:
            theirs.close()  # only the process itself may hold its end: so its death breaks the pipe

        # The work has megabytes, so it goes through the pipe, which waits for its reader.
        with suppress(OSError):  # it is dead: `answers` finds its pipe broken
            ours.send(self._work)
        return ours

    def give(self, worker: Connection, task: Task) -> None:
        """Send a task to a process."""
        with suppress(OSError):  # it is dead: `answers` finds its pipe broken
            worker.send(task)

    def answers(self) -> list[Answer]:
        """Wait for a process that has answered or died."""
        ready: list[Any] = wait(list(self._how_it_ended))
        return [Answer(worker, self._answer(worker)) for worker in ready]

    def _answer(self, worker: Connection) -> Any:
        try:
            return worker.recv()
        except (EOFError, OSError):
            worker.close()
            how_it_ended = self._how_it_ended.pop(worker)
            return Died(how_it_ended())

    def end(self) -> None:
        """End all processes."""
        self._launcher.end()
        for worker in self._how_it_ended:
            worker.close()


def _cpus() -> int:
    """Return the number of CPUs that this process may use, which a scheduler may have limited."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
