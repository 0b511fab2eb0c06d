"""The local engine: runs tasks in this process, or in worker processes of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mslm_data.engine import Crew, Preload, Task, Work, safe
from mslm_data.errors import MslmDataError


@contextmanager
def start(
    work: Work, workers: int | None, preload: Preload | None, _: Sequence[str | Path]
) -> Iterator[Crew]:
    """Run tasks in this process (1 worker), or in workers of this machine; see `engine.start`.

    Systems without fork run all tasks in this process.
    """
    if workers == 1 or not hasattr(os, "fork"):
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
