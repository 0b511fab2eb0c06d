"""The cache of downloaded corpora, copied inputs, remote shards, unpacked archives and model packs.

The root is `MSLM_DATA_CACHE`; its default is the cache folder of the platform. It is readable only
by its owner. It can be deleted at any time.

An entry is made in a temporary folder beside its final place, under a lock of that place, and
renamed when complete. It is checked when it is made, and then kept.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from mslm_data.errors import MslmDataError, SourceError
from mslm_data.folders import CACHE, cache_root, first_open, is_ours
from mslm_data.io.files import SUFFIX, clear_temporaries, hash_file, make_folder, sync_folder
from mslm_data.io.locks import locked

VARIABLE = CACHE
root = cache_root

_CODE = ("packs",)
"""Kinds of entries with executable code. No parent folder of these may be writable by others."""


def folder(
    kind: str, *, cache: Path | None = None, error: type[MslmDataError] = SourceError
) -> Path:
    """Return the cache folder for a kind of entries, and create it if missing.

    Args:
        kind: `corpora`, `inputs`, `unpacked`, `shards` or `packs`.
        cache: Root folder. Default: None, `MSLM_DATA_CACHE` or the cache folder of the platform.
        error: Exception class for a folder that cannot be created, or that other users own or can
            write to. Default: `SourceError`.
    """
    path = (cache or root()) / kind
    try:
        make_folder(path)
        # For code, check all parents: whoever can write to a parent can replace the folder.
        open_folder = None if is_ours(path) else path
        if kind in _CODE:
            open_folder = open_folder or first_open(path)
    except OSError as problem:
        raise error(
            f"{path}: expected a cache folder that can be made, got {problem.strerror}; "
            f"set {VARIABLE} to another folder"
        ) from None
    if open_folder is not None:
        raise error(
            f"{path}: other users can change this cache folder: {open_folder} is owned by another "
            f"user, or writable by others; if it is yours, run `chmod go-w {open_folder}`, "
            f"otherwise set {VARIABLE} to another folder"
        )
    return path


def make_once(
    place: Path, make: Callable[[Path], object], *, error: type[MslmDataError] = SourceError
) -> Path:
    """Return a cached file or folder, and make it first if it is missing.

    One thread of one process makes it, others wait. If this process is killed, the next makes it.

    Args:
        place: Path of the cached file or folder.
        make: Creates the file or folder at the given temporary path, which does not exist yet, and
            checks it. An `OSError` is reported as a disk error.
        error: Exception class for a disk that is full or not writable. Default: `SourceError`.
    """
    try:
        if not place.exists():
            _make(place, make, error)
    except OSError as problem:
        raise error(
            f"{place}: expected to write it, got {problem.strerror or type(problem).__name__}; "
            f"is the disk full? {VARIABLE} names another cache folder"
        ) from None
    return place


def _make(place: Path, make: Callable[[Path], object], error: type[MslmDataError]) -> None:
    with temporary_folder(place, error=error) as temporary:
        # Another process may have made it while this one waited for the folder.
        if place.exists():
            return

        made = temporary / place.name
        make(made)

        # An entry is not checked again, so its content must be on the disk before its name.
        for path in [made, *made.rglob("*")]:
            if path.is_file():
                with path.open("rb") as file:
                    os.fsync(file.fileno())
        made.replace(place)
        sync_folder(place.parent)


@contextmanager
def temporary_folder(place: Path, *, error: type[MslmDataError] = SourceError) -> Iterator[Path]:
    """Create a temporary folder beside a place of the cache, and remove it at the end.

    One thread of one process at a time has the folder of a place, others wait. Folders of killed
    processes are removed.

    Args:
        place: The place.
        error: Exception class for a file system that refuses to lock. Default: `SourceError`.
    """
    folder = place.parent
    make_folder(folder)

    # A short name for lock and temporary folder: the place's may be as long as names can be.
    key = hashlib.sha256(place.name.encode()).hexdigest()[:16]
    with locked(folder / f".lock-{key}", error=error):
        clear_temporaries(folder, key)
        with TemporaryDirectory(prefix=f".{key}.", suffix=SUFFIX, dir=folder) as temporary:
            yield Path(temporary)


def holds(path: Path, sha256: str) -> bool:
    """Return whether a file exists and has this digest.

    A file is hashed once per process, unless its inode, times or size change.
    """
    try:
        status = path.stat()
        state = status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size
        return _hash(path, state) == sha256
    except FileNotFoundError:
        return False


@functools.cache
def _hash(path: Path, state: tuple[int, ...]) -> str:  # noqa: ARG001 - a part of the key
    return hash_file(path)
