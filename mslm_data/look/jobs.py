"""Runs counts of whole splits in the background; a newer count cancels an older one."""

from __future__ import annotations

import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

Progress = Callable[[int, int], None]
"""Called with the amount done and the total. It raises `CancelledError` in a cancelled job."""
_LOW = 10
"""Priority of job threads, as for `nice`."""
_KEPT = 64
"""Maximum number of results in the cache."""


class CancelledError(Exception):
    """A job was cancelled."""


class Job:
    """A function that runs in the background.

    Attributes:
        done: Progress in `[0, 1]`.
        result: Return value; None before the end.
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
        """Whether the function has returned or raised."""
        return self._ended.is_set()

    def run(self) -> None:
        """Call the function, and keep its result or error."""
        try:
            self._progress(0, 1)
            self.result = self._function(self._progress)
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
    """Starts jobs and caches their results. Each slot holds one unfinished job.

    Attributes:
        in_background: Whether `get` may return unfinished jobs. Otherwise it waits for them.
    """

    def __init__(self, *, in_background: bool) -> None:
        """Start with an empty cache."""
        self.in_background = in_background
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._results: OrderedDict[Hashable, Job] = OrderedDict()
        self._running: dict[str, Job] = {}

    def get(
        self,
        slot: str,
        key: Hashable,
        function: Callable[[Progress], Any],
        *,
        patience: float = 0.0,
        begin: bool = True,
    ) -> Job:
        """Return the job for a key. A new job cancels the unfinished one in its slot.

        Args:
            slot: Name of the kind of count, such as `counts`.
            key: All inputs of the result.
            function: Computes the result. It must report progress often, to be cancelled soon.
            patience: Seconds to wait for the result, so that a quick one is shown at once.
            begin: Start a new job. False only cancels the other: the caller answers its request
                first, and asks again.

        Raises:
            Exception: The error of the function.
        """
        with self._lock:
            job = self._results.get((slot, key))
            # Another key means that the page has changed, so the older count is of no use.
            if job is None:
                self._cancel(slot)
                job = Job(function)
                if self.in_background and not begin:
                    return job
                self._results[slot, key] = self._running[slot] = job
                if len(self._results) > _KEPT:
                    self._results.popitem(last=False)
                threading.Thread(
                    target=self._run, args=(job,), name=f"mslm-data-{slot}", daemon=True
                ).start()

        # Outside the lock, so that other requests can cancel the job.
        job.wait(patience if self.in_background else threading.TIMEOUT_MAX)
        if job.error is not None:
            raise job.error
        return job

    def _run(self, job: Job) -> None:
        """Run a job after all earlier ones, at a lower priority than requests."""
        if sys.platform == "linux":  # elsewhere it would change the whole process
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOW)
        with self._turn:
            job.run()

    def _cancel(self, slot: str) -> None:
        """Cancel the unfinished job of a slot, and remove it from the cache."""
        running = self._running.get(slot)
        if running is None or running.is_ready:
            return
        running.cancel()
        self._results = OrderedDict(
            (name, kept) for name, kept in self._results.items() if kept is not running
        )

    def cancel(self) -> None:
        """Cancel all jobs, and wait for their end."""
        with self._lock:
            running = list(self._running.values())
        for job in running:
            job.cancel()
        for job in running:
            job.wait(threading.TIMEOUT_MAX)
