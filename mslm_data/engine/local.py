"""The embedded engine: this process, or processes of this machine that are replaced if they die."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

from mslm_data.engine import AnyTask, Preload, Work

if TYPE_CHECKING:
    from mslm_data.engine.launch import Launcher


class _Early(NamedTuple):
    """A launcher of workers, and what it has loaded for them."""

    preload: Preload
    launcher: Launcher


_EARLY: ContextVar[_Early | None] = ContextVar("early", default=None)
"""The launcher that `ahead` has started in this thread and no run has used."""


@contextmanager
def ahead(preload: Preload) -> Iterator[None]:
    """Have what workers need be loaded while the caller finds out what they are to do.

    The first `run` within the block that needs the same takes its workers from it. At the end of
    the block all of them are gone, whether there was such a run or not.

    Raises:
        BuildError: The system starts no process.
    """
    from mslm_data.engine.launch import launching

    with launching(preload) as launcher:
        before = _EARLY.set(_Early(preload, launcher))
        try:
            yield
        finally:
            _EARLY.reset(before)


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
        workers: Number of processes; None: one for each CPU that this process may use, by its
            affinity and its control groups.
        done: See `Engine`.
        preload: See `Engine`; loaded once, by the process that the workers are forked from.

    Raises:
        BuildError: Processes cannot be started, or do not live.
        MslmDataError: See `Engine`.
    """
    if workers == 1:
        waiting = deque(tasks)
        while waiting:
            task = waiting.popleft()
            if waiting:
                work.expect(waiting[0])
            waiting += done(work(task))
        return

    if not tasks:
        return

    # Imported here, as a process that does everything itself needs none of them.
    from mslm_data.engine.cpus import cpus
    from mslm_data.engine.crew import supervise
    from mslm_data.engine.launch import launching
    from mslm_data.engine.processes import Processes
    from mslm_data.kernels import _jit

    _jit.say_if_none_is_compiled()  # workers say nothing
    early = _EARLY.get()
    if early is not None and early.preload == preload:
        _EARLY.set(None)  # its workers end with this run
        started: AbstractContextManager[Launcher] = nullcontext(early.launcher)
    else:
        started = launching(preload)
    with started as launcher:
        supervise(work, tasks, Processes(work, workers or cpus(), launcher), done)
