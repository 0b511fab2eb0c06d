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


class Work(Protocol[Task_contra]):
    """The work done on each task. It can be pickled, and never carries text."""

    @property
    def folder(self) -> str:
        """The folder that is built: workers elsewhere check that they see it at the same path."""
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
        """Do a task with more care from now on, as it may be what ended its worker."""
        ...

    def died(self, task: Task_contra, how: str) -> None:
        """Record that a worker died while it was at a task, which will be tried again.

        Args:
            task: The task.
            how: A signal, an exit code or an error's class.

        Raises:
            BuildError: Workers died at this task too often.
        """
        ...


class Preload(NamedTuple):
    """A function that is called before tasks are done, so that workers share what it loads.

    Attributes:
        function: Its place, such as `package.module:name`. Naming it imports nothing here.
        told: Its argument; no text of any document.
    """

    function: str
    told: str


class Engine(Protocol):
    """Runs tasks anywhere that sees the inputs and the folder."""

    def __call__(
        self,
        work: Work[AnyTask],
        tasks: Sequence[AnyTask],
        *,
        workers: int | None,
        done: Callable[[str], Sequence[AnyTask]],
        preload: Preload,
    ) -> None:
        """Run `work` on every task, and on the tasks that become possible through others.

        Tasks are begun in the order given, new ones after those that wait, and end in any order. If
        a worker dies, its task is told to `work.suspect` or `work.died` and run again elsewhere.

        Args:
            work: What is done to each task.
            tasks: What can be done at once.
            workers: How many tasks are done at a time; None: as many as there are CPUs
                that may be used.
            done: Called here, as tasks finish, with the value that `work` returned. It returns the
                tasks that have become possible through it, often none.
            preload: What workers need in memory before they begin, loaded once a machine if
                possible.

        Raises:
            MslmDataError: `attempt` returned it for a task, or `work.died` raised it. The other
                tasks are not waited for.
        """
        ...


def attempt(work: Work[AnyTask], task: AnyTask) -> str | MslmDataError:
    """Do a task in a worker, and return only what may travel back.

    An exception's message can hold a note's text, so exceptions that are not ours do not travel.

    Returns:
        The receipt's name, or an error: ours unchanged, any other named by its class and place.
    """
    try:
        return work(task)
    except MslmDataError as error:
        return error
    except MemoryError:
        return BuildError(
            f"{task.name}: out of memory; run the same command again with fewer --workers"
        )
    except OSError as error:
        said = system_message(error) or _unexpected(error)
        return BuildError(f"{task.name}: {said}; mend this and run the same command again")
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
