"""Open runs of a plan, shared by processes that each do one at a time.

A process holds a lock on its run. The lock ends with the process, so an interrupted run is open
again.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from experiments import lines
from experiments.lines import Run
from experiments.plan import Questions, plan


@dataclass(frozen=True, kw_only=True)
class Queue:
    """Open runs, in the order of their plan.

    Attributes:
        names: Names of the questions.
        questions: Name of a question -> its steps.
        wanted: Returns whether a run is to be done.
        results: Folder of the lines.
        start: Digest of the initial weights on this machine.
        locks: Folder of the locks, the same for all processes.
    """

    names: Sequence[str]
    questions: Questions
    wanted: Callable[[Run], bool]
    results: Path
    start: str
    locks: Path

    def done(self) -> bool:
        """Return whether all runs have lines."""
        starts = lines.starts(finished := lines.read(self.results))
        return all(
            step.done(starts)
            for step in plan(self.names, finished, self.questions)
            if self.wanted(step.run)
        )

    def take(self) -> tuple[Run, AbstractContextManager[Any]] | None:
        """Take the first open run.

        Returns:
            The run and its lock, a context to do the run in; None if all open runs are taken or
            wait for a taken run.
        """
        self.locks.mkdir(parents=True, exist_ok=True)
        for run in self._open():
            name = hashlib.sha256(run.key.encode()).hexdigest()[:16]
            with contextlib.suppress(Timeout):
                lock = FileLock(self.locks / f"{name}.lock")
                held = lock.acquire(blocking=False)
                # Another process may have finished it since the lines were read.
                if run in self._open():
                    return run, held
                lock.release()
        return None

    def _open(self) -> Iterator[Run]:
        starts = lines.starts(finished := lines.read(self.results))
        for step in plan(self.names, finished, self.questions):
            if self.wanted(step.run):
                yield from step.open_runs(starts, self.start)
