"""Keeps fetched corpora, copied inputs, remote shards, archives and packs between runs.

One root, private to its owner: `MSLM_DATA_CACHE`, or else the platform's cache folder. Deleting it
costs time only. What is kept is made in a temporary beside its place, by one thread of one process
at a time, and renamed when whole.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from mslm_data.errors import MslmDataError, SourceError
from mslm_data.io.files import make_folder, sync_folder

VARIABLE = "MSLM_DATA_CACHE"
"""Environment variable that names another root."""


def folder(
    kind: str, *, cache: Path | None = None, error: type[MslmDataError] = SourceError
) -> Path:
    """Return the folder of one kind of cached thing, made if missing, for its owner alone.

    Args:
        kind: `corpora`, `inputs`, `unpacked`, `shards` or `packs`.
        cache: The root; None for `MSLM_DATA_CACHE`, or else the platform's cache folder.
        error: What is raised where it cannot be made.
    """
    import platformdirs

    named = os.environ.get(VARIABLE)
    root = cache or (
        Path(named).expanduser() if named else platformdirs.user_cache_path("mslm-data")
    )
    path = root / kind
    try:
        make_folder(path)
    except OSError as problem:
        raise error(
            f"{path}: expected a cache folder that can be made, got {problem.strerror}; "
            f"set {VARIABLE} to another folder"
        ) from None
    return path


def once(
    place: Path,
    make: Callable[[Path], object],
    *,
    good: Callable[[Path], bool] = Path.exists,
    error: type[MslmDataError] = SourceError,
) -> Path:
    """Return a file or folder of the cache, made first if it is missing or not good.

    Threads and processes that want it at the same time wait for the one that makes it. If that one
    is killed, another makes it.

    Args:
        place: Its final name.
        make: Makes it at another name, where nothing is yet. An `OSError` that it raises is
            reported as one of the disk.
        good: Whether the file or folder at the place can be used; others are replaced.
        error: What is raised where the disk is full or cannot be written.
    """
    try:
        if not good(place):
            with alone(place), staging(place) as temporary:
                if not good(place):
                    made = temporary / place.name
                    make(made)
                    settle(made, place)
    except OSError as problem:
        raise error(
            f"{place}: expected to write it, got {problem.strerror or type(problem).__name__}; "
            f"is the disk full? {VARIABLE} names another cache folder"
        ) from None
    return place


@contextmanager
def alone(place: Path) -> Iterator[None]:
    """Hold a place as one thread of one process.

    Temporaries that killed processes left in its folder are removed.
    """
    from filelock import FileLock

    make_folder(place.parent)
    with FileLock(_lock(place), mode=0o600):
        _clear(place)
        yield


@contextmanager
def staging(place: Path) -> Iterator[Path]:
    """Make a private folder beside a place that is held, and remove it afterwards.

    What is made there is renamed when it is whole.
    """
    make_folder(place.parent)
    prefix = f".part-{_key(place)}-"
    with TemporaryDirectory(
        prefix=prefix, dir=place.parent, ignore_cleanup_errors=True
    ) as temporary:
        yield Path(temporary)


def settle(made: Path, place: Path) -> None:
    """Give a finished file or folder its final name, once the bytes of a file are on disk."""
    if made.is_file():
        with made.open("rb") as file:
            os.fsync(file.fileno())
    made.replace(place)
    sync_folder(place.parent)


def private(path: Path) -> BinaryIO:
    """Open a file for writing that its owner alone can read, whatever the umask.

    Folders above it are made; an existing file is emptied.
    """
    make_folder(path.parent)
    flags = os.O_CREAT | os.O_TRUNC | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0)
    return os.fdopen(os.open(path, flags, 0o600), "wb")


def _key(place: Path) -> str:
    return hashlib.sha256(place.name.encode()).hexdigest()[:16]


def _lock(place: Path) -> Path:
    return place.parent / f".lock-{_key(place)}"


def _clear(place: Path) -> None:
    """Remove temporaries of a place that is held, and those beside it that nobody holds."""
    from filelock import FileLock, Timeout

    for left in [*place.parent.glob(".part-*"), *place.rglob(".part-*")]:
        key = left.name.split("-")[1]
        if left.parent != place.parent or key == _key(place):
            shutil.rmtree(left, ignore_errors=True)
        else:
            with suppress(Timeout), FileLock(place.parent / f".lock-{key}", timeout=0, mode=0o600):
                shutil.rmtree(left, ignore_errors=True)
