"""Limits of time and memory, which turn hangs and growth into failures."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SECONDS = 20.0
MEGABYTES = 600
"""Maximum increase of the process' peak memory in one try."""


class TooMuchError(BaseException):
    """A BaseException, so that no `except Exception` of the tried code catches it."""


@contextmanager
def watched() -> Iterator[None]:
    """Fail if the block takes more than `SECONDS`, or more than `MEGABYTES` above the previous peak."""

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
