"""Counts in the background: one at a time, one in a slot, and no error that stays."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from mslm_data.look.background import Background, Progress
from tests.support.waiting import wait_for


def endless(progress: Progress) -> None:
    while True:
        progress(1, 4)


def test_get__another_key_cancels_the_job_of_its_slot_only() -> None:
    background = Background(live=True)
    go_on = threading.Event()
    other = background.get("rates", 1, lambda _: go_on.wait(600))
    first = background.get("counts", 1, endless)

    second = background.get("counts", 2, lambda _: "two")
    assert (first.result, second.result, other.result) == (None, None, None)  # one at a time
    go_on.set()

    wait_for(lambda: first.future.done() and second.future.done())
    assert (first.result, second.result, other.result) == (None, "two", True)
    assert background.get("counts", 2, endless) is second
    assert background.get("counts", 1, lambda _: "one").key == 1
    background.close()


def test_get__waits_for_a_job_that_is_cancelled_meanwhile() -> None:
    background = Background(live=True)
    running = threading.Event()

    def count(progress: Progress) -> None:
        running.set()
        endless(progress)

    with ThreadPoolExecutor(1) as page:
        answer = page.submit(background.get, "counts", 1, count)
        running.wait(600)
        second = background.get("counts", 2, lambda _: "two")

        assert answer.result().result is None
    wait_for(lambda: second.result == "two")
    background.close()


@pytest.mark.parametrize("live", [False, True])
def test_get__keeps_no_error(live: bool) -> None:
    background = Background(live=live)

    def fails(progress: Progress) -> None:
        raise OSError("stale file handle")

    with pytest.raises(OSError, match="stale"):
        wait_for(lambda: background.get("counts", 1, fails).result)
    wait_for(lambda: background.get("counts", 1, lambda _: "counted").result == "counted")

    background.close()


def test_close__ends_a_running_job() -> None:
    background = Background(live=True)
    running = threading.Event()

    def count(progress: Progress) -> None:
        running.set()
        endless(progress)

    job = background.get("counts", 1, count)
    running.wait(600)

    background.close()

    assert job.future.done()
    assert job.result is None
    assert background.get("counts", 2, lambda _: "late").result is None


def test_get__for_a_file_returns_results() -> None:
    assert Background(live=False).get("counts", 1, lambda _: 1).result == 1
