"""A count of the disk-changing calls of a build, with an action before one of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

CALLS = ("open", "fsync", "replace", "mkdir", "unlink", "rmdir")
"""Functions of `os`; `open` counts when it creates a file."""


class Count:
    """The number of calls so far."""

    calls = 0


@contextmanager
def watched(
    at: int, instead: Callable[[str], Any], *, only: tuple[str, ...] = CALLS
) -> Iterator[Count]:
    """Run an action before call number `at`, counted from 1; 0 only counts."""
    count, real = Count(), {name: getattr(os, name) for name in CALLS}

    def watch(name: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if name in only and not (name == "open" and not args[1] & os.O_CREAT):
                count.calls += 1
                if count.calls == at:
                    instead(name)
            return real[name](*args, **options)

        return call

    for name in CALLS:
        setattr(os, name, watch(name))
    try:
        yield count
    finally:
        for name, function in real.items():
            setattr(os, name, function)
