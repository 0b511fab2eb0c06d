"""What sources of records share: where files may be cut, why a record is set aside, how a file is read as a stream."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from mslm_data.data.document import Part
from mslm_data.errors import SourceError

RATIO, FREE_BYTES = 200, 64 << 20
"""Bytes that one packed byte may become, beyond so many that any file may: text packs to a fifth, labels of one digit
a token to a fiftieth, a bomb to a thousandth."""


class RecordError(Exception):
    """A record cannot be used: it is set aside with this reason, which holds none of its words.

    Attributes:
        line: The line at fault, 0 where it is the record as a whole.
    """

    def __init__(self, reason: str, *, line: int = 0) -> None:
        super().__init__(reason)
        self.line = line


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading bytes, unpacked if it ends with `.gz`.

    Raises:
        SourceError: Missing, unreadable, truncated, or unpacking to more than a text would (see `RATIO`), at the
            opening or at any later read within the block.
    """
    try:
        with _Unpacking(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield cast(BinaryIO, file)
    except (OSError, EOFError, zlib.error) as error:
        raise SourceError(
            f"{path.name}: cannot be read ({type(error).__name__}); is the file whole?"
        ) from None


class _Unpacking(gzip.GzipFile):
    """A compressed file that says when it unpacks to more than it should."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._path = path
        self._most = max(FREE_BYTES, path.stat().st_size * RATIO)

    def read(self, size: int | None = -1) -> bytes:
        """Read as any file does; all of it is read piece by piece, as it is set aside at once otherwise."""
        if size is None or size < 0:
            return b"".join(iter(lambda: self.read(1 << 20), b""))
        return self._counted(super().read(size))

    def read1(self, size: int = -1) -> bytes:
        """Read what one look at the file gives."""
        return self._counted(super().read1(size))

    def _counted(self, data: bytes) -> bytes:
        if self.tell() > self._most:
            raise SourceError(
                f"{self._path.name}: unpacks to more than {self._most} bytes, as no text does; if it is to be trusted, "
                f"unpack it and pass what comes out"
            )
        return data


def stem(path: Path) -> str:
    """Return a file's name without its folders, `.gz` and last suffix: `a/train.jsonl.gz` -> `train`."""
    return Path(path.name.removesuffix(".gz")).stem


def at_lines(
    path: Path, *, target_bytes: int, begins: Callable[[bytes, bytes], bool]
) -> Iterator[Part]:
    """Cut a file of lines before records, see `Source.cut`. It is read once, line by line.

    A file that is not longer than `target_bytes`, and a compressed one, is one part and is not looked at: a part of
    a compressed file could only be reached by unpacking all before it.

    Args:
        path: The file.
        target_bytes: About how many bytes a part has; each has at least one record.
        begins: Given the line before and a line, both without surrounding white space, says whether the second is
            the first of a record. The line before the first is empty.
    """
    if path.suffix == ".gz" or path.stat().st_size <= target_bytes:
        yield Part(str(path))
        return
    start, first, line_of_start = 0, 0, 1
    position, records, before = 0, 0, b""
    with opened(path) as file:
        for number, raw in enumerate(file, start=1):
            line = raw.removeprefix(b"\xef\xbb\xbf").strip() if number == 1 else raw.strip()
            if begins(before, line):
                if records > first and position - start >= target_bytes:
                    yield Part(str(path), start, position, first, line_of_start)
                    start, first, line_of_start = position, records, number
                records += 1
            position += len(raw)
            before = line
    yield Part(str(path), start, position, first, line_of_start)
