"""Reads tar and zip archives of strangers, without links, bombs or paths that lead outside.

Python's own `filter="data"` lets links within the folder through, sets no limit and is missing from
3.11.0 to 3.11.3; corpora and model packs need plain files only, so everything else is refused here.
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
"""Endings of the names of archives."""

_AT_ONCE = 1 << 20
_HEADERS = 1 << 20
"""Most bytes between members: tarfile reads long names and what pax says of one into memory."""
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
"""Errors that reading a damaged archive raises; RuntimeError where a zip is encrypted or
packed in an unknown way."""


class Member(NamedTuple):
    """Hold one entry of an archive.

    Attributes:
        name: Its path below the archive.
        pieces: Its bytes in pieces, to be read before the next member; None for a folder.
    """

    name: PurePosixPath
    pieces: Iterator[bytes] | None


def is_archive(name: str) -> bool:
    """Return whether a file's name is that of an archive."""
    return name.lower().endswith(SUFFIXES)


def stem(name: str) -> str:
    """Return an archive's name without its suffix: `corpus.tar.gz` -> `corpus`."""
    longest = max((s for s in SUFFIXES if name.lower().endswith(s)), key=len, default="")
    return name[: len(name) - len(longest)] if longest else name


def unpack(
    path: Path, folder: Path, *, error: type[MslmDataError] = SourceError, limits: Limits = LIMITS
) -> Path:
    """Unpack an archive into a new folder, whole or not at all.

    Args:
        path: A file whose name ends with one of `SUFFIXES`.
        folder: Where to; it and what is in it can be read by their owner alone.
        error: What is raised where the archive is damaged, encrypted, over a limit, or has a member
            that is not a plain file or lies outside.
        limits: What it may hold.

    Raises:
        OSError: The disk is full or cannot be written.
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
    """Yield the members of an archive in stored order, checked as `unpack` says."""
    inside = _zipped if path.name.lower().endswith(".zip") else _tarred
    with _readable(path, error):
        for number, (name, stream, size) in enumerate(
            inside(path, Meter(path, limits, error)), start=1
        ):
            if number > limits.members:
                raise error(f"{path.name}: expected at most {limits.members} members, got more")

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
            if stream is _NEITHER:
                raise error(
                    f"{path.name}: member '{name}': expected a plain file or a folder, got a link "
                    "or a device; not unpacked"
                )

            yield Member(posix, None if stream is None else _pieces(path, stream, size, error))


_Entry = tuple[str, Any, int]
"""A name as stored; a stream, None for a folder or `_NEITHER`; a size in bytes."""
_NEITHER = object()
"""Stands in the place of a stream: the member is neither a file nor a folder."""


@contextmanager
def _readable(path: Path, error: type[MslmDataError]) -> Iterator[None]:
    """Turn what a damaged archive raises into one error that says so."""
    try:
        yield
    except _DAMAGED as problem:
        reason = getattr(problem, "strerror", None) or type(problem).__name__
        raise error(
            f"{path.name}: expected a whole, unencrypted tar or zip archive, got {reason}; "
            "is the file complete?"
        ) from None


def _pieces(path: Path, stream: Any, size: int, error: type[MslmDataError]) -> Iterator[bytes]:
    """Yield a member's bytes, and see that they are as many as its header says."""
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
        # The pipe mode reads forward only: what is counted is all that the tar holds, headers and
        # padding included.
        source = meter.wrap(stream)  # type: ignore[arg-type]
        source.allow(_HEADERS)
        with tarfile.open(fileobj=source, mode="r|") as tar:  # type: ignore[call-overload]
            for info in tar:
                if info.isdir():
                    make_stream: Any = None
                elif info.type in _PLAIN and not info.issparse():
                    make_stream = tar.extractfile(info)
                else:
                    make_stream = _NEITHER
                source.allow(info.size + _HEADERS)
                yield info.name, make_stream, info.size


def _zipped(path: Path, meter: Meter) -> Iterator[_Entry]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.is_dir():
                yield info.filename, None, 0
            elif stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG):
                with archive.open(info) as stream:
                    yield info.filename, meter.wrap(stream), info.file_size
            else:
                yield info.filename, _NEITHER, 0


def _write(
    target: Path, pieces: Iterator[bytes] | None, *, where: str, error: type[MslmDataError]
) -> None:
    """Write one member."""
    try:
        if pieces is None:
            make_folder(target)
            return
        if target.is_file():
            raise error(
                f"{where}: expected a name of its own, got that of another member; not unpacked"
            )
        file = open_private(target)
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise error(
            f"{where}: expected a name of its own, got the name of both a file and a folder"
        ) from None
    with file:
        for piece in pieces:
            file.write(piece)
