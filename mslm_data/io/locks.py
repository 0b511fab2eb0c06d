"""Locks between processes, by filelock.

The operating system releases a lock when its owner ends, even if it was killed. On a file system
without `flock`, filelock uses a file with the owner's process and host instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mslm_data.errors import MslmDataError
from mslm_data.log import LOGGER

_WARN_AFTER_S = 10.0
"""Seconds of waiting before a warning is logged."""


class HeldError(Exception):
    """Another process has the lock."""


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
    from filelock import FileLock, Timeout

    lock = FileLock(path, mode=0o600)
    try:
        try:
            lock.acquire(timeout=_WARN_AFTER_S if patience < 0 else patience)
        except Timeout:
            if patience >= 0:
                raise HeldError(str(path)) from None
            LOGGER.warning("%s: waiting for another process that holds this lock", path)
            lock.acquire()
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        raise error(
            f"{path}: expected a lock on this file, got '{reason}'; start the lock service of the "
            "file system, mount it with local locks, or choose a folder on another one"
        ) from None

    try:
        yield
    finally:
        lock.release()
