"""Runs a build, written as a generator of tasks.

A story yields a round of tasks, which may run in parallel in any process, and receives their
answers after the last one. So a build reads from top to bottom although many processes run it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from mslm_data.builds.tasks import Task, read_answer

T = TypeVar("T")
Answers: TypeAlias = Mapping[str, Any]
"""Task name -> the value of its answer."""
Story: TypeAlias = Generator[Sequence[Task], Answers, T]
"""Yields rounds of tasks, receives their answers, and returns a result."""


def together(stories: Iterable[Story[T]]) -> Story[list[T]]:
    """Run stories in parallel by merging their next rounds into one.

    Returns:
        The result of each story, in order.
    """
    result: dict[int, T] = {}
    running = dict(enumerate(stories))
    answers: dict[int, Answers | None] = dict.fromkeys(running)
    while running:
        rounds: dict[int, Sequence[Task]] = {}
        for number, story in [*running.items()]:
            try:
                rounds[number] = advance(story, answers[number])
            except StopIteration as end:
                result[number] = end.value
                del running[number]

        # Stories that have ended drop out; each remaining story gets only its own answers.
        if rounds:
            all_answers = yield [task for tasks in rounds.values() for task in tasks]
            for number, tasks in rounds.items():
                answers[number] = {task.name: all_answers[task.name] for task in tasks}
    return [result[number] for number in sorted(result)]


def advance(story: Story[Any], answers: Answers | None) -> Sequence[Task]:
    """Return the next round of a story, skipping empty rounds.

    Args:
        story: The story.
        answers: The answers to its last round; None starts the story.

    Raises:
        StopIteration: The story has ended.
    """
    tasks = next(story) if answers is None else story.send(answers)
    while not tasks:
        tasks = story.send({})
    return tasks


class Rounds(Generic[T]):
    """Passes the rounds of a story to an engine, and the answers back to the story.

    Attributes:
        result: The result of the story; None until it ends.
    """

    def __init__(self, story: Story[T], *, done: Callable[[str], object] = lambda _: None) -> None:
        """Start a story.

        Args:
            story: The story.
            done: Called with the name of each finished task.
        """
        self._story = story
        self._done = done
        self._waiting: set[str] = set()
        self._answers: dict[str, Any] = {}
        self.result: T | None = None

    def first(self) -> Sequence[Task]:
        """Return the first round."""
        return self._next(None)

    def take(self, text: str) -> Sequence[Task]:
        """Take the answer of a task. Return the next round after the last answer of this one.

        Raises:
            MslmDataError: From the story.
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
            self.result = end.value
            return ()

        self._waiting = {task.name for task in tasks}
        self._answers = {}
        return tasks
