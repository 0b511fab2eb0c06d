"""Counts whole splits in the background: one thread, and one job for each kind of count."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from typing import Any

Progress = Callable[[int, int], None]
"""Called with the amount done and the total. It raises `CancelledError` in a cancelled job."""
_PATIENCE_S = 0.02
"""Seconds from the start of a job during which a page waits for it, to come with a quick count."""
_LOW = 10
"""Priority of the thread, as for `nice`."""


class Job:
    """A count in the background.

    Attributes:
        key: All inputs of the result.
        done: Progress in `[0, 1]`.
        result: The result; None before the end.
        future: The run of the job.
    """

    future: Future[None]

    def __init__(self, key: Hashable, function: Callable[[Progress], Any]) -> None:
        """Keep the function for `run`."""
        self.key = key
        self.done = 0.0
        self.result: Any = None
        self._function = function
        self._is_wanted = True
        self._start = time.monotonic()

    def run(self) -> None:
        """Call the function, and keep its result."""
        self._progress(0, 1)
        self.result = self._function(self._progress)

    def cancel(self) -> None:
        """End the function at its next progress report."""
        self._is_wanted = False

    def wait(self) -> None:
        """Wait until the job has ended, or is no longer a quick one.

        Raises:
            Exception: The error of the function.
        """
        wait([self.future], max(self._start + _PATIENCE_S - time.monotonic(), 0))
        if self.future.done() and self._is_wanted:
            self.future.result()

    def _progress(self, done: int, whole: int) -> None:
        if not self._is_wanted:
            raise CancelledError
        self.done = done / whole if whole else 1.0


class Background:
    """Runs jobs one after another, and keeps the last job of each slot.

    Attributes:
        live: Whether `get` may return unfinished jobs. Otherwise jobs run at once, for a file.
    """

    def __init__(self, *, live: bool) -> None:
        """Start without jobs."""
        self.live = live
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, "mslm-data-look", _lower_priority)
        self._jobs: dict[str, Job] = {}
        self._is_closed = False

    def get(self, slot: str, key: Hashable, function: Callable[[Progress], Any]) -> Job:
        """Return the job of a slot for a key. Another key cancels the job before it.

        Args:
            slot: Name of the kind of count, such as `rates`.
            key: All inputs of the result.
            function: Computes the result. It must report progress often, to be cancelled soon.

        Returns:
            The job. It has no result yet if it is unfinished, or was cancelled meanwhile, and none
            after `close`.

        Raises:
            Exception: The error of the function. It is not kept: the next call tries again.
        """
        if not self.live:
            job = Job(key, function)
            job.run()
            return job

        with self._lock:
            if self._is_closed:
                return Job(key, function)
            before = self._jobs.get(slot)
            if before is not None and before.key == key:
                job = before
            else:
                job = Job(key, function)
                job.future = self._pool.submit(job.run)
                self._jobs[slot] = job
                if before is not None:
                    before.cancel()

        # Outside the lock, so that other requests can cancel the job.
        try:
            job.wait()
        except Exception:
            with self._lock:
                if self._jobs.get(slot) is job:
                    del self._jobs[slot]
            raise
        return job

    def close(self) -> None:
        """Cancel all jobs, and wait for the end of the running one."""
        with self._lock:
            self._is_closed = True
            for job in self._jobs.values():
                job.cancel()
        self._pool.shutdown(cancel_futures=True)


def _lower_priority() -> None:
    """Let requests come first."""
    if sys.platform == "linux":  # elsewhere it would change the whole process
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOW)
