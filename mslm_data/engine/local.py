"""The embedded engine: this process, or a pool of processes of this machine.

A pool breaks when one of its workers dies, and cannot say at which task. So the tasks that were
under way are done again one at a time, each in a pool of one worker: if that dies too, its task is
to blame (`Worker.died`). The receipts of tasks make this cheap.
"""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from mslm_data.engine import AnyTask, Preload, Worker

if TYPE_CHECKING:
    from mslm_data.engine.pool import Pool

_EARLY: ContextVar[Pool | None] = ContextVar("early", default=None)
"""The pool that `ahead` has started in this thread and no run has used."""


@contextmanager
def ahead(preload: Preload) -> Iterator[None]:
    """Have what workers need be loaded while the caller finds out what they are to do.

    The first `run` within the block that needs the same takes its workers from it. At the end of
    the block all of them are gone, whether there was such a run or not.

    Raises:
        BuildError: The system starts no process.
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
    """Run tasks in this process (one worker) or in processes of this machine; see `Engine`.

    On systems that cannot fork, this process does all tasks.

    Args:
        worker: See `Engine`.
        tasks: See `Engine`.
        workers: Number of processes; None: one for each CPU that this process may use, by its
            affinity and its control groups.
        done: See `Engine`.
        preload: See `Engine`; loaded once, by the process that the workers are forked from.

    Raises:
        BuildError: Processes cannot be started, or do not live.
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

    # Imported here, as a process that does everything itself needs none of them.
    from mslm_data.engine.cpus import cpus
    from mslm_data.engine.pool import started
    from mslm_data.kernels import _jit

    _jit.say_if_none_is_compiled()  # workers say nothing
    early = _EARLY.get()
    if early is not None and early.preload == preload:
        _EARLY.set(None)  # its workers end with this run
        try:
            _work_off(worker, tasks, early, workers or cpus(), done)
        finally:
            early.end()
    else:
        with started(preload) as pool:
            _work_off(worker, tasks, pool, workers or cpus(), done)


def _can_fork() -> bool:
    return hasattr(os, "fork")


def _work_off(
    worker: Worker[AnyTask],
    tasks: Sequence[AnyTask],
    pool: Pool,
    workers: int,
    done: Callable[[str], Sequence[AnyTask]],
) -> None:
    from mslm_data.engine.pool import Died

    waiting = deque(tasks)

    # Loading what workers need takes half a second.
    while not pool.is_ready():
        task = next(filter(worker.is_light, waiting), None)
        if task is None:
            break
        waiting.remove(task)
        waiting += done(worker(task))
    pool.begin(worker)

    under_way: dict[int, AnyTask] = {}
    suspects: deque[AnyTask] = deque()
    numbers = itertools.count(1)

    def give(task: AnyTask, size: int) -> None:
        number = next(numbers)
        under_way[number] = task
        pool.give(number, task, workers=size)

    is_alone = False
    while waiting or suspects or under_way:
        if not under_way:
            is_alone = bool(suspects)
            if is_alone:
                give(suspects.popleft(), 1)
        while waiting and not is_alone and not suspects and len(under_way) < workers:
            give(waiting.popleft(), workers)

        number, outcome = pool.answer()
        task = under_way.pop(number)
        if not isinstance(outcome, Died):
            waiting += done(outcome)
        elif is_alone:
            worker.died(task, outcome.how)
            suspects.appendleft(task)
        else:
            worker.suspect(task)
            suspects.append(task)
