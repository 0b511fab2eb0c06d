"""Cuts files of lines between records, and says why a record is set aside."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from pathlib import Path

from mslm_data.data.document import Part
from mslm_data.source.reading.files import opened


class RecordError(Exception):
    """A record cannot be used. It is set aside with this reason, which must hold none of its words.

    Attributes:
        line: Number of the line at fault, 0 where the record as a whole is.
    """

    def __init__(self, reason: str, *, line: int = 0) -> None:
        super().__init__(reason)
        self.line = line


def decode_utf8(data: bytes, *, line: int = 0) -> str:
    """Decode a record's bytes.

    Args:
        data: UTF-8.
        line: Number of the line they stand in, for the error.

    Raises:
        RecordError: They are not UTF-8.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise RecordError("expected UTF-8, got other bytes", line=line) from None


def cut_lines(
    path: Path, *, target_bytes: int, begins: Callable[[bytes, bytes], bool]
) -> Iterator[Part]:
    """Cut a file of lines before records; see `Source.cut`. The file is read once, line by line.

    A file of at most `target_bytes` is one part and is not read. So is a compressed one: reaching a
    part of it would mean unpacking all that comes before.

    Args:
        path: The file.
        target_bytes: About how many bytes a part gets; each gets at least one record.
        begins: Takes the line before and a line, both stripped of white space, and returns whether
            a record begins at the second. The line before the file's first is empty.
    """
    if path.suffix == ".gz" or path.stat().st_size <= target_bytes:
        yield Part(str(path))
        return

    # The part under way begins at byte `start`, at line `start_line`, after `first` records.
    start = 0
    start_line = 1
    first = 0

    position = 0
    records = 0
    before = b""
    with opened(path) as file:
        for number, raw in enumerate(file, start=1):
            line = raw.removeprefix(BOM_UTF8).strip() if number == 1 else raw.strip()
            if begins(before, line):
                if records > first and position - start >= target_bytes:
                    yield Part(str(path), start, position, first, start_line)
                    start = position
                    start_line = number
                    first = records
                records += 1
            position += len(raw)
            before = line
    yield Part(str(path), start, position, first, start_line)
