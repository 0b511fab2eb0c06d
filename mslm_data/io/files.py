"""Writes files whole or not at all, for their owner alone."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

try:
    import fcntl
except ImportError:  # on Windows, where nothing is held
    fcntl = None  # type: ignore[assignment]

_LOOK = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""How to open what others may have put there: no link, and no pipe that waits for a writer."""

_SUFFIX = ".mslm.tmp"
"""Ending of the names of temporaries; those of other programs stay."""


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, for their owner alone; existing ones stay as they are."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        folder.absolute().mkdir(mode=0o700, exist_ok=True)  # so that an error names it in full
        sync_folder(folder.parent)


@contextmanager
def writing_whole(path: Path, *, durable: bool = True) -> Iterator[BinaryIO]:
    """Open a file that gets its name when the block is left, and never if the block raises.

    A temporary file beside it takes the bytes, goes to disk, takes the final name, and the folder
    goes to disk.

    Args:
        path: Replaced if it exists; readable by its owner alone.
        durable: Whether it must outlive a crash of the machine. A file that is made again if its
            checksum is wrong need not, and saves waiting for the disk.
    """
    with _full_disk_named(path):
        handle, temporary = _temporary(path)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                if durable:
                    os.fsync(file.fileno())
                temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    if durable:
        try:
            sync_folder(path.parent)
        except OSError:  # nobody knows whether the name is there to stay
            path.unlink(missing_ok=True)
            raise


def write_whole(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a file with all its bytes or not at all, even through a crash; see `writing_whole`.

    Temporaries that killed processes left in its folder go.

    Args:
        path: Replaced if it exists; readable by its owner alone.
        pieces: Its bytes in order.
    """
    clear_abandoned(path.parent)
    with writing_whole(path) as file:
        for piece in pieces:
            file.write(piece)


def write_sealed(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write a file whose first line is the SHA-256 of the rest, for `read_sealed`."""
    digest = hashlib.sha256(data).hexdigest()
    with writing_whole(path, durable=durable) as file:
        file.write(f"{digest}\n".encode())
        file.write(data)


def read_sealed(path: Path) -> bytes | None:
    """Return what `write_sealed` wrote; None if the file is missing or is not as it was written."""
    try:
        digest, _, data = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    return data if digest == hashlib.sha256(data).hexdigest().encode() else None


@contextmanager
def making_folder(path: Path) -> Iterator[Path]:
    """Make a private folder beside a path, and remove it with all that is left in it.

    Temporaries that killed processes left there go.
    """
    clear_abandoned(path.parent)
    with _full_disk_named(path):
        handle, folder = _temporary_folder(path)
        try:
            yield folder
        finally:
            os.close(handle)
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _full_disk_named(path: Path) -> Iterator[None]:
    """Name what is written in the error of a disk that is full: such an error names nothing."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            error.filename = str(path.absolute())
        raise


def clear_temporaries(folder: Path) -> None:
    """Remove what killed processes left half written; no process may be at work in the folder."""
    for path in folder.glob(".*.tmp"):
        _remove(path)


def clear_abandoned(folder: Path) -> None:
    """Remove what killed processes left half written, and nothing that another process holds.

    Where the file system has no locks, all of it stays.
    """
    for path in folder.glob(f".*{_SUFFIX}"):
        try:
            handle = os.open(path, _LOOK)
        except OSError:  # it has got its name, or is another user's
            continue
        try:
            if _hold(handle, waits=False):
                _remove(path)
        finally:
            os.close(handle)


def _temporary(path: Path) -> tuple[int, Path]:
    """Make a temporary file beside a path, which this process holds as long as it is open."""
    while True:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=_SUFFIX, dir=path.parent)
        # Another process that clears the folder may have taken it for abandoned in between. Such a
        # one holds it first and removes it then, so only with its lock it is known to stay.
        _hold(handle, waits=True)
        if os.fstat(handle).st_nlink:
            return handle, Path(name)
        os.close(handle)


def _temporary_folder(path: Path) -> tuple[int, Path]:
    """Make a temporary folder beside a path, and hold it as `_temporary` does a file."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=_SUFFIX, dir=path.parent))
        try:
            handle = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:  # taken for abandoned already
            continue
        _hold(handle, waits=True)
        if folder.is_dir():
            return handle, folder
        os.close(handle)


def _hold(handle: int, *, waits: bool) -> bool:
    """Lock an open file or folder until it is closed, and return whether this process holds it.

    Args:
        handle: The file or folder.
        waits: Whether to wait for another process that holds it.
    """
    if fcntl is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def sync_folder(path: Path) -> None:
    """Bring a folder's names to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def canonical_json(value: Any) -> bytes:
    """Return a value as canonical JSON: sorted keys, UTF-8, one space of indent, a newline."""
    return (json.dumps(value, sort_keys=True, ensure_ascii=False, indent=1) + "\n").encode()


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
