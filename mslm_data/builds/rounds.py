"""Runs a build that is written as a generator of tasks.

A story yields a round of tasks that may run in parallel in any process, and receives their answers
when the last task is done. So a build reads from top to bottom, although its tasks run in many
processes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from mslm_data.builds.tasks import Task, read_answer

T = TypeVar("T")
Answers: TypeAlias = Mapping[str, Any]
"""Name of a task -> the value of its answer."""
Story: TypeAlias = Generator[Sequence[Task], Answers, T]
"""Yields rounds of tasks, receives the answers of each round, and returns its result."""


def together(stories: Iterable[Story[T]]) -> Story[list[T]]:
    """Run stories in parallel: their next rounds are joined into one round.

    Returns:
        The result of each story, in order.
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
    """Return the next round of a story, skipping empty rounds.

    Args:
        story: The story.
        answers: The answers of the previous round; None before the first round.

    Raises:
        StopIteration: The story has ended.
    """
    tasks = next(story) if answers is None else story.send(answers)
    while not tasks:
        tasks = story.send({})
    return tasks


class Rounds(Generic[T]):
    """Gives the rounds of a story to an engine, and the answers to the story.

    Attributes:
        made: The result of the story when it has ended, None before.
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
        """Take the answer of a task. Return the next round if it was the last task of its round.

        Raises:
            MslmDataError: Raised by the story.
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
