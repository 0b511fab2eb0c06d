"""Large compressed inputs, unpacked once into the unfinished build: a gzip file can only be read from its beginning.

So it can be cut into units like a plain file. What is unpacked may be patients' text: it lies in a private folder that
goes when the build is finished.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from mslm_data.errors import SourceError
from mslm_data.io.files import make_folder, write_whole
from mslm_data.source import Source
from mslm_data.source.reading.files import MAX_UNPACKED

_RATIO = 4
"""How much larger than compressed a text is at the least, more or less."""
_AT_ONCE = 1 << 20


def worth_staging(source: Source, paths: Iterable[Path], *, unit_bytes: int) -> list[Path]:
    """Return the compressed files that would make more than one unit, and whose documents lie in no other file."""
    return [
        path
        for path in sorted(set(paths))
        if path.suffix == ".gz"
        and path.stat().st_size * _RATIO > unit_bytes
        and list(source.files(path)) == [path]
    ]


def stage(folder: Path, paths: Iterable[Path]) -> dict[Path, Path]:
    """Unpack files into a private folder, as far as they are not there yet.

    Returns:
        File -> what it was unpacked to, of the same name without `.gz`.

    Raises:
        SourceError: One is damaged, or larger than `MAX_UNPACKED`.
    """
    staged: dict[Path, Path] = {}
    for path in paths:
        status = path.stat()
        stamp = hashlib.sha256(
            f"{path} {status.st_size} {status.st_mtime_ns}".encode()
        ).hexdigest()[:16]
        staged[path] = folder / stamp / path.name.removesuffix(".gz")
        if not staged[path].is_file():
            make_folder(staged[path].parent)
            write_whole(staged[path], _unpacked(path))
    return staged


def _unpacked(path: Path) -> Iterator[bytes]:
    size = 0
    try:
        with gzip.open(path) as file:
            while piece := file.read(_AT_ONCE):
                size += len(piece)
                if size > MAX_UNPACKED:
                    raise SourceError(
                        f"{path.name}: unpacks to more than {MAX_UNPACKED >> 30} GiB; pass it unpacked"
                    )
                yield piece
    except (OSError, EOFError, zlib.error) as error:
        raise SourceError(
            f"{path.name}: cannot be unpacked ({type(error).__name__}); is the file whole?"
        ) from None
