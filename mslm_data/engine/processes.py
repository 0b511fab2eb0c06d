"""Worker processes of this machine, as a crew asks for them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

from mslm_data.engine import Task, Work
from mslm_data.engine.crew import Answer, Died
from mslm_data.engine.launch import Launcher, cannot_start


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

    def answers(self, *, waits: bool) -> list[Answer]:
        """Return what processes have answered, and which have died; see `Workers`."""
        ready: list[Any] = wait(list(self._how_it_ended), timeout=None if waits else 0)
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
