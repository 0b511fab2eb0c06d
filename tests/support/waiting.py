"""Wait for events of other threads and processes, never for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 600.0
"""Timeout in seconds, longer than any event takes on a busy machine."""


def wait_for(condition: Callable[[], T]) -> T:
    """Poll a condition, and return its first true value.

    Raises:
        AssertionError: The condition is still false after `PATIENCE_S`.
    """
    end = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)
    return value
