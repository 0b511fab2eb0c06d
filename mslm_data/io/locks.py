"""Locks files between processes, also where the file system cannot.

Where it can (`flock`), the system drops a lock however its owner ends. Elsewhere a file that names
its owner, process and host, stands for the lock. The next process on that host removes it if the
owner is gone; from another host nobody can know, so the error names the file.
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
"""Errors by which `flock` says that a file system has none, now and later, for every process."""
_WARN_AFTER_S = 10.0
"""Seconds after which the log says for what a process waits."""

_warned: set[Path] = set()
"""Folders of which the log has said that their locks are files."""


class HeldError(Exception):
    """Another process holds a lock.

    Attributes:
        advice: What else may be the matter, and what to do then; "" where the owner is alive.
    """

    def __init__(self, advice: str) -> None:
        super().__init__(advice)
        self.advice = advice


@contextmanager
def locked(path: Path, *, error: type[MslmDataError], patience: float = -1) -> Iterator[None]:
    """Hold a lock while the block runs.

    Args:
        path: The lock's file, in a folder that exists; it stays.
        error: What is raised where the file system refuses locks.
        patience: Seconds to wait for another process that holds it; -1 waits as long as it takes.

    Raises:
        HeldError: Another process still holds it.
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

    if path.parent not in _warned:
        _warned.add(path.parent)
        LOGGER.warning(
            "%s: expected a file system with locks (flock), got one without; files that end in "
            ".owner stand for them",
            path.parent,
        )
    owner = path.with_name(f"{path.name}.owner")
    try:
        return _acquire(SoftFileLock(owner, mode=0o600), patience)
    except OSError as problem:
        raise _refusal(owner, problem, error) from None


def _acquire(lock: BaseFileLock, patience: float) -> BaseFileLock:
    """Take a lock, and say in the log for whom this process waits long.

    Raises:
        HeldError: Another process still holds it.
    """
    from filelock import Timeout

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
    """Return what to do if the owner of a lock is gone, "" for locks that the system drops."""
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
    """Return the error for a file system that refuses a lock."""
    if problem.errno == errno.ENOLCK:
        advice = (
            "its lock service does not answer: start it, mount the file system with local locks, "
            "or choose a folder on another one"
        )
    else:
        advice = "choose a folder on another file system"
    reason = problem.strerror or type(problem).__name__
    return error(f"{path}: expected a lock on this file, got '{reason}'; {advice}")
