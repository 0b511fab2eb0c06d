"""Actions before or after the tasks of a build that runs in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mslm_data.builds.tasks import Task
from mslm_data.builds.work import BuildWork


class Interruption(KeyboardInterrupt):
    """Ends a build, like Ctrl-C."""


def interrupt() -> None:
    """End a build."""
    raise Interruption


@contextmanager
def at_task(
    kind: type[Any], number: int, action: Callable[[], object], *, after: bool = False
) -> Iterator[None]:
    """Run an action before or after a task.

    Args:
        kind: Kind of the task, such as `BuildUnit`.
        number: Number of the task among those of its kind, from 1.
        action: The action.
        after: Whether to run it after the task. Default: False.
    """
    count = 0

    def here(task: Task) -> bool:
        nonlocal count
        count += isinstance(task, kind)
        return isinstance(task, kind) and count == number

    with _watched(here, action, after=after):
        yield
    assert count >= number, f"only {count} tasks of {kind.__name__}"


@contextmanager
def _watched(
    here: Callable[[Task], bool], action: Callable[[], object], *, after: bool
) -> Iterator[None]:
    do = BuildWork.__call__

    def watch(self: BuildWork, task: Task) -> Any:
        is_here = here(task)
        if is_here and not after:
            action()
        answer = do(self, task)
        if is_here and after:
            action()
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BuildWork, "__call__", watch)
        yield


@contextmanager
def tasks_run(*, before: Callable[[Task], object] = lambda _: None) -> Iterator[list[Task]]:
    """Collect the tasks that are run.

    Args:
        before: Called with each task before it runs. Default: nothing.
    """
    tasks: list[Task] = []

    def add(task: Task) -> bool:
        tasks.append(task)
        before(task)
        return False

    with _watched(add, lambda: None, after=False):
        yield tasks
