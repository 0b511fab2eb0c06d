"""Generators that tell what a build does in order, and the driver that has engines do it.

A story yields a round of tasks that may run at once, anywhere, and is sent their answers when the
last one is done. So it reads from top to bottom, though its tasks run on many processes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from mslm_data.builds.tasks import Task, read_answer

T = TypeVar("T")
Answers: TypeAlias = Mapping[str, Any]
"""Name of a task -> what it was answered with."""
Story: TypeAlias = Generator[Sequence[Task], Answers, T]
"""Yields rounds of tasks, is sent the answers of each, and returns what it has made."""


def together(stories: Iterable[Story[T]]) -> Story[list[T]]:
    """Tell several stories at once: their next rounds are one round.

    Returns:
        What each has made, in order.
    """
    made: dict[int, T] = {}
    running = dict(enumerate(stories))
    answers: dict[int, Answers | None] = dict.fromkeys(running)
    while running:
        rounds: dict[int, Sequence[Task]] = {}
        for number, story in [*running.items()]:
            try:
                rounds[number] = advance(story, answers[number])
            except StopIteration as end:
                made[number] = end.value
                del running[number]

        if rounds:
            every = yield [task for tasks in rounds.values() for task in tasks]
            for number, tasks in rounds.items():
                answers[number] = {task.name: every[task.name] for task in tasks}
    return [made[number] for number in sorted(made)]


def advance(story: Story[Any], answers: Answers | None) -> Sequence[Task]:
    """Return the next round of a story that is not empty.

    Args:
        story: The story.
        answers: Of the round before; None before the first.

    Raises:
        StopIteration: It has come to its end.
    """
    tasks = next(story) if answers is None else story.send(answers)
    while not tasks:
        tasks = story.send({})
    return tasks


class Rounds(Generic[T]):
    """Hands the rounds of a story to an engine, and the answers back.

    Attributes:
        made: What the story returned, once it has come to its end.
    """

    def __init__(self, story: Story[T], *, done: Callable[[str], object] = lambda _: None) -> None:
        """Begin a story.

        Args:
            story: The story.
            done: Called with the name of each task that is done.
        """
        self._story = story
        self._done = done
        self._waiting: set[str] = set()
        self._answers: dict[str, Any] = {}
        self.made: T | None = None

    def first(self) -> Sequence[Task]:
        """Return the tasks of the first round."""
        return self._next(None)

    def take(self, text: str) -> Sequence[Task]:
        """Take the answer of a task, and return the next round after the last one of this round.

        Raises:
            MslmDataError: Whatever the story raises.
        """
        name, value = read_answer(text)
        self._waiting.discard(name)
        self._answers[name] = value
        self._done(name)
        return () if self._waiting else self._next(self._answers)

    def _next(self, answers: Answers | None) -> Sequence[Task]:
        try:
            tasks = advance(self._story, answers)
        except StopIteration as end:
            self.made = end.value
            return ()

        self._waiting = {task.name for task in tasks}
        self._answers = {}
        return tasks
