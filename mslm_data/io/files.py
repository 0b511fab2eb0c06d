"""Writes files atomically, with access for their owner only.

A file is written to a temporary file beside its final path, and renamed when complete. The writer
locks the temporary file (`flock`), so a later process can tell whether its writer is still alive.
"""

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
except ImportError:  # Windows: temporary files are not locked
    fcntl = None  # type: ignore[assignment]

_OPEN_UNTRUSTED = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags to open a file of unknown origin: follow no link, do not block on a pipe."""

_SUFFIX = ".mslm.tmp"
"""Suffix of our temporary files. Those of other programs are never removed."""


def make_folder(path: Path) -> None:
    """Create a folder and missing parents with mode 0700; existing folders are unchanged."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        # An absolute path, since an error names the path that it was called with.
        folder.absolute().mkdir(mode=0o700, exist_ok=True)
        sync_folder(folder.parent)


@contextmanager
def writing_whole(path: Path, *, durable: bool = True) -> Iterator[BinaryIO]:
    """Write a file atomically: it appears at the end of the block, unless the block raises.

    Args:
        path: File to write, with mode 0600; an existing file is replaced.
        durable: Whether to sync file and folder to disk, so that the file survives a crash of the
            machine. Default: True. Set False for files that can be made again.
    """
    with naming_full_disk(path):
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
        except OSError:  # the rename may not survive a crash: fail as if it did not happen
            path.unlink(missing_ok=True)
            raise


def write_whole(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a file atomically and durably, see `writing_whole`.

    Temporary files left by killed processes in the same folder are removed.

    Args:
        path: File to write, with mode 0600; an existing file is replaced.
        pieces: Content, in order.
    """
    clear_abandoned(path.parent)
    with writing_whole(path) as file:
        for piece in pieces:
            file.write(piece)


def write_sealed(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write a file atomically, with the SHA-256 of `data` in the first line, for `read_sealed`."""
    digest = hashlib.sha256(data).hexdigest()
    with writing_whole(path, durable=durable) as file:
        file.write(f"{digest}\n".encode())
        file.write(data)


def read_sealed(path: Path) -> bytes | None:
    """Return the data of a file written by `write_sealed`; None if it is missing or damaged."""
    try:
        digest, _, data = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    return data if digest == hashlib.sha256(data).hexdigest().encode() else None


@contextmanager
def private_folder(path: Path) -> Iterator[Path]:
    """Create a private temporary folder beside a path, and remove it at the end.

    Temporary files and folders left by killed processes in the same place are removed.
    """
    clear_abandoned(path.parent)
    handle, folder = _temporary_folder(path)
    try:
        yield folder
    finally:
        os.close(handle)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def making_folder(path: Path, *, taken: Exception) -> Iterator[Path]:
    """Write a folder atomically: it appears at the end of the block, unless the block raises.

    Args:
        path: Folder to write, with mode 0700. An empty folder is replaced. Of a link, the target is
            written.
        taken: Raised if another process has written a file or a folder with files there.

    Yields:
        A temporary folder for the files, which must be synced to disk; see `writing_whole`.
    """
    path = path.resolve()
    make_folder(path.parent)
    with naming_full_disk(path), private_folder(path) as folder:
        yield folder
        try:
            folder.rename(path)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise taken from None
            raise
    sync_folder(path.parent)


@contextmanager
def naming_full_disk(path: Path) -> Iterator[None]:
    """Add the path to errors of a full disk."""
    try:
        yield
    except OSError as error:
        # `write` and `fsync` raise errors without a file name.
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            error.filename = str(path.absolute())
        raise


def clear_temporaries(folder: Path) -> None:
    """Remove all temporary files in a folder. No other process may be writing there."""
    for path in folder.glob(".*.tmp"):
        _remove(path)


def clear_abandoned(folder: Path) -> None:
    """Remove temporary files left by killed processes, but not those of running ones.

    On file systems without locks, nothing is removed.
    """
    for path in folder.glob(f".*{_SUFFIX}"):
        try:
            handle = os.open(path, _OPEN_UNTRUSTED)
        except OSError:  # renamed in the meantime, or owned by another user
            continue
        try:
            # The lock of a killed process is free.
            if _hold(handle, waits=False):
                _remove(path)
        finally:
            os.close(handle)


def _temporary(path: Path) -> tuple[int, Path]:
    """Create a temporary file beside a path, and lock it until it is closed."""
    while True:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=_SUFFIX, dir=path.parent)
        # Before the lock is taken, `clear_abandoned` of another process may lock and remove the
        # file. So check that it still exists after locking it; if not, try again.
        _hold(handle, waits=True)
        if os.fstat(handle).st_nlink:
            return handle, Path(name)
        os.close(handle)


def _temporary_folder(path: Path) -> tuple[int, Path]:
    """Create a temporary folder beside a path, and lock it; see `_temporary`."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=_SUFFIX, dir=path.parent))
        try:
            handle = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:  # removed as abandoned, see `_temporary`
            continue
        _hold(handle, waits=True)
        if folder.is_dir():
            return handle, folder
        os.close(handle)


def _hold(handle: int, *, waits: bool) -> bool:
    """Lock an open file or folder until it is closed; return whether this succeeded.

    Args:
        handle: An open file or folder.
        waits: Whether to wait if another process has the lock.
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
    """Sync a folder to disk, so that renames in it are durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def canonical_json(value: Any) -> bytes:
    """Return canonical JSON: sorted keys, UTF-8, indented by one space, newline at the end."""
    return (json.dumps(value, sort_keys=True, ensure_ascii=False, indent=1) + "\n").encode()


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
