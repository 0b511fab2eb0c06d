"""The embedded engine: this process, or processes on this machine that are replaced when they die."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import get_all_start_methods, get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.forkserver import ensure_running
from multiprocessing.process import BaseProcess
from typing import Any

from mslm_data.data.document import WorkUnit
from mslm_data.engine import PRELOAD, Preload, Work, attempt
from mslm_data.errors import BuildError, of_the_system

_READY = "ready"
_FAILED_STARTS = 3
"""Processes in a row that died before they took a unit after which the build gives up."""


def run(
    work: Work,
    units: Sequence[WorkUnit],
    *,
    workers: int | None,
    done: Callable[[str], None],
    preload: Preload,
) -> None:
    """Run units here (one worker) or in a crew of processes; see `Engine`."""
    if workers == 1:
        for unit in units:
            done(work(unit))
        return
    crew = _Crew(work, units, _context(preload))
    try:
        crew.work_off(workers or os.cpu_count() or 1, done)
    finally:
        crew.dismiss()


class _Crew:
    """Processes, each at one unit at most; a broken pipe is a dead process."""

    def __init__(self, work: Work, units: Sequence[WorkUnit], context: BaseContext) -> None:
        self._work, self._waiting, self._context = work, deque(units), context
        self._hands: dict[Connection, BaseProcess] = {}
        self._at: dict[Connection, WorkUnit] = {}
        self._begun: set[Connection] = set()
        self._failed_starts = 0

    def work_off(self, workers: int, done: Callable[[str], None]) -> None:
        """Do all units with some processes."""
        while self._waiting or self._at:
            while self._waiting and len(self._at) < workers:
                self._give(self._waiting.popleft())
            for pipe in wait(list(self._at)):
                self._take(pipe, done)  # type: ignore[arg-type]

    def _give(self, unit: WorkUnit) -> None:
        """Hand a unit to an idle process, or to a new one."""
        pipe = next((pipe for pipe in self._hands if pipe not in self._at), None) or self._hire()
        self._at[pipe] = unit
        with suppress(OSError):  # it is dead, which its pipe says too
            pipe.send(unit)

    def _take(self, pipe: Connection, done: Callable[[str], None]) -> None:
        """Take what a process has made, or its unit back if it is dead."""
        unit = self._at.pop(pipe)
        try:
            outcome = pipe.recv()
        except (EOFError, OSError):
            self._lost(pipe, unit)
            return
        if outcome == _READY:
            self._begun.add(pipe)
            self._at[pipe] = unit
            self._failed_starts = 0
        elif isinstance(outcome, Exception):
            raise outcome
        else:
            done(outcome)

    def _lost(self, pipe: Connection, unit: WorkUnit) -> None:
        """Take a unit back from a dead process."""
        pipe.close()
        self._hands.pop(pipe).join()
        if pipe in self._begun:
            self._begun.remove(pipe)
            self._work.died(unit)
        else:
            self._failed_starts += 1
        if self._failed_starts >= _FAILED_STARTS:
            raise BuildError(
                "build: expected processes that start, got none; a script that builds with workers wants its calls "
                "below `if __name__ == '__main__':`, and --workers 1 needs no processes"
            )
        self._waiting.append(unit)

    def _hire(self) -> Connection:
        ours, theirs = self._context.Pipe()
        process: Any = self._context.Process(target=_hand, args=(self._work, theirs), daemon=True)  # type: ignore[attr-defined]
        try:
            process.start()
        except (EOFError, OSError) as error:
            raise BuildError(
                f"build: expected to start a process, got {type(error).__name__} (out of memory?)"
            ) from None
        theirs.close()  # so that its death breaks the pipe
        self._hands[ours] = process
        return ours

    def dismiss(self) -> None:
        """End all processes; what one was at is done again some day."""
        for process in self._hands.values():
            process.terminate()
        for pipe, process in self._hands.items():
            process.join()
            pipe.close()


def _hand(work: Work, pipe: Connection) -> None:
    """Do units until there are no more, in a process of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is meant for the process that leads
    os.umask(0o077)
    threading.Thread(target=_end_with_leader, daemon=True).start()
    with suppress(EOFError, OSError):
        pipe.send(_READY)
        while True:
            pipe.send(attempt(work, pipe.recv()))


def _end_with_leader() -> None:
    """Leave when the process that leads is gone, and with it the lock on the folder."""
    leader = parent_process()
    if leader:
        wait([leader.sentinel])
        os._exit(1)


def _context(preload: Preload) -> BaseContext:
    """Return how processes start: forked from one that has what all need in memory, which this call starts.

    Where that is not to be had they start anew and each loads what it needs. Forking this very process is no choice: it
    may have threads.
    """
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload([preload.module])
    before = os.environ.get(PRELOAD)
    os.environ[PRELOAD] = preload.told
    try:
        ensure_running()
    except OSError as error:
        raise BuildError(
            f"build: expected to start processes, got {of_the_system(error) or type(error).__name__}; is the path of "
            "the temporary folder (TMPDIR) longer than a socket's may be? --workers 1 needs none"
        ) from None
    finally:
        del os.environ[PRELOAD]
        if before is not None:
            os.environ[PRELOAD] = before
    return context
