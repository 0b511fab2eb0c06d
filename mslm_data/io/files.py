"""Writes files whole or not at all, for their owner alone."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, for their owner alone; existing ones stay as they are."""
    if not path.is_dir():
        make_folder(path.parent)
        path.absolute().mkdir(mode=0o700, exist_ok=True)  # so that an error names it in full
        sync_folder(path.parent)


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
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
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
        except OSError:  # nobody knows whether the name is there to stay
            path.unlink(missing_ok=True)
            raise


def write_whole(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a file with all its bytes or not at all, even through a crash; see `writing_whole`.

    Args:
        path: Replaced if it exists; readable by its owner alone.
        pieces: Its bytes in order.
    """
    with writing_whole(path) as file:
        for piece in pieces:
            file.write(piece)


def clear_temporaries(folder: Path) -> None:
    """Remove what killed processes left half written; no process may be at work in the folder."""
    for path in folder.glob(".*.tmp"):
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


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
