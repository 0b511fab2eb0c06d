"""Engines run the tasks of a build: in this process, in a process pool, or on a Ray cluster.

An engine runs each task at least once. Tasks leave receipts, so a repeated task does nothing new.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from mslm_data.errors import BuildError, MslmDataError, system_message
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

    @property
    def paths(self) -> Sequence[str]:
        """The input files of the task. An engine reports files missing on a machine."""
        ...


AnyTask = TypeVar("AnyTask", bound=Task)
Task_contra = TypeVar("Task_contra", bound=Task, contravariant=True)


class Worker(Protocol[Task_contra]):
    """Runs tasks.

    It must be picklable, because each process gets a copy, and must not contain text.
    """

    @property
    def folder(self) -> str:
        """The output folder. Other processes check that they see it at the same path."""
        ...

    def __call__(self, task: Task_contra) -> str:
        """Run a task, and return its answer."""
        ...

    def expect(self, task: Task_contra) -> None:
        """Prepare for the next task of this process, while the current one runs.

        Engines need not call this, and an announced task may never run here.
        """
        ...

    def suspect(self, task: Task_contra) -> None:
        """Run a task with crash logging from now on, because it may have crashed its process."""
        ...

    def died(self, task: Task_contra, how: str) -> None:
        """Record the death of a process during a task. The task will be run again.

        Args:
            task: The task.
            how: A signal, an exit code or an error class.

        Raises:
            BuildError: The task has crashed processes too often.
        """
        ...


class Preload(NamedTuple):
    """A function to call before any task, so that worker processes share the data it loads.

    Attributes:
        function: Import path of the function, `package.module:name`.
        argument: Argument of the function; never text of a document.
    """

    function: str
    argument: str


class Engine(Protocol):
    """Runs tasks on machines that see the inputs and the output folder."""

    def __call__(
        self,
        worker: Worker[AnyTask],
        tasks: Sequence[AnyTask],
        *,
        workers: int | None,
        done: Callable[[str], Sequence[AnyTask]],
        preload: Preload,
    ) -> None:
        """Run all tasks, and the tasks made possible by their answers.

        Tasks start in the given order, new ones last, and finish in any order. If a process dies,
        the engine calls `worker.suspect` or `worker.died` and runs the task again.

        Args:
            worker: Runs a task.
            tasks: The first tasks.
            workers: Maximum number of tasks at the same time. None: the number of available CPUs.
            done: Called in this process with the answer of each task. Returns the tasks that have
                become possible, often none.
            preload: Loads the data that worker processes share, once per machine if possible.

        Raises:
            MslmDataError: A task failed, or `worker.died` raised. Other tasks are abandoned.
        """
        ...


def attempt(worker: Worker[AnyTask], task: AnyTask) -> str | MslmDataError:
    """Run a task in a worker process, and return its answer or a safe error.

    Messages of foreign exceptions may contain text of notes, so these exceptions are not sent.

    Returns:
        The answer, our own error unchanged, or a `BuildError` with the class and place of any
            other.
    """
    try:
        return worker(task)
    except MslmDataError as error:
        return error
    except MemoryError:
        return BuildError(
            f"{task.name}: out of memory; run the same command again with fewer --workers"
        )
    except OSError as error:
        problem = system_message(error) or _unexpected(error)
        return BuildError(f"{task.name}: {problem}; fix this and run the same command again")
    except BaseException as error:  # noqa: BLE001 - panics of Rust libraries are BaseExceptions
        return BuildError(f"{task.name}: {_unexpected(error)}; --workers 1 with --debug shows more")


def _unexpected(error: BaseException) -> str:
    """Describe an exception by its class and place."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}:{frame.lineno}"
    return f"{type(error).__name__} in {place}, which should not happen"


ENGINES = Registry(
    "engine", {"local": "mslm_data.engine.local:run", "ray": "mslm_data.engine.ray:run"}
)
