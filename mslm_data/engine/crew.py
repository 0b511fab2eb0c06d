"""Supervises workers, by one law for every engine.

A worker is starting, then idle, then at a task, idle again, and so on until it is ended.

A worker has one task at most. A dead worker is never asked again: another is started in its place
for as long as tasks wait. Two things end a build early. Either workers die in a row before they
are ready, or the work itself says that its task has cost too many of them (`Work.died`).

While all workers start, the leading process does light tasks itself (`Work.is_light`): loading what
workers need takes them half a second.

A finished task may make others possible, so there can be more to do later than at the beginning.
Workers that idle meanwhile are kept, and missing ones are started when there is enough to do.

An engine brings only `Workers`: how its own workers are started, asked and ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, Protocol

from mslm_data.engine import AnyTask, Task, Work
from mslm_data.errors import BuildError, MslmDataError

_FAILED_STARTS = 5
"""So many workers in a row may die before they are ready; then the build gives up."""


class Ready(NamedTuple):
    """The first answer of a worker that can take tasks."""


class Died(NamedTuple):
    """The last answer of a worker, given by whoever noticed its death.

    Attributes:
        how: A signal, an exit code or an error's class; never text of a document.
    """

    how: str


class Answer(NamedTuple):
    """A message from a worker.

    Attributes:
        worker: The one that `Workers.start` returned.
        said: A receipt's name, or an error, for a task; or that the worker is ready, or dead.
    """

    worker: Any
    said: str | MslmDataError | Ready | Died


class Workers(Protocol):
    """The workers of an engine: processes of this machine, or actors of a cluster."""

    where: str
    """The engine, as error messages name it."""
    advice: str
    """Advice for users whose workers do not start."""

    def room(self) -> int:
        """Return how many workers there may be at the moment.

        Raises:
            BuildError: There has been no room for too long.
        """
        ...

    def start(self) -> Any:
        """Start a worker and return it, whatever it is, as long as it can be hashed."""
        ...

    def give(self, worker: Any, task: Task) -> None:
        """Ask a worker for a task. If it is dead by now, `answers` will say so."""
        ...

    def answers(self, *, waits: bool) -> Sequence[Answer]:
        """Return what workers have said.

        Args:
            waits: Whether to wait until they have something to say, or for a few seconds.
        """
        ...

    def end(self) -> None:
        """End every worker that was started, whatever it is at."""
        ...


def supervise(
    work: Work[AnyTask],
    tasks: Sequence[AnyTask],
    workers: Workers,
    done: Callable[[str], Sequence[AnyTask]],
) -> None:
    """Have workers do all tasks, and those that become possible meanwhile; then end the workers.

    Args:
        work: Told of each task whose worker died.
        tasks: What to do first.
        workers: How workers are started, asked and ended.
        done: Called with each task's receipt, as tasks finish; returns what to do besides.

    Raises:
        BuildError: Workers do not start, or died at a task too often.
        MslmDataError: A task failed; tasks that other workers were at are lost.
    """
    try:
        _Crew(work, tasks, workers, done).work_off()
    finally:
        workers.end()


class _Crew(Generic[AnyTask]):
    """The task that each worker is at. Every worker that lives is in one of three places."""

    def __init__(
        self,
        work: Work[AnyTask],
        tasks: Sequence[AnyTask],
        workers: Workers,
        done: Callable[[str], Sequence[AnyTask]],
    ) -> None:
        self._work = work
        self._workers = workers
        self._done = done
        self._waiting = deque(tasks)

        self._starting: set[Any] = set()
        self._idle: list[Any] = []
        self._at: dict[Any, AnyTask] = {}

        self._failed_starts = 0

    def work_off(self) -> None:
        while self._waiting or self._at:
            self._start_missing()
            self._give_out()
            was_busy = self._do_light_task()
            for worker, said in self._workers.answers(waits=not was_busy):
                self._take(worker, said)

    def _start_missing(self) -> None:
        """Start as many workers as there are tasks and there is room for."""
        have = len(self._starting) + len(self._idle) + len(self._at)
        wanted = min(len(self._waiting) + len(self._at), self._workers.room())
        for _ in range(wanted - have):
            self._starting.add(self._workers.start())

    def _give_out(self) -> None:
        while self._waiting and self._idle:
            worker = self._idle.pop()
            task = self._waiting.popleft()
            self._at[worker] = task
            self._workers.give(worker, task)

    def _do_light_task(self) -> bool:
        """Do a light task here as long as all workers start; return whether there was one."""
        if not self._starting or self._idle or self._at:
            return False
        task = next((task for task in self._waiting if self._work.is_light(task)), None)
        if task is None:
            return False

        self._waiting.remove(task)
        self._waiting += self._done(self._work(task))
        return True

    def _take(self, worker: Any, said: str | MslmDataError | Ready | Died) -> None:
        """Take a worker's answer."""
        if isinstance(said, Died):
            self._bury(worker, said.how)
            return
        if isinstance(said, MslmDataError):
            raise said

        if isinstance(said, Ready):
            self._starting.remove(worker)
            self._failed_starts = 0
        else:
            del self._at[worker]
            self._waiting += self._done(said)
        self._idle.append(worker)

    def _bury(self, worker: Any, how: str) -> None:
        """Take the task of a dead worker back, and see whether the build should give up."""
        if worker in self._at:
            task = self._at.pop(worker)
            self._work.died(task, how)
            self._waiting.append(task)
        elif worker in self._starting:
            self._starting.remove(worker)
            self._failed_starts += 1
        else:
            self._idle.remove(worker)

        if self._failed_starts >= _FAILED_STARTS:
            raise BuildError(
                f"{self._workers.where}: expected workers that start, got {self._failed_starts} in "
                f"a row that ended before they were ready (the last: {how}); {self._workers.advice}"
            )
