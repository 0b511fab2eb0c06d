"""Unpacks untrusted tar and zip archives safely.

Only plain files and folders with relative paths are unpacked. Links, devices, paths outside the
archive and decompression bombs raise an error. Python's `filter="data"` is not enough: it accepts
links within the folder, has no size limit, and is missing from Python 3.11.0 to 3.11.3.
"""

from __future__ import annotations

import gzip
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple

from mslm_data.errors import MslmDataError, SourceError
from mslm_data.io.cache import open_private
from mslm_data.io.files import make_folder
from mslm_data.io.limits import LIMITS, Limits, Meter

SUFFIXES = (".tar", ".tar.gz", ".tgz", ".zip")
"""File name suffixes of supported archives."""

_AT_ONCE = 1 << 20
_HEADERS = 1 << 20
"""Maximum number of bytes between two members. tarfile reads long names and pax headers into
memory."""
_PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE)
_DAMAGED = (
    OSError,
    EOFError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    RuntimeError,
    ValueError,
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


def is_archive(name: str) -> bool:
    """Return whether a file name has the suffix of an archive."""
    return name.lower().endswith(SUFFIXES)


def stem(name: str) -> str:
    """Return an archive's name without its suffix: `corpus.tar.gz` -> `corpus`."""
    longest = max((s for s in SUFFIXES if name.lower().endswith(s)), key=len, default="")
    return name[: len(name) - len(longest)] if longest else name


def unpack(
    path: Path, folder: Path, *, error: type[MslmDataError] = SourceError, limits: Limits = LIMITS
) -> Path:
    """Unpack an archive into a new folder. After an error, the folder is removed.

    Args:
        path: File with one of `SUFFIXES`.
        folder: New folder. It and its content are readable only by the owner.
        error: Exception class for archives that are damaged, encrypted or too large, or have an
            unsafe member. Default: `SourceError`.
        limits: Size limits. Default: `LIMITS`.

    Raises:
        OSError: The disk is full or not writable.
    """
    make_folder(folder.parent)
    folder.mkdir(mode=0o700)
    try:
        for name, pieces in members(path, error=error, limits=limits):
            _write(folder / name, pieces, where=f"{path.name}: member '{name}'", error=error)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def members(
    path: Path, *, error: type[MslmDataError] = SourceError, limits: Limits = LIMITS
) -> Iterator[Member]:
    """Yield the members of an archive in stored order, after the checks of `unpack`."""
    inside = _zipped if path.name.lower().endswith(".zip") else _tarred
    with _readable(path, error):
        for number, (name, stream, size) in enumerate(
            inside(path, Meter(path, limits, error)), start=1
        ):
            if number > limits.members:
                raise error(f"{path.name}: expected at most {limits.members} members, got more")

            # Backslashes and drive letters are checked on all systems: an archive that is safe
            # here is safe on Windows too.
            posix = PurePosixPath(name)
            windows = PureWindowsPath(name)
            if (
                posix.is_absolute()
                or windows.drive
                or windows.root
                or ".." in windows.parts
                or "\0" in name
            ):
                raise error(
                    f"{path.name}: member '{name}': expected a path inside the archive; "
                    "not unpacked"
                )
            if stream is _UNSAFE:
                raise error(
                    f"{path.name}: member '{name}': expected a plain file or a folder, got a link "
                    "or a device; not unpacked"
                )

            yield Member(posix, None if stream is None else _pieces(path, stream, size, error))


_Entry = tuple[str, Any, int]
"""Stored name, stream (None for a folder, `_UNSAFE` for links and devices), size in bytes."""
_UNSAFE = object()


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


def _pieces(path: Path, stream: Any, size: int, error: type[MslmDataError]) -> Iterator[bytes]:
    """Yield the content of a member, and check its size against the header."""
    with _readable(path, error):
        left = size
        while piece := stream.read(_AT_ONCE):
            left -= len(piece)
            yield piece
        if left:
            raise EOFError


def _tarred(path: Path, meter: Meter) -> Iterator[_Entry]:
    packed = path.name.lower().endswith("gz")
    with gzip.open(path) if packed else path.open("rb") as stream:
        # Mode "r|" reads the stream forward only, so the meter counts every byte of the tar,
        # including headers and padding.
        source = meter.wrap(stream)  # type: ignore[arg-type]
        source.allow(_HEADERS)
        with tarfile.open(fileobj=source, mode="r|") as tar:  # type: ignore[call-overload]
            for info in tar:
                if info.isdir():
                    content: Any = None
                elif info.type in _PLAIN and not info.issparse():
                    content = tar.extractfile(info)
                else:
                    content = _UNSAFE
                source.allow(info.size + _HEADERS)
                yield info.name, content, info.size


def _zipped(path: Path, meter: Meter) -> Iterator[_Entry]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.is_dir():
                yield info.filename, None, 0
            # The upper half of `external_attr` is the Unix mode; 0 if written on another system.
            elif stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG):
                with archive.open(info) as stream:
                    yield info.filename, meter.wrap(stream), info.file_size
            else:
                yield info.filename, _UNSAFE, 0


def _write(
    target: Path, pieces: Iterator[bytes] | None, *, where: str, error: type[MslmDataError]
) -> None:
    try:
        if pieces is None:
            make_folder(target)
            return
        if target.is_file():
            raise error(
                f"{where}: another member of the archive has the same name; the archive is not "
                "unpacked"
            )
        file = open_private(target)
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise error(
            f"{where}: the archive has both a file and a folder of this name; it is not unpacked"
        ) from None
    with file:
        for piece in pieces:
            file.write(piece)
