"""Limits of time and memory, so that what hangs or grows fails instead."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SECONDS = 20.0
MEGABYTES = 600
"""What one try may add to the most memory that the process has had."""


class TooMuchError(BaseException):
    """No `except Exception` of what is tried may catch it."""


@contextmanager
def watched() -> Iterator[None]:
    """Fail what takes longer than `SECONDS`, or more than `MEGABYTES` beyond what was used before."""

    def stop(_: int, __: FrameType | None) -> None:
        raise TooMuchError(f"more than {SECONDS} seconds")

    before = _peak()
    old = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    if _peak() - before > MEGABYTES:
        raise TooMuchError(f"more than {MEGABYTES} MB")


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
