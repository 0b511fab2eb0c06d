"""Generators that yield rounds of tasks, run side by side."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mslm_data.builds.rounds import Rounds, Story, together
from mslm_data.builds.tasks import Digest, Task, answer


def digest(number: int) -> Digest:
    return Digest(number, ())


def story(*rounds: Sequence[int]) -> Story[list[int]]:
    """Yield rounds of tasks with these numbers, and return the sum of each round's answers."""
    sums = []
    for numbers in rounds:
        answers = yield [digest(number) for number in numbers]
        sums.append(sum(answers.values()))
    return sums


def run(rounds: Rounds[list[int]]) -> list[list[str]]:
    """Answer each task with its number in reverse order. Return the names of each round."""
    task_names = []
    tasks: Sequence[Task] = rounds.first()
    while tasks:
        task_names.append([task.name for task in tasks])
        after: list[Sequence[Task]] = []
        for task in reversed(tasks):
            assert not any(after)
            assert isinstance(task, Digest)
            after.append(rounds.take(answer(task, task.number)))
        tasks = after[-1]
    return task_names


def test_rounds__wait_for_the_last_task_and_skip_empty_rounds() -> None:
    done: list[str] = []
    rounds = Rounds(story([], [1, 2], [], [3], []), done=done.append)

    task_names = run(rounds)

    assert task_names == [["digest-00001", "digest-00002"], ["digest-00003"]]
    assert done == ["digest-00002", "digest-00001", "digest-00003"]
    assert rounds.result == [0, 3, 0, 3, 0]


def test_rounds__end_at_once_without_tasks() -> None:
    rounds = Rounds(story([], []))

    assert not rounds.first()
    assert rounds.result == [0, 0]


def test_together__returns_answers_to_their_own_generator() -> None:
    def both() -> Story[list[int]]:
        first, second = yield from together([story([1], [2, 3], [4]), story([], [10, 20])])
        return [*first, *second]

    rounds = Rounds(both())

    task_names = run(rounds)

    assert [len(names) for names in task_names] == [3, 2, 1]
    assert rounds.result == [1, 5, 4, 0, 30]


def test_rounds__raise_errors_of_the_generator() -> None:
    def fails() -> Story[list[int]]:
        yield [digest(1)]
        raise ValueError("here")

    rounds = Rounds(fails())
    (task,) = rounds.first()

    with pytest.raises(ValueError, match="here"):
        rounds.take(answer(task))
