"""Looks at input files: hashes all, unpacks large compressed ones, and cuts large ones.

The plan of a build has the digest of each part of an input file. A work unit hashes its parts again
after it has read them. So a file that changes during a build is noticed, whatever its size and
times, and a machine that builds a part of the units reads its own share only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from mslm_data.builds.tasks import Cut, Digest, Unit, Unpack
from mslm_data.data.document import Part
from mslm_data.errors import SourceError
from mslm_data.io.files import hash_file, make_folder, write_whole
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
    """Unpack a file into the unfinished folder, unless a copy exists.

    The text may be patients' data. The folder is private, and a copy is removed as soon as no unit
    needs it.

    Raises:
        SourceError: The file has changed; or from `files.opened`.
    """
    path, into = Path(task.path), Path(task.into)
    if into.is_file():
        return
    if hash_file(path) != task.sha256:
        raise changed_error(path)
    make_folder(into.parent)
    write_whole(into, _unpacked(path))


def _unpacked(path: Path) -> Iterator[bytes]:
    with opened(path) as file:
        while piece := file.read(_AT_ONCE):
            yield piece


# Large files --------------------------------------------------------------------------------------


def cut(task: Cut, source: Source) -> list[tuple[Part, str]]:
    """Return the parts of a file, each with the SHA-256 of its bytes."""
    parts = source.cut(Part(task.path), target_bytes=task.target_bytes)
    return [(part, digest_part(part, source)) for part in parts]


# Digests ------------------------------------------------------------------------------------------


def plan_digests(files: Sequence[Path]) -> Iterator[Digest]:
    """Yield tasks that hash files: a large file alone, small ones together.

    Args:
        files: The files, without duplicates.
    """
    group: list[Path] = []
    filled = 0
    for path in files:
        group.append(path)
        filled += path.stat().st_size
        if filled >= _DIGESTED_AT_ONCE:
            yield Digest(tuple(group))
            group = []
            filled = 0
    if group:
        yield Digest(tuple(group))


def digest(task: Digest) -> list[FileDigest]:
    """Return the digest of each file of a task."""
    return [FileDigest(path.name, path.stat().st_size, hash_file(path)) for path in task.files]


def check_unchanged(unit: Unit, source: Source) -> None:
    """Check that the parts of a work unit have their digests of the plan.

    Called after the unit has read them. So it has read the same bytes, unless a file was replaced
    and restored meanwhile. A part without file has no digest.

    Raises:
        ChangedError: A part has another digest, or is missing.
    """
    for part, planned in zip(unit.parts, unit.digests, strict=True):
        if planned and digest_part(part, source) != planned:
            raise changed_error(part.path)


def digest_part(part: Part, source: Source) -> str:
    """Return the SHA-256 of the bytes that reading a part reads.

    A whole file is hashed with the files that belong to it. Of a file that is cut by rows, the
    whole file is hashed.

    Raises:
        SourceError: A file is missing or cannot be read.
    """
    path = Path(part.path)
    try:
        if part.start == 0 and part.stop == -1:
            return digest_of_files([hash_file(file) for file in source.files(path)])
        if path.suffix in _CUT_BY_ROWS:
            status = path.stat()
            state = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            return _hash_of_rows(path, state)
        return _hash_range(path, part.start, part.stop)
    except FileNotFoundError:
        raise changed_error(path) from None
    except OSError as error:
        raise SourceError(f"{path}: cannot read the file: {error.strerror}") from None


def digest_of_files(digests: Sequence[str]) -> str:
    """Return the digest of a whole file and of the files that belong to it."""
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


@lru_cache(maxsize=64)
def _hash_of_rows(path: Path, state: tuple[int, ...]) -> str:  # noqa: ARG001 - part of the cache key
    """Return the SHA-256 of a file that is cut by rows; cached, as many units read it."""
    return hash_file(path)


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
