"""Engines: run the tasks of a build, in this process, in others, or on a Ray cluster.

An engine runs each task at least once; the receipts that tasks leave make it exactly once.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from mslm_data.errors import BuildError, MslmDataError, system_message
from mslm_data.registry import Registry

WORTH_WORKERS = 32 << 20
"""Bytes of input below which starting processes costs more than it saves."""


class Task(Protocol):
    """A piece of work that one process does, such as a work unit. It can be pickled."""

    @property
    def name(self) -> str:
        """The name that messages use; never text of a document."""
        ...

    @property
    def paths(self) -> Sequence[str]:
        """The input files that the task reads, so that a machine can say which it does not see."""
        ...


AnyTask = TypeVar("AnyTask", bound=Task)
Task_contra = TypeVar("Task_contra", bound=Task, contravariant=True)


class Worker(Protocol[Task_contra]):
    """Does tasks. Each process has a copy: it can be pickled, and never carries text."""

    @property
    def folder(self) -> str:
        """The folder that is built. Processes elsewhere check that they see it at the same path."""
        ...

    def __call__(self, task: Task_contra) -> str:
        """Do a task, and return the name of the receipt that it left."""
        ...

    def expect(self, task: Task_contra) -> None:
        """Learn which task this process will do after the next one, and perhaps begin some of it.

        Engines need not announce a task, and one that was announced may never be done.
        """
        ...

    def is_light(self, task: Task_contra) -> bool:
        """Return whether the leading process may do a task while its workers start.

        Such a task is short, needs nothing that is preloaded, and cannot end its process.
        """
        ...

    def suspect(self, task: Task_contra) -> None:
        """Do a task with more care from now on, because it may have crashed its process."""
        ...

    def died(self, task: Task_contra, how: str) -> None:
        """Record that a process died during a task, which will be tried again.

        Args:
            task: The task.
            how: A signal, an exit code or an error's class.

        Raises:
            BuildError: Processes died at this task too often.
        """
        ...


class Preload(NamedTuple):
    """A function that is called before any task, so that worker processes share what it loads.

    Attributes:
        function: The import path of the function, `package.module:name`; not imported here.
        argument: The argument of the function; never text of a document.
    """

    function: str
    argument: str


class Engine(Protocol):
    """Runs tasks anywhere that sees the inputs and the folder."""

    def __call__(
        self,
        worker: Worker[AnyTask],
        tasks: Sequence[AnyTask],
        *,
        workers: int | None,
        done: Callable[[str], Sequence[AnyTask]],
        preload: Preload,
    ) -> None:
        """Have `worker` do every task, and the tasks that become possible through others.

        Tasks are begun in the order given, new ones after those that wait, and end in any order. If
        a process dies, its task is reported to `worker.suspect` or `worker.died`, and run again.

        Args:
            worker: Does a task.
            tasks: What can be done at once.
            workers: Number of tasks that are done at a time. None: the number of CPUs that may be
                used.
            done: Called in this process as tasks finish, with the value that `worker` returned. It
                returns the tasks that have become possible, often none.
            preload: Loads what worker processes share, once per machine if possible.

        Raises:
            MslmDataError: `attempt` returned it for a task, or `worker.died` raised it. The other
                tasks are not waited for.
        """
        ...


def attempt(worker: Worker[AnyTask], task: AnyTask) -> str | MslmDataError:
    """Do a task in a worker process, and return only what may be sent back.

    An exception's message can hold a note's text, so exceptions that are not ours do not travel.

    Returns:
        The receipt's name, or an error: ours unchanged, any other named by its class and place.
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
    except BaseException as error:  # noqa: BLE001 - libraries in Rust raise such
        return BuildError(f"{task.name}: {_unexpected(error)}; --workers 1 with --debug shows more")


def _unexpected(error: BaseException) -> str:
    """Name an exception by its class and place."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}:{frame.lineno}"
    return f"{type(error).__name__} in {place}, which should not happen"


ENGINES = Registry(
    "engine", {"local": "mslm_data.engine.local:run", "ray": "mslm_data.engine.ray:run"}
)
