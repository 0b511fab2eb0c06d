"""Writes files atomically, with access for their owner only.

A file is written to a temporary file beside its final path, and renamed when complete. A killed
process leaves its temporary file, whose name ends in `.mslm.tmp`. A build removes those in its
folder when it holds the folder's lock.
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

import msgspec

from mslm_data.errors import MslmDataError
from mslm_data.io.locks import locked

JSON_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions of `msgspec.json.decode` for invalid JSON."""
SUFFIX = ".mslm.tmp"
"""Suffix of temporary files and folders. Those of other programs are never removed."""


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


def open_private(path: Path) -> BinaryIO:
    """Open a file for writing with mode 0600, regardless of the umask.

    Parent folders are created, an existing file is truncated, a symbolic link is an error.
    """
    make_folder(path.parent)
    flags = os.O_CREAT | os.O_TRUNC | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0)
    return os.fdopen(os.open(path, flags, 0o600), "wb")


@contextmanager
def writing_whole(path: Path, *, durable: bool = True) -> Iterator[BinaryIO]:
    """Write a file atomically: it appears at the end of the block, unless the block raises.

    Args:
        path: File to write, with mode 0600; an existing file is replaced.
        durable: Whether to sync file and folder to disk, so that the file survives a crash of the
            machine. Default: True. Set False for files that can be made again.
    """
    with naming_file(path):
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=SUFFIX, dir=path.parent)
        temporary = Path(name)
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

    Args:
        path: File to write, with mode 0600; an existing file is replaced.
        pieces: Content, in order.
    """
    with writing_whole(path) as file:
        file.writelines(pieces)


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
def private_folder(path: Path, *, error: type[MslmDataError]) -> Iterator[Path]:
    """Create a private temporary folder beside a path, and remove it at the end.

    Only one process at a time has the folder of a path. Files left there by a killed process are
    removed.

    Args:
        path: Path that names the folder `.NAME.mslm.tmp`.
        error: Exception class for a file system that refuses to lock.

    Raises:
        HeldError: Another process has the folder.
    """
    outer = path.with_name(f".{path.name}{SUFFIX}")
    inner = outer / "files"
    make_folder(outer)
    with locked(outer / "lock", error=error, patience=0):
        shutil.rmtree(inner, ignore_errors=True)
        inner.mkdir(mode=0o700)
        try:
            yield inner
        finally:
            shutil.rmtree(outer, ignore_errors=True)


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
    with naming_file(path):
        folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=SUFFIX, dir=path.parent))
        try:
            yield folder
            try:
                folder.rename(path)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise taken from None
                raise
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    sync_folder(path.parent)


@contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Add the path to system errors without one: `read`, `write` and `fsync` know none."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path.absolute())
        raise


def clear_temporaries(folder: Path, name: str = "*") -> None:
    """Remove our temporary files and folders in a folder. No other process may be writing them.

    Args:
        folder: Folder to clear.
        name: Name of the file or folder whose temporaries are removed. Default: any.
    """
    for path in folder.glob(f".{name}.*{SUFFIX}"):
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
    with naming_file(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
