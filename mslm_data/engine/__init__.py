"""Engines run the tasks of a build: in this process, in worker processes, or on a Ray cluster.

```text
    build ── tasks ──→ Run ── exchange ──→ this process | a host with workers | Ray
          ←─ answers ─     ←─ outcomes ──
```

`start` chooses the processes. `Run` is the same for all: it takes tasks lazily, hands out answers
as they come, and asks what to do when a process has died. A task may run more than once, so it must
be repeatable.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from mslm_data.errors import BuildError, MslmDataError, explain_system_error, place_of
from mslm_data.registry import Registry

WORTH_WORKERS = 32 << 20
"""Minimum input bytes for several workers. Below, starting processes costs more time than it
saves."""


class Task(Protocol):
    """A task for one process, such as a work unit. It must be picklable."""

    @property
    def name(self) -> str:
        """Name for messages; never text of a document."""
        ...


AnyTask = TypeVar("AnyTask", bound=Task)


Work = Callable[[Any], Any]
"""Runs a task and returns its answer. Work, task and answer must be picklable. A `MslmDataError`
reaches the caller of `Run` as it is; of any other exception, only the class and place do."""


class Preload(NamedTuple):
    """A function to call before any task, so that worker processes share the data it loads.

    Attributes:
        function: Import path of the function, `package.module:name`.
        argument: Argument of the function; never text of a document.
    """

    function: str
    argument: str

    def load(self) -> None:
        """Call the function. Its errors are ignored, because tasks meet and report them."""
        from pkgutil import resolve_name  # needed in worker processes only

        with suppress(Exception):
            resolve_name(self.function)(self.argument)


class Died(NamedTuple):
    """The outcome of a task whose process died.

    Attributes:
        how: A signal, an exit code or an error class.
        note: The last value that the task gave to `note`. None: there was none.
    """

    how: str
    note: Any


class Crew(Protocol):
    """Processes that run tasks."""

    @property
    def size(self) -> int:
        """Maximum number of tasks at the same time. It may change."""
        ...

    def exchange(self, tasks: Sequence[tuple[int, Task]]) -> tuple[int, Any]:
        """Start tasks, and wait for the next outcome of any task.

        Args:
            tasks: A number and a task each. At most `size` may run.

        Returns:
            Number of a task; and its answer, a `MslmDataError` or `Died`. The number does not
                matter if processes cannot be started at all.

        Raises:
            BuildError: Processes cannot be started, or are lost.
        """
        ...


class Run:
    """Runs tasks in the processes of a crew. Several rounds of tasks may share one."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._numbers = itertools.count()

    def __call__(
        self,
        tasks: Iterable[AnyTask],
        *,
        died: Callable[[AnyTask, str, Any], AnyTask] | None = None,
    ) -> Iterator[tuple[AnyTask, Any]]:
        """Run tasks, and yield each with its answer as it finishes, in any order.

        Args:
            tasks: The tasks, taken when a process is free.
            died: Called as `died(task, how, note)` when a process has died at a task: with a
                signal, exit code or error class, and the last value that the task gave to `note`.
                Returns the task to run in its place, which is then the one yielded, or raises.
                Default: each task may run twice.

        Raises:
            MslmDataError: A task failed, a process died too often, or no process starts. Other
                tasks are abandoned, and no further round is possible.
        """
        died = died or _once_more()
        waiting = iter(tasks)
        running: dict[int, AnyTask] = {}

        while True:
            free = self._crew.size - len(running)
            new_tasks = itertools.islice(waiting, max(free, 0))
            started = {next(self._numbers): task for task in new_tasks}
            running |= started
            if not running:
                return

            number, outcome = self._crew.exchange([*started.items()])
            if isinstance(outcome, MslmDataError):
                raise outcome
            task = running.pop(number)
            if isinstance(outcome, Died):
                waiting = itertools.chain([died(task, *outcome)], waiting)
            else:
                yield task, outcome


def _once_more() -> Callable[[AnyTask, str, Any], AnyTask]:
    names = set()

    def died(task: AnyTask, how: str, _: Any) -> AnyTask:
        if task.name in names:
            raise death_error(task.name, how)
        names.add(task.name)
        return task

    return died


def death_error(where: str, how: str) -> BuildError:
    """Return the error for a task that a process did not survive, with probable cause and advice.

    Args:
        where: The task or document; never text.
        how: From `Died`.
    """
    cause, advice = "out of memory?", "fewer --workers need less memory"
    if how == _SIGBUS:
        cause = "a file was cut short while it was read, or a disk is full or cannot be read"
        advice = "restore the file or check the disk"
    return BuildError(
        f"{where}: a worker process died twice (the last: {how}, {cause}); {advice}, and the same "
        "command resumes the build"
    )


_SIGBUS = f"signal {int(getattr(signal, 'SIGBUS', 0))}"


@contextmanager
def start(
    work: Work,
    *,
    workers: int | None = None,
    preload: Preload | None = None,
    engine: str = "local",
    paths: Sequence[str | Path] = (),
) -> Iterator[Run]:
    """Start processes for tasks. All of them are gone when the context ends, however it ends.

    Args:
        work: Runs a task.
        workers: Maximum number of tasks at the same time. With 1 on the local engine, and on
            systems without fork, tasks run in this process. Default: the number of available CPUs.
        preload: Loads the data that worker processes share, once per machine if possible.
        engine: `local` for this machine, or `ray` for the cluster of RAY_ADDRESS.
        paths: Files and folders that all machines must see.

    Raises:
        BuildError: No process can be started, there is no cluster, or a machine of it lacks a path
            or a package version.
        PipelineError: There is no such engine.
    """
    if engine == "local" and (workers == 1 or not hasattr(os, "fork")):
        yield Run(_ThisProcess(work))
        return

    with ENGINES.load(engine)(work, workers, preload, paths) as crew:
        yield Run(crew)


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


ENGINES = Registry(
    "engine", {"local": "mslm_data.engine.host:start", "ray": "mslm_data.engine.ray:start"}
)


# In the process of a task -------------------------------------------------------------------------

_noted: Callable[[Any], object] = lambda _: None  # noqa: E731 - a default that engines replace


def note(value: Any) -> None:
    """Note a value, such as the number of a document, in case this process dies at the task.

    `died` of `Run` receives the last value of the task. Without worker processes, nothing happens.

    Args:
        value: A small value, never text.
    """
    _noted(value)


@contextmanager
def sending_notes(to: Callable[[Any], object]) -> Iterator[None]:
    """Pass the values of `note` to a function, in this process."""
    global _noted  # noqa: PLW0603 - a process runs one task at a time
    before = _noted
    _noted = to
    try:
        yield
    finally:
        _noted = before


def safe(name: str, error: BaseException) -> MslmDataError:
    """Return an error that may leave the process of a task and be shown.

    Messages of foreign exceptions may contain text of notes.

    Args:
        name: Name of the task.
        error: Any exception.

    Returns:
        Our own error unchanged, or a `BuildError` with the class and place of any other.
    """
    if isinstance(error, MslmDataError):
        return error
    if isinstance(error, MemoryError):
        return BuildError(f"{name}: out of memory; run the same command again with fewer --workers")
    if isinstance(error, OSError) and (message := explain_system_error(error)):
        return BuildError(f"{name}: {message}")
    return BuildError(
        f"{name}: {type(error).__name__} in {place_of(error)}, which should not happen; "
        "--workers 1 with --debug shows more"
    )
