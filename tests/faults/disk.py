"""The disk-changing calls of a build: counted, with an action before one of them, or watched."""

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
def wrapped(wrap: Callable[[str, Any], Callable[..., Any]]) -> Iterator[None]:
    """Replace each call, given its name and itself, by the function that `wrap` returns."""
    real = {name: getattr(os, name) for name in CALLS}
    for name, function in real.items():
        setattr(os, name, wrap(name, function))
    try:
        yield
    finally:
        for name, function in real.items():
            setattr(os, name, function)


@contextmanager
def watched(at: int, instead: Callable[[str], Any]) -> Iterator[Count]:
    """Run an action before call number `at`, counted from 1; 0 only counts."""
    count = Count()

    def watch(name: str, real: Any) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if name != "open" or args[1] & os.O_CREAT:
                count.calls += 1
                if count.calls == at:
                    instead(name)
            return real(*args, **options)

        return call

    with wrapped(watch):
        yield count
