"""Counts whole splits in the background, with progress; the next change cancels a count."""

from __future__ import annotations

import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

Progress = Callable[[int, int], None]
"""Called with how much is done, and of how much."""
_LOW = 10
"""The priority of a job's thread, as `nice` counts it."""
_KEPT = 64
"""Results that are kept."""


class CancelledError(Exception):
    """A job's result is no longer wanted."""


class Job:
    """Work whose result is shown when it is there.

    Attributes:
        done: How much is done, in `[0, 1]`.
        result: What the function returned; None until then.
        error: What it raised; None if nothing.
    """

    def __init__(self, function: Callable[[Progress], Any]) -> None:
        """Keep the function; `run` calls it."""
        self._function = function
        self._wanted = True
        self._ended = threading.Event()
        self.done = 0.0
        self.result: Any = None
        self.error: Exception | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the result, or an error, is there."""
        return self._ended.is_set()

    def run(self) -> None:
        """Call the function, and keep what it returns or raises."""
        try:
            self._progress(0, 1)
            self.result = self._function(self._progress)
        except Exception as error:  # noqa: BLE001 - shown by the request that wants the result
            self.error = error
        finally:
            self._ended.set()

    def cancel(self) -> None:
        """Have the function end when it next says how far it is."""
        self._wanted = False

    def wait(self, seconds: float) -> None:
        """Wait for the result, but no longer than this."""
        self._ended.wait(seconds)

    def _progress(self, done: int, whole: int) -> None:
        if not self._wanted:
            raise CancelledError
        self.done = done / whole if whole else 1.0


class Jobs:
    """Starts jobs, one at a time in each slot, and keeps their results.

    Attributes:
        in_background: Whether results may be missing at first; else they are waited for.
    """

    def __init__(self, *, in_background: bool) -> None:
        """Begin without results."""
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
        """Return the job of a key, started if it is new; that cancels another one in its slot.

        Args:
            slot: What is counted, such as `counts`.
            key: Everything that the result depends on.
            function: Makes the result; it must call its argument often.
            patience: Seconds to wait for a result, so that a quick one is shown at once.
            begin: Whether a new job is started; else it only cancels the other, so that the caller
                can answer first and ask again.

        Raises:
            Exception: What the function raised.
        """
        with self._lock:
            job = self._results.get((slot, key))
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

        job.wait(patience if self.in_background else threading.TIMEOUT_MAX)
        if job.error is not None:
            raise job.error
        return job

    def _run(self, job: Job) -> None:
        """Run a job when those before it have ended, and behind whatever answers requests."""
        if sys.platform == "linux":  # there a thread has a priority of its own
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOW)
        with self._turn:
            job.run()

    def _cancel(self, slot: str) -> None:
        """Cancel the job of a slot if it is still at work, and forget it."""
        running = self._running.get(slot)
        if running is None or running.is_ready:
            return
        running.cancel()
        self._results = OrderedDict(
            (name, kept) for name, kept in self._results.items() if kept is not running
        )

    def cancel(self) -> None:
        """Cancel all jobs, and wait until they have ended."""
        with self._lock:
            running = list(self._running.values())
        for job in running:
            job.cancel()
        for job in running:
            job.wait(threading.TIMEOUT_MAX)
