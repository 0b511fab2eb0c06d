"""Waiting for what another thread or process does: for the event, and never for a number of seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 600.0
"""Seconds until a test gives up on an event. A busy machine takes less, so what takes longer hangs."""


def wait_for(condition: Callable[[], T]) -> T:
    """Return the first true value of a condition.

    Raises:
        AssertionError: It has not become true.
    """
    end = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)
    return value
