"""Looks at input files: unpacks large compressed ones, cuts large ones, and hashes all.

A build compares what its work units have read with the files as they are at its end, by the digest
of each part. So a file that is replaced during a build is noticed, whatever its size and times, and
a machine that builds a part of the units reads its own share only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from mslm_data.builds.tasks import Digest, Unpack
from mslm_data.data.document import Part
from mslm_data.errors import SourceError
from mslm_data.io.files import hash_file, make_folder, read_sealed, write_sealed, write_whole
from mslm_data.source import Source
from mslm_data.source.reading.files import opened

UNIT_BYTES = 4 << 20
"""Approximate input bytes of a work unit, for any shard size. Smaller units would cost more than
they compute; larger ones would leave cores idle and need more memory."""
SLOW_UNIT_BYTES = 256 << 10
"""Approximate input bytes of a work unit for a slow annotator: minutes of one core with BERT."""
_DIGESTED_AT_ONCE = 64 << 20
"""Input bytes of small files per `Digest` task."""
_AT_ONCE = 1 << 20
"""Bytes per read."""
_SIZE_BYTES = 4
"""A gzip file ends with the size of its content, modulo 2**32, in this number of bytes."""
_CUT_BY_ROWS = (".arrow", ".parquet")
"""Suffixes of files whose parts are numbers of rows."""


class ChangedError(SourceError):
    """An input file, or its unpacked copy, has changed since the build began.

    Attributes:
        path: The file.
    """

    path = ""


def changed_error(path: str | Path) -> ChangedError:
    """Return the error for an input changed during the command."""
    error = ChangedError(
        f"{path}: the file has changed since the build began; run the same command again to build "
        "from the file as it is now"
    )
    error.path = str(path)
    return error


class FileDigest(NamedTuple):
    """Name, size and SHA-256 of an input file."""

    name: str
    bytes: int
    sha256: str


# Compressed files ---------------------------------------------------------------------------------


def is_worth_unpacking(path: Path, source: Source, unit_bytes: int) -> bool:
    """Return whether to unpack a compressed file before reading it.

    A gzip file can only be read from its beginning, so it would be one work unit of any size.
    Unpacked, it is cut like a plain file. Documents that span several files are not unpacked,
    because their files must stay together.
    """
    if path.suffix != ".gz" or list(source.files(path)) != [path]:
        return False
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(-min(size, _SIZE_BYTES), 2)
        unpacked = int.from_bytes(file.read(), "little")
    return max(size, unpacked) > unit_bytes


def unpack(task: Unpack) -> None:
    """Unpack a file into the unfinished folder, unless a complete copy exists.

    The text may be patients' data. The folder is private, and a copy is removed as soon as no unit
    needs it.

    Raises:
        SourceError: From `files.opened`.
    """
    path, into = Path(task.path), Path(task.into)
    digest, _ = _read_record(into)
    if into.is_file() and hash_file(into) == digest:
        return
    make_folder(into.parent)
    origin = hash_file(path)
    write_whole(into, _unpacked(path))
    write_sealed(_record(into), f"{hash_file(into)} {origin}".encode())


def hash_of_origin(into: Path) -> str:
    """Return the SHA-256 of the compressed file of a copy; "" if it was not unpacked."""
    return _read_record(into)[1]


def _read_record(into: Path) -> tuple[str, str]:
    """Return the SHA-256 of a copy and of its compressed file."""
    digest, _, origin = (read_sealed(_record(into)) or b"").decode().partition(" ")
    return digest, origin


def _record(into: Path) -> Path:
    return into.with_name(f"{into.name}.sha256")


def _unpacked(path: Path) -> Iterator[bytes]:
    with opened(path) as file:
        while piece := file.read(_AT_ONCE):
            yield piece


# Digests ------------------------------------------------------------------------------------------


def plan_digests(files: Sequence[Path], parts: Sequence[Part]) -> Iterator[Digest]:
    """Yield tasks that hash files and their parts: a large file alone, small ones together.

    Args:
        files: The files, without duplicates.
        parts: Parts of these files.
    """
    parts_of: dict[str, list[Part]] = {}
    for part in parts:
        parts_of.setdefault(part.path, []).append(part)

    group: list[str] = []
    filled = 0
    for path in files:
        group.append(str(path))
        filled += path.stat().st_size
        if filled >= _DIGESTED_AT_ONCE:
            yield _digest_task(group, parts_of)
            group = []
            filled = 0
    if group:
        yield _digest_task(group, parts_of)


def _digest_task(files: Sequence[str], parts_of: dict[str, list[Part]]) -> Digest:
    return Digest(tuple(files), tuple(part for path in files for part in parts_of.get(path, ())))


def digest(task: Digest, source: Source) -> tuple[list[FileDigest], list[str]]:
    """Return the digests of a task's files, and of its parts."""
    _hash_of_rows.cache_clear()  # a file may have been replaced by one of equal size and time
    paths = map(Path, task.files)
    files = [FileDigest(path.name, path.stat().st_size, hash_file(path)) for path in paths]
    known = {path: file.sha256 for path, file in zip(task.files, files, strict=True)}
    return files, [digest_part(part, source, known) for part in task.parts]


def digest_part(part: Part, source: Source, known: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the SHA-256 of the bytes that reading a part reads.

    A whole file is hashed with the files that belong to it. Of a file that is cut by rows, the
    whole file is hashed.

    Args:
        part: The part.
        source: Its source.
        known: File -> SHA-256, for files that were hashed before.

    Raises:
        SourceError: A file is missing or cannot be read.
    """
    path = Path(part.path)
    try:
        if part.start == 0 and part.stop == -1:
            digests = [known.get(str(file)) or hash_file(file) for file in source.files(path)]
            return digests[0] if len(digests) == 1 else _hash("".join(digests).encode())
        if path.suffix in _CUT_BY_ROWS:
            status = path.stat()
            return _hash_of_rows(path, status.st_size, status.st_mtime_ns)
        return _hash_range(path, part.start, part.stop)
    except FileNotFoundError:
        raise changed_error(path) from None
    except OSError as error:
        raise SourceError(f"{path}: cannot read the file: {error.strerror}") from None


@lru_cache(maxsize=64)
def _hash_of_rows(path: Path, size: int, mtime_ns: int) -> str:  # noqa: ARG001 - cache keys
    """Return the SHA-256 of a file that is cut by rows; cached, as many units read it."""
    return hash_file(path)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _hash_range(path: Path, start: int, stop: int) -> str:
    """Return the SHA-256 of bytes `[start, stop)` of a file; -1 is its end."""
    state = hashlib.sha256()
    left = path.stat().st_size - start if stop < 0 else stop - start
    with path.open("rb") as file:
        file.seek(start)
        while left > 0 and (piece := file.read(min(left, _AT_ONCE))):
            state.update(piece)
            left -= len(piece)
    return state.hexdigest()
