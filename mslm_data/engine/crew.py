"""Supervises workers, by one law for every engine.

A worker is starting, then idle, then at a unit, idle again, and so on until it is ended.

A worker has one unit at most. A dead worker is never asked again: another is started in its place
for as long as units wait. Two things end a build early. Either workers die in a row before they
are ready, or the work itself says that its unit has cost too many of them (`Work.died`).

An engine brings only `Workers`: how its own workers are started, asked and ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from mslm_data.data.document import WorkUnit
from mslm_data.engine import Work
from mslm_data.errors import BuildError, MslmDataError

_FAILED_STARTS = 5
"""So many workers in a row may die before they are ready; then the build gives up."""


class Ready(NamedTuple):
    """The first answer of a worker that can take units."""


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
        said: A receipt's name, or an error, for a unit; or that the worker is ready, or dead.
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

    def give(self, worker: Any, unit: WorkUnit) -> None:
        """Ask a worker for a unit. If it is dead by now, `answers` will say so."""
        ...

    def answers(self) -> Sequence[Answer]:
        """Wait until workers have something to say, or for a few seconds."""
        ...

    def end(self) -> None:
        """End every worker that was started, whatever it is at."""
        ...


def supervise(
    work: Work, units: Sequence[WorkUnit], workers: Workers, done: Callable[[str], None]
) -> None:
    """Have workers do all units, and end the workers.

    Args:
        work: Told of each unit whose worker died.
        units: What to do.
        workers: How workers are started, asked and ended.
        done: Called with each unit's receipt, as units finish.

    Raises:
        BuildError: Workers do not start, or died at a unit too often.
        MslmDataError: A unit failed; units that other workers were at are lost.
    """
    try:
        _Crew(work, units, workers).work_off(done)
    finally:
        workers.end()


class _Crew:
    """The work unit that each worker is at. Every worker that lives is in one of three places."""

    def __init__(self, work: Work, units: Sequence[WorkUnit], workers: Workers) -> None:
        self._work = work
        self._workers = workers
        self._waiting = deque(units)

        self._starting: set[Any] = set()
        self._idle: list[Any] = []
        self._at: dict[Any, WorkUnit] = {}

        self._failed_starts = 0

    def work_off(self, done: Callable[[str], None]) -> None:
        while self._waiting or self._at:
            self._start_missing()
            self._give_out()
            for worker, said in self._workers.answers():
                self._take(worker, said, done)

    def _start_missing(self) -> None:
        """Start as many workers as there are units and there is room for."""
        have = len(self._starting) + len(self._idle) + len(self._at)
        wanted = min(len(self._waiting) + len(self._at), self._workers.room())
        for _ in range(wanted - have):
            self._starting.add(self._workers.start())

    def _give_out(self) -> None:
        while self._waiting and self._idle:
            worker = self._idle.pop()
            unit = self._waiting.popleft()
            self._at[worker] = unit
            self._workers.give(worker, unit)

    def _take(
        self,
        worker: Any,
        said: str | MslmDataError | Ready | Died,
        done: Callable[[str], None],
    ) -> None:
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
            done(said)
        self._idle.append(worker)

    def _bury(self, worker: Any, how: str) -> None:
        """Take the unit of a dead worker back, and see whether the build should give up."""
        if worker in self._at:
            unit = self._at.pop(worker)
            self._work.died(unit)
            self._waiting.append(unit)
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
