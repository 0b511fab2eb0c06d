"""Reads tables of separated values as a stream of records, so that damage costs one record.

A record is strict: it has as many fields as the header, and every quote is closed and followed by a
separator or a line end. Anything else is damaged, up to the next line that begins a strict record.
Each record is decided by the bytes from its first one on, so cutting a file finds exactly the
records that reading a part gives. The file is never held in memory as a whole.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from mslm_data.data.document import Part
from mslm_data.errors import SourceError
from mslm_data.source.reading.files import opened
from mslm_data.source.reading.records import RecordError, decode_utf8

CHUNK = 1 << 20
"""Bytes that are read at once."""
LONGEST = 8 << 20
"""Most bytes of a record; a longer one is taken for a quote that never closes."""

_QUOTED = rb'"[^"]*+(?:""[^"]*+)*+"'
_MOST_COLUMNS = 1000
_INTEGER = re.compile(r"\d+")
_KEY = re.compile(r"\S{1,128}")


class CsvRecord(NamedTuple):
    """One record.

    Attributes:
        start: Its first byte in the file.
        stop: The byte after its last.
        line: Number of its first line.
        match: Its fields, as groups of `CsvTable.pattern`; None if it is damaged.
    """

    start: int
    stop: int
    line: int
    match: re.Match[bytes] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CsvTable:
    """The layout of all records of a file, learned from its beginning by `open_table`.

    Attributes:
        groups: Role -> group of `pattern` that holds its column.
        last: Group that holds a record's last column, 0 where no role has it.
        body: First byte after the header.
        body_line: Number of the first line after the header.
        pattern: Matches one record with its line end.
        keys: Roles that every record has a value for -> what such values look like.
    """

    groups: Mapping[str, int]
    last: int
    body: int
    body_line: int
    pattern: re.Pattern[bytes]
    keys: Mapping[str, re.Pattern[str]]

    def value(self, match: re.Match[bytes], role: str) -> str | None:
        """Return a field; None for NULL, which is an empty field without quotes.

        Raises:
            RecordError: The field is not UTF-8.
        """
        group = self.groups[role]
        raw: bytes = match[group]
        value = _plain(raw, is_last=group == self.last)
        if not value and not raw.startswith(b'"'):
            return None
        return decode_utf8(value)

    def records(self, file: BinaryIO, part: Part) -> Iterator[CsvRecord]:
        """Read the records of a part of an open file, passing over blank lines between them."""
        if part.start == 0:
            window = _Window(file, self.body, part.stop, line=self.body_line)
        else:
            window = _Window(file, part.start, part.stop, line=part.line)

        while window.skip_blank():
            start = window.offset
            line = window.line
            match = window.match(self.pattern)
            if match is not None:
                window.advance(match.end())
            else:
                window.skip_line()
                while not window.is_over() and not self._begins(window):
                    window.skip_line()
            yield CsvRecord(start, window.offset, line, match)

    def _begins(self, window: _Window) -> bool:
        """Return whether a record begins where the window stands.

        A line of a damaged record's text may look like a record too; its keys tell them apart.
        """
        match = window.match(self.pattern)
        if match is None:
            return False
        try:
            return all(
                form.fullmatch(self.value(match, role) or "") for role, form in self.keys.items()
            )
        except RecordError:
            return False


class _Window:
    """A piece of a file, from where the next record begins; it grows as a record needs it."""

    def __init__(self, file: BinaryIO, start: int, stop: int, *, line: int) -> None:
        """Go to the first record.

        Args:
            file: An open file.
            start: First byte.
            stop: Byte after the last; -1 for the file's end.
            line: Number of the line at `start`.
        """
        file.seek(start)
        self.line = line
        self._file = file
        self._left = stop - start if stop >= 0 else -1

        # Bytes of the file from `_base` on; the window stands at `_position` in them. `_end` is
        # where the part ends in the file, -1 as long as that has not been read.
        self._data = b""
        self._position = 0
        self._base = start
        self._end = -1

    @property
    def offset(self) -> int:
        """Where in the file the window stands."""
        here = self._base + self._position
        return here if self._end < 0 else min(here, self._end)

    def is_over(self) -> bool:
        """Return whether nothing is left."""
        while self._position >= len(self._data) and self._end < 0:
            self._grow()
        return self._position >= len(self._data)

    def skip_blank(self) -> bool:
        """Go past blank lines, and return whether anything is left."""
        while not self.is_over():
            if len(self._data) - self._position < 2 and self._end < 0:
                self._grow()
            if self._data.startswith(b"\n", self._position):
                self.advance(self._position + 1)
            elif self._data.startswith(b"\r\n", self._position):
                self.advance(self._position + 2)
            else:
                return True
        return False

    def match(self, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
        """Match where the window stands, with as many bytes as it takes, up to `LONGEST`."""
        while (found := pattern.match(self._data, self._position)) is None and self._end < 0:
            if len(self._data) - self._position >= LONGEST:
                break
            self._grow()
        return found

    def skip_line(self) -> None:
        """Go to the next line."""
        while (end := self._data.find(b"\n", self._position)) < 0 and self._end < 0:
            self._grow()
        self.advance(end + 1 if end >= 0 else len(self._data))

    def advance(self, position: int) -> None:
        """Go to a position in the window's bytes, such as the end of a match."""
        self.line += self._data.count(b"\n", self._position, position)
        self._position = position

    def _grow(self) -> None:
        """Read on and drop the bytes before; a last line without a line end gets one."""
        # As much again as there is, so that a long record is matched only a few times.
        wanted = max(CHUNK, len(self._data) - self._position)
        piece = self._file.read(wanted if self._left < 0 else min(wanted, self._left))
        if self._left > 0:
            self._left -= len(piece)

        self._base += self._position
        self._data = self._data[self._position :] + piece
        self._position = 0
        if not piece:
            self._end = self._base + len(self._data)
            if self._data and not self._data.endswith(b"\n"):
                self._data += b"\n"


def cut(part: Part, table: CsvTable, *, target_bytes: int) -> Iterator[Part]:
    """Cut a part of a file before records into parts of at least `target_bytes`, but for the last.

    The part is read once.
    """
    path = Path(part.path)
    _, start, stop, first, line = part
    with opened(path) as file:
        for number, record in enumerate(table.records(file, part), start=part.first):
            if number > first and record.start - start >= target_bytes:
                yield Part(part.path, start, record.start, first, line)
                start = record.start
                first = number
                line = record.line
    yield Part(part.path, start, path.stat().st_size if stop < 0 else stop, first, line)


def open_table(
    path: Path, columns: Mapping[str, str], *, keys: Collection[str], separator: str
) -> CsvTable:
    """Learn from a file's header where its columns are, and from its first record what keys are.

    Args:
        path: The file.
        columns: Role -> name of its column, in any case and order.
        keys: Roles that every record has a value for. Those that are integers in the first record
            are integers in all.
        separator: One character.

    Raises:
        SourceError: No header that has these columns, each once, or one with too many columns. The
            message does not say what stands there instead: in a file without a header, that is a
            patient's.
    """
    with opened(path) as file:
        beginning = file.read(CHUNK)

    any_record = _pattern(separator, width=None)
    header = any_record.match(
        beginning if beginning.endswith(b"\n") else beginning + b"\n",
        len(BOM_UTF8) if beginning.startswith(BOM_UTF8) else 0,
    )
    names = []
    if header is not None:
        names = [name.strip().casefold() for name in _fields(header[0], separator)]
    absent = [name for name in columns.values() if names.count(name.casefold()) != 1]
    if header is None or absent:
        raise SourceError(
            f"{path.name}:1: expected a header with the columns {', '.join(columns.values())}, "
            f"found no single {', '.join(absent)}; name the columns with [source] text_column and "
            f"the like, '' for none"
        )
    if len(names) > _MOST_COLUMNS:
        raise SourceError(
            f"{path.name}:1: expected at most {_MOST_COLUMNS} columns, got {len(names)}; is it a "
            f"table?"
        )

    numbers = {role: names.index(name.casefold()) for role, name in columns.items()}
    captured = sorted(set(numbers.values()))
    last_column = len(names) - 1
    pattern = _pattern(separator, width=len(names), captured=captured)
    first = pattern.match(beginning, header.end())
    values = _fields(first[0], separator) if first else []

    def form(role: str) -> re.Pattern[str]:
        is_integer = values and _INTEGER.fullmatch(values[numbers[role]])
        return _INTEGER if is_integer else _KEY

    return CsvTable(
        groups={role: captured.index(number) + 1 for role, number in numbers.items()},
        last=captured.index(last_column) + 1 if last_column in captured else 0,
        body=min(header.end(), len(beginning)),
        body_line=1 + header[0].count(b"\n"),
        pattern=pattern,
        keys={role: form(role) for role in keys if role in numbers},
    )


def _fields(record: bytes, separator: str) -> list[str]:
    """Return all fields of a record with its line end; bytes that are not UTF-8 are replaced."""
    mark, field = _marked(separator)
    found = re.finditer(rb"(" + field + rb")(?:" + mark + rb"|(\r?\n))", record)
    return [
        _plain(match[1], is_last=match[2] is not None).decode(errors="replace") for match in found
    ]


def _plain(field: bytes, *, is_last: bool) -> bytes:
    """Return a field's value; a record's last field may end with the first byte of a CRLF."""
    if field.startswith(b'"'):
        return field[1:-1].replace(b'""', b'"')
    return field.removesuffix(b"\r") if is_last else field


def _marked(separator: str) -> tuple[bytes, bytes]:
    """Return the patterns of a separator and of a field.

    A field without quotes may hold them anywhere but at its beginning, as every reader has it.
    """
    mark = re.escape(separator.encode())
    return mark, _QUOTED + rb"|(?:[^\"\n" + mark + rb"][^\n" + mark + rb"]*+)?"


def _pattern(
    separator: str, *, width: int | None, captured: Collection[int] = ()
) -> re.Pattern[bytes]:
    """Return the pattern of a record with its line end.

    Args:
        separator: One character.
        width: Number of its fields, None for any.
        captured: The fields, from 0, that get a group.
    """
    mark, field = _marked(separator)
    if width is None:
        return re.compile(rb"(?:" + field + rb")(?:" + mark + rb"(?:" + field + rb"))*+\r?\n")
    fields = [(b"(" if number in captured else b"(?:") + field + b")" for number in range(width)]
    return re.compile(mark.join(fields) + rb"\r?\n")
