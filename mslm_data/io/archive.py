"""Unpacks untrusted tar and zip archives safely.

Only plain files and folders with relative paths are unpacked. Links, devices, paths outside the
archive and decompression bombs raise an error. Python's `filter="data"` is not enough: it accepts
links within the folder, has no size limit, and is missing from Python 3.11.0 to 3.11.3.
"""

from __future__ import annotations

import gzip
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any, NamedTuple

from mslm_data.errors import MslmDataError, SourceError
from mslm_data.io.files import make_folder, open_private

SUFFIXES = (".tar", ".tar.gz", ".tgz", ".zip")
"""File name suffixes of supported archives."""
MAX_BYTES = 64 << 30
"""Maximum unpacked size in bytes; a member counts as at least `_BLOCK`."""

_BLOCK = 4096
_AT_ONCE = 1 << 20
_HEADERS = 1 << 20
"""Maximum number of bytes between two members. tarfile reads long names and pax headers into
memory."""
_DAMAGED = (
    *(OSError, EOFError, ValueError, RuntimeError),
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error),
)
"""Exceptions raised for damaged archives; RuntimeError for a zip that is encrypted or uses an
unknown compression."""


class Member(NamedTuple):
    """Hold one entry of an archive.

    Attributes:
        name: Relative path in the archive.
        pieces: Content in pieces of bytes; None for a folder. Must be read before the next member.
    """

    name: PurePosixPath
    pieces: Iterator[bytes] | None


class _Entry(NamedTuple):
    """Hold one entry of an archive as it is stored. Links are neither folder nor file."""

    name: str
    size: int
    is_folder: bool
    is_file: bool
    open: Callable[[], Any]


def is_archive(name: str) -> bool:
    """Return whether a file name has the suffix of an archive."""
    return name.lower().endswith(SUFFIXES)


def stem(name: str) -> str:
    """Return an archive's name without its suffix: `corpus.tar.gz` -> `corpus`."""
    for suffix in SUFFIXES:
        if name.lower().endswith(suffix):
            return name[: -len(suffix)]
    return name


def unpack(path: Path, folder: Path, *, error: type[MslmDataError] = SourceError) -> None:
    """Unpack an archive into a folder, where files of a rejected archive remain.

    Args:
        path: File with one of `SUFFIXES`.
        folder: New folder. It and its content are readable only by the owner.
        error: Exception class for archives that are damaged, encrypted or too large, or have an
            unsafe member. Default: `SourceError`.

    Raises:
        OSError: The disk is full or not writable.
    """
    make_folder(folder)
    for name, pieces in members(path, error=error):
        target = folder / name
        try:
            if pieces is None:
                make_folder(target)
            elif target.exists():
                raise FileExistsError
            else:
                with open_private(target) as file:
                    file.writelines(pieces)
        except (FileExistsError, NotADirectoryError):
            raise error(
                f"{path.name}: member '{name}': another member of the archive has the same name; "
                "the archive is not unpacked"
            ) from None


def members(path: Path, *, error: type[MslmDataError] = SourceError) -> Iterator[Member]:
    """Yield the members of an archive in stored order, after the checks of `unpack`."""
    entries = _zipped(path) if path.name.lower().endswith(".zip") else _tarred(path, error)
    left = MAX_BYTES
    with _readable(path, error):
        for entry in entries:
            where = f"{path.name}: member '{entry.name}'"
            if not _is_inside(entry.name):
                raise error(f"{where}: expected a path inside the archive; not unpacked")
            if not (entry.is_folder or entry.is_file):
                raise error(
                    f"{where}: expected a plain file or a folder, got a link or a device; not "
                    "unpacked"
                )
            left -= max(entry.size, _BLOCK)
            if left < 0:
                raise error(
                    f"{path.name}: expected at most {MAX_BYTES} bytes unpacked, got more; if you "
                    "trust it, unpack it yourself and pass the unpacked files"
                )
            pieces = None if entry.is_folder else _pieces(path, entry, error)
            yield Member(PurePosixPath(entry.name), pieces)


def _is_inside(name: str) -> bool:
    # Backslashes and drive letters are checked on all systems: an archive that is safe here is
    # safe on Windows too.
    windows = PureWindowsPath(name)
    is_relative = not (name.startswith("/") or windows.drive or windows.root)
    return is_relative and ".." not in windows.parts and "\0" not in name


@contextmanager
def _readable(path: Path, error: type[MslmDataError]) -> Iterator[None]:
    """Convert exceptions for damaged archives to `error`."""
    try:
        yield
    except _DAMAGED as problem:
        reason = getattr(problem, "strerror", None) or type(problem).__name__
        raise error(
            f"{path.name}: expected a whole, unencrypted tar or zip archive, got {reason}; "
            "is the file complete?"
        ) from None


def _pieces(path: Path, entry: _Entry, error: type[MslmDataError]) -> Iterator[bytes]:
    with _readable(path, error), entry.open() as stream:
        while piece := stream.read(_AT_ONCE):
            yield piece


def _zipped(path: Path) -> Iterator[_Entry]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            # The upper half of `external_attr` is the Unix mode; 0 if written on another system.
            kind = stat.S_IFMT(info.external_attr >> 16)
            is_file = not info.is_dir() and kind in (0, stat.S_IFREG)
            yield _Entry(
                info.filename, info.file_size, info.is_dir(), is_file, partial(archive.open, info)
            )


def _tarred(path: Path, error: type[MslmDataError]) -> Iterator[_Entry]:
    too_large = error(
        f"{path.name}: the header of a member is too large, and could fill memory; if you trust "
        "the archive, unpack it yourself and pass the folder"
    )
    packed = path.name.lower().endswith("gz")
    with gzip.open(path) if packed else path.open("rb") as file:
        # Mode "r|" reads the stream forward only, so each read is counted.
        source = _Headers(file, too_large)  # type: ignore[arg-type]
        with tarfile.open(fileobj=source, mode="r|") as tar:  # type: ignore[call-overload]
            for info in tar:
                source.left = info.size + _HEADERS
                is_file = info.isfile() and not info.issparse()
                yield _Entry(
                    info.name, info.size, info.isdir(), is_file, partial(tar.extractfile, info)
                )


class _Headers:
    """The stream of a tar, in which headers have a maximum size."""

    def __init__(self, stream: IO[bytes], too_large: MslmDataError) -> None:
        self._stream = stream
        self._too_large = too_large
        self.left = _HEADERS
        """Number of bytes until the next member must have begun."""

    def read(self, count: int) -> bytes:
        data = self._stream.read(count)
        self.left -= len(data)
        if self.left < 0:
            raise self._too_large
        return data
