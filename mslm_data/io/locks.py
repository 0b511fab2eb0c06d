"""Locks between processes, on file systems with and without `flock`.

With `flock`, the operating system releases the lock when its owner ends, even if it was killed.
Without `flock`, a file with the owner's process and host serves as lock. After its owner has ended,
the next process on the same host removes it. A process on another host cannot tell, so the error
names the file to remove.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mslm_data.errors import MslmDataError
from mslm_data.log import LOGGER

if TYPE_CHECKING:
    from filelock import BaseFileLock

_MISSING = frozenset({errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP})
"""Error numbers of `flock` on file systems without locks."""
_WARN_AFTER_S = 10.0
"""Seconds of waiting before a warning is logged."""

_warned: set[Path] = set()
"""Folders without `flock` for which a warning has been logged."""


class HeldError(Exception):
    """Another process has the lock.

    Attributes:
        advice: How to remove the lock if its owner has ended; "" with `flock`.
    """

    def __init__(self, advice: str) -> None:
        super().__init__(advice)
        self.advice = advice


@contextmanager
def locked(path: Path, *, error: type[MslmDataError], patience: float = -1) -> Iterator[None]:
    """Hold a lock during the block.

    Args:
        path: Lock file, in an existing folder. The file is kept afterwards.
        error: Exception class for a file system that refuses to lock.
        patience: Seconds to wait for the lock. Default: -1, wait forever.

    Raises:
        HeldError: Another process still has the lock.
    """
    lock = _acquired(path, error, patience)
    try:
        yield
    finally:
        lock.release()


def _acquired(path: Path, error: type[MslmDataError], patience: float) -> BaseFileLock:
    from filelock import FileLock, SoftFileLock

    try:
        return _acquire(FileLock(path, mode=0o600, fallback_to_soft=False), patience)
    except OSError as problem:
        if problem.errno not in _MISSING:
            raise _refusal(path, problem, error) from None

    # The file system has no locks: use a file with the owner's name.
    if path.parent not in _warned:
        _warned.add(path.parent)
        LOGGER.warning(
            "%s: the file system has no locks (flock); using lock files that end in .owner",
            path.parent,
        )
    owner = path.with_name(f"{path.name}.owner")
    try:
        return _acquire(SoftFileLock(owner, mode=0o600), patience)
    except OSError as problem:
        raise _refusal(owner, problem, error) from None


def _acquire(lock: BaseFileLock, patience: float) -> BaseFileLock:
    """Acquire a lock, and log a warning after `_WARN_AFTER_S` seconds of waiting.

    Raises:
        HeldError: Another process still has the lock.
    """
    from filelock import Timeout

    # First without a warning: most locks are released soon.
    first = _WARN_AFTER_S if patience < 0 else min(patience, _WARN_AFTER_S)
    try:
        lock.acquire(timeout=first)
    except Timeout:
        advice = _advice(Path(lock.lock_file))
        if 0 <= patience <= first:
            raise HeldError(advice) from None
        LOGGER.warning(
            "%s: waiting for another process that holds this lock%s", lock.lock_file, advice
        )
    else:
        return lock

    try:
        lock.acquire(timeout=patience if patience < 0 else patience - first)
    except Timeout:
        raise HeldError(advice) from None
    return lock


def _advice(path: Path) -> str:
    """Return how to remove a lock whose owner has ended; "" for `flock`."""
    if path.suffix != ".owner":
        return ""
    try:
        lines = path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        lines = []
    owner = f"process {lines[0]} on {lines[1]}" if len(lines) > 1 else "a process without a name"
    if not owner.isprintable():
        owner = "a process without a name"
    return (
        f"; the lock {path} belongs to {owner}: if that is gone, as after a kill on another "
        "machine, remove the file"
    )


def _refusal(path: Path, problem: OSError, error: type[MslmDataError]) -> MslmDataError:
    """Return the error for a file system that refuses to lock."""
    if problem.errno == errno.ENOLCK:
        advice = (
            "its lock service does not answer: start it, mount the file system with local locks, "
            "or choose a folder on another one"
        )
    else:
        advice = "choose a folder on another file system"
    reason = problem.strerror or type(problem).__name__
    return error(f"{path}: expected a lock on this file, got '{reason}'; {advice}")
