"""A file system with scripted faults: `faulty:///PATH` reads the file PATH."""

from __future__ import annotations

import io
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import fsspec
from fsspec import AbstractFileSystem

Fault = Callable[[bytes], bytes]
"""Transforms the bytes of a file; may raise or wait."""
SECRET = "token=abcdef0123456789"


class NoCredentialsError(Exception):
    """An error like that of botocore: no `OSError`, with unknown content in its message."""


class Faulty(AbstractFileSystem):
    """Local files with faults.

    Attributes:
        faults: Faults for each file name, one per call of `open`.
        opened: Number of `open` calls for each file name.
    """

    protocol = "faulty"
    cachable = False
    faults: ClassVar[dict[str, list[Fault]]] = {}
    opened: ClassVar[Counter[str]] = Counter()

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        status = Path(self._strip_protocol(path)).stat()
        kind = "directory" if Path(path).is_dir() else "file"
        return {"name": path, "size": status.st_size, "type": kind, "mtime": status.st_mtime_ns}

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        infos = [self.info(str(below)) for below in sorted(Path(path).iterdir())]
        return infos if detail else [info["name"] for info in infos]

    def open(self, path: str, mode: str = "rb", **_: Any) -> io.BytesIO:
        name = os.path.basename(path)
        self.opened[name] += 1
        data = Path(path).read_bytes()
        faults = self.faults.get(name, [])
        return io.BytesIO((faults.pop(0) if faults else bytes)(data))


@contextmanager
def registered() -> Iterator[type[Faulty]]:
    """Register `faulty://` without faults."""
    fsspec.register_implementation("faulty", Faulty, clobber=True)
    Faulty.faults, Faulty.opened = {}, Counter()
    yield Faulty
    Faulty.faults = {}


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flipped(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:]


def longer(data: bytes) -> bytes:
    return data + b"x"


def refused(_: bytes) -> bytes:
    raise NoCredentialsError(f"Unable to locate credentials, tried {SECRET}")


def reset(_: bytes) -> bytes:
    raise ConnectionResetError(104, "Connection reset by peer")


def told(_: bytes) -> bytes:
    raise OSError(5, f"the server said: {SECRET}")


def denied(_: bytes) -> bytes:
    raise PermissionError(13, f"Access denied for {SECRET}")


def hanging(_: bytes) -> bytes:
    threading.Event().wait()
    return b""
