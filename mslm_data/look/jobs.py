"""Runs counts of whole splits in the background; a newer count cancels an older one."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Hashable
from typing import Any

Progress = Callable[[int, int], None]
"""Called with the amount done and the total. It raises `CancelledError` in a cancelled job."""
_LOW = 10
"""Priority of job threads, as for `nice`."""
_KEPT = 256
"""Maximum number of jobs in the cache. A slider that moves leaves many cancelled ones."""


class CancelledError(Exception):
    """A job was cancelled."""


class Job:
    """A function that runs in the background.

    Attributes:
        done: Progress in `[0, 1]`.
        result: Return value; None before the end, and if the job was cancelled.
        error: Exception raised by the function, or None.
    """

    def __init__(self, function: Callable[[Progress], Any]) -> None:
        """Keep the function for `run`."""
        self._function = function
        self._wanted = True
        self._ended = threading.Event()
        self.done = 0.0
        self.result: Any = None
        self.error: Exception | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the job has ended: by a result, by an error, or because it was cancelled."""
        return self._ended.is_set()

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel` was called. An unfinished job then ends without a result."""
        return not self._wanted

    def run(self) -> None:
        """Call the function, and keep its result or error."""
        try:
            self._progress(0, 1)
            self.result = self._function(self._progress)
        except CancelledError:
            pass
        except Exception as error:  # noqa: BLE001 - raised again by `Jobs.get`
            self.error = error
        finally:
            self._ended.set()

    def cancel(self) -> None:
        """End the function at its next progress report."""
        self._wanted = False

    def wait(self, seconds: float) -> None:
        """Wait until the job has ended, at most for some seconds."""
        self._ended.wait(seconds)

    def _progress(self, done: int, whole: int) -> None:
        if not self._wanted:
            raise CancelledError
        self.done = done / whole if whole else 1.0


class Jobs:
    """Starts jobs and caches their results.

    Attributes:
        in_background: Whether `get` may return unfinished jobs. Otherwise it waits for them.
    """

    def __init__(self, *, in_background: bool) -> None:
        """Start with an empty cache."""
        self.in_background = in_background
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._jobs: dict[tuple[str, Hashable], Job] = {}

    def get(
        self,
        slot: str,
        key: Hashable,
        function: Callable[[Progress], Any],
        *,
        patience: float = 0.0,
        begin: bool = True,
    ) -> Job:
        """Return the job for a key. A new job cancels the unfinished ones in its slot.

        A job that starts again after it was cancelled cancels no other. Otherwise two tabs, which
        ask again until they have their counts, would cancel each other's forever.

        Args:
            slot: Name of the kind of count, such as `counts`.
            key: All inputs of the result.
            function: Computes the result. It must report progress often, to be cancelled soon.
            patience: Seconds to wait for the result, so that a quick one is shown at once.
            begin: Start a new job. False only cancels the others: the caller answers its request
                first, and asks again.

        Returns:
            The job. It has no result yet if it is unfinished, or was cancelled meanwhile.

        Raises:
            Exception: The error of the function.
        """
        with self._lock:
            job = self._jobs.get((slot, key))
            # A new key means that the page has changed, so the older counts are of no use.
            if job is None:
                self._cancel(slot)
            if job is None or job.is_cancelled:
                job = Job(function)
                if self.in_background and not begin:
                    return job
                self._keep((slot, key), job)
                threading.Thread(
                    target=self._run, args=(job,), name=f"mslm-data-{slot}", daemon=True
                ).start()

        # Outside the lock, so that other requests can cancel the job.
        job.wait(patience if self.in_background else threading.TIMEOUT_MAX)
        if job.error is not None:
            raise job.error
        return job

    def _run(self, job: Job) -> None:
        """Run a job while no other runs, at a lower priority than requests."""
        if sys.platform == "linux":  # elsewhere it would change the whole process
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOW)
        with self._turn:
            job.run()

    def _keep(self, key: tuple[str, Hashable], job: Job) -> None:
        """Keep a job, in place of the oldest one that has ended, cancelled ones first."""
        self._jobs[key] = job
        if len(self._jobs) > _KEPT:
            ended = [key for key, kept in self._jobs.items() if kept.is_ready]
            if ended:
                del self._jobs[min(ended, key=lambda key: not self._jobs[key].is_cancelled)]

    def _cancel(self, slot: str) -> None:
        """Cancel the unfinished jobs of a slot."""
        for (name, _), job in self._jobs.items():
            if name == slot and not job.is_ready:
                job.cancel()

    def cancel(self) -> None:
        """Cancel all jobs, and wait for their end."""
        with self._lock:
            jobs = list(self._jobs.values())
        for job in jobs:
            job.cancel()
        for job in jobs:
            job.wait(threading.TIMEOUT_MAX)
