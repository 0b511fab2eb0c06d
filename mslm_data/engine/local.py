"""The local engine: runs tasks in this process, or in a process pool on this machine.

A pool breaks when a worker dies, and does not say at which task. All unfinished tasks are run again
one by one, each in a pool of one worker. If that worker dies too, its task is at fault
(`Worker.died`). Receipts make this cheap.
"""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mslm_data.engine import AnyTask, Crew, Preload, Task, Work, Worker, safe
from mslm_data.errors import MslmDataError

if TYPE_CHECKING:
    from mslm_data.engine.pool import Pool

_EARLY: ContextVar[Pool | None] = ContextVar("early", default=None)
"""The pool started by `ahead` in this context, until a run uses it."""


@contextmanager
def ahead(preload: Preload) -> Iterator[None]:
    """Start loading the data of workers while the caller prepares their tasks.

    The first `run` in the context with an equal preload uses these workers. They end with the
    context at the latest.

    Raises:
        BuildError: A process cannot be started.
    """
    if not _can_fork():
        yield
        return

    from mslm_data.engine.pool import started

    with started(preload) as pool:
        before = _EARLY.set(pool)
        try:
            yield
        finally:
            _EARLY.reset(before)


def run(
    worker: Worker[AnyTask],
    tasks: Sequence[AnyTask],
    *,
    workers: int | None,
    done: Callable[[str], Sequence[AnyTask]],
    preload: Preload,
) -> None:
    """Run tasks in this process (1 worker) or in several local processes; see `Engine`.

    Systems without fork run all tasks in this process.

    Args:
        worker: See `Engine`.
        tasks: See `Engine`.
        workers: Number of processes. None: the number of CPUs in the affinity and control groups of
            this process.
        done: See `Engine`.
        preload: See `Engine`. Loaded once, by the process that workers are forked from.

    Raises:
        BuildError: Processes cannot be started, or keep dying.
        MslmDataError: See `Engine`.
    """
    if workers == 1 or not _can_fork():
        waiting = deque(tasks)
        while waiting:
            task = waiting.popleft()
            if waiting:
                worker.expect(waiting[0])
            waiting += done(worker(task))
        return

    if not tasks:
        return

    # Import late: a run in this process needs none of these.
    from mslm_data.engine.cpus import cpus
    from mslm_data.engine.pool import started
    from mslm_data.kernels import _jit

    _jit.log_compilation_of_workers()  # workers print nothing
    early = _EARLY.get()
    if early is not None and early.preload == preload:
        _EARLY.set(None)  # workers serve one run only
        try:
            _run_all(worker, tasks, early, workers or cpus(), done)
        finally:
            early.end()
    else:
        with started(preload) as pool:
            _run_all(worker, tasks, pool, workers or cpus(), done)


@contextmanager
def start(
    work: Work, workers: int | None, preload: Preload | None, _: Sequence[str | Path]
) -> Iterator[Crew]:
    """Run tasks in this process (1 worker), or in workers of this machine; see `engine.start`.

    Systems without fork run all tasks in this process.
    """
    if workers == 1 or not _can_fork():
        yield _ThisProcess(work)
        return

    # Import late: a run in this process needs none of these.
    from mslm_data.engine.cpus import cpus
    from mslm_data.engine.host import Host
    from mslm_data.kernels import _jit

    _jit.log_compilation_of_workers()  # workers print nothing
    host = Host(work, workers or cpus(), preload)
    try:
        host.start()
        yield host
    finally:
        host.end()


class _ThisProcess:
    """Runs tasks in this process; see `Crew`."""

    size = 1

    def __init__(self, work: Work) -> None:
        self._work = work

    def exchange(self, tasks: Sequence[tuple[int, Task]]) -> tuple[int, Any]:
        ((number, task),) = tasks
        try:
            return number, self._work(task)
        except (MslmDataError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            raise safe(task.name, error) from error


def _can_fork() -> bool:
    return hasattr(os, "fork")


def _run_all(
    worker: Worker[AnyTask],
    tasks: Sequence[AnyTask],
    pool: Pool,
    workers: int,
    done: Callable[[str], Sequence[AnyTask]],
) -> None:
    from mslm_data.engine.pool import Died

    pool.begin(worker)

    waiting = deque(tasks)
    running: dict[int, AnyTask] = {}
    suspects: deque[AnyTask] = deque()
    numbers = itertools.count(1)

    def give(task: AnyTask, size: int) -> None:
        number = next(numbers)
        running[number] = task
        pool.give(number, task, workers=size)

    is_alone = False
    while waiting or suspects or running:
        # Suspects run alone, and only after all other tasks have finished or died.
        if not running:
            is_alone = bool(suspects)
            if is_alone:
                give(suspects.popleft(), 1)
        while waiting and not is_alone and not suspects and len(running) < workers:
            give(waiting.popleft(), workers)

        number, outcome = pool.answer()
        task = running.pop(number)
        if not isinstance(outcome, Died):
            waiting += done(outcome)
        elif is_alone:
            worker.died(task, outcome.how)
            suspects.appendleft(task)
        else:
            worker.suspect(task)
            suspects.append(task)
