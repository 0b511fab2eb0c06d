"""Counts in the background: one at a time in a slot, cancelled by the next."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from mslm_data.look import jobs as jobs_module
from mslm_data.look.jobs import Job, Jobs, Progress
from tests.support.waiting import wait_for


def endless(progress: Progress) -> None:
    while True:
        progress(1, 4)


def test_get__cancels_the_running_job_of_its_slot_only() -> None:
    jobs = Jobs(in_background=True)
    go_on = threading.Event()
    other = jobs.get("rates", 1, lambda _: go_on.wait(600))
    first = jobs.get("counts", 1, endless)

    second = jobs.get("counts", 2, lambda _: "two")
    go_on.set()

    wait_for(lambda: first.is_ready and second.is_ready)
    assert (first.result, first.error) == (None, None)
    assert (second.result, other.result) == ("two", True)


def test_get__restarts_a_cancelled_job_and_keeps_results() -> None:
    jobs = Jobs(in_background=True)
    jobs.get("counts", 1, endless)
    jobs.get("counts", 2, lambda _: "two", patience=600)

    again = jobs.get("counts", 1, lambda _: "one", patience=600)
    kept = jobs.get("counts", 2, endless)

    assert (again.result, kept.result) == ("one", "two")


def test_get__forgets_cancelled_jobs_before_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_module, "_KEPT", 3)
    jobs = Jobs(in_background=True)
    jobs.get("corpus", 0, lambda _: "counted", patience=600)

    # Wait until each runs: a job that another overtakes ends only after it.
    running = threading.Event()

    def run_until_cancelled(progress: Progress) -> None:
        running.set()
        endless(progress)

    first = jobs.get("counts", 1, run_until_cancelled)
    running.wait(600)
    running.clear()
    second = jobs.get("counts", 2, run_until_cancelled)
    wait_for(lambda: first.is_ready)
    running.wait(600)
    jobs.get("counts", 3, endless)

    wait_for(lambda: second.is_ready)
    assert jobs.get("corpus", 0, endless).result == "counted"
    jobs.cancel()


def test_get__two_pages_that_ask_again_both_get_their_counts() -> None:
    jobs = Jobs(in_background=True)
    go_on = threading.Event()

    def count(progress: Progress) -> str:
        go_on.wait(600)
        progress(1, 2)
        return "counted"

    for _ in range(3):
        asked = [jobs.get("counts", page, count) for page in (1, 2)]
    go_on.set()

    wait_for(lambda: all(job.is_ready for job in asked))
    assert [job.result for job in asked] == ["counted", "counted"]


def test_get__waits_for_a_cancelled_job_without_an_error() -> None:
    jobs = Jobs(in_background=True)
    waiting = threading.Event()

    def count(progress: Progress) -> None:
        waiting.set()
        endless(progress)

    with ThreadPoolExecutor(1) as page:
        answer = page.submit(jobs.get, "counts", 1, count, patience=600)
        waiting.wait(600)
        jobs.get("counts", 2, lambda _: "two")

        assert answer.result().result is None


def test_get__without_begin_only_cancels() -> None:
    jobs = Jobs(in_background=True)
    first = jobs.get("counts", 1, endless)

    second = jobs.get("counts", 2, endless, begin=False)

    wait_for(lambda: first.is_ready)
    assert not second.is_ready


def test_get__without_background_waits_and_raises_errors() -> None:
    jobs = Jobs(in_background=False)

    def fails(progress: Progress) -> None:
        raise ValueError("no")

    assert jobs.get("counts", 1, lambda _: 1).result == 1
    with pytest.raises(ValueError, match="no"):
        jobs.get("counts", 2, fails)


def test_job__reports_progress() -> None:
    job = Job(lambda progress: progress(1, 4))

    job.run()

    assert job.done == 0.25
