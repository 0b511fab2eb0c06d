"""Reads tables of separated values as a stream of records, so that damage costs one record.

A record is strict: it has as many fields as the header, and every quote is closed and followed by a
separator or a line end. Anything else is damaged, up to the next line that begins a strict record,
or that looks like the beginning of a damaged one: many of them in a row are as many records. Each
record is decided by the bytes from its first one on, so cutting a file finds exactly the records
that reading a part gives. The file is never held in memory as a whole.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from mslm_data.data.document import Part
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.kernels.separated import split_records
from mslm_data.source.reading.encodings import Encoding, to_utf8
from mslm_data.source.reading.files import opened
from mslm_data.source.reading.records import RecordError, decode_utf8

Ints = npt.NDArray[Any]

CHUNK = 1 << 20
"""Bytes that are read at once."""
LONGEST = 8 << 20
"""Most bytes of a record; a longer one is taken for a quote that never closes."""
_RECORDS = 4096
"""Most records that are found at once."""

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
        data: Bytes of the file with the record among them.
        fields: Of each wanted column the first byte in `data` and the one after its last, quotes
            included, one after the other; None if the record is damaged.
    """

    start: int
    stop: int
    line: int
    data: bytes
    fields: Sequence[int] | None


class _Block(NamedTuple):
    """Records that follow each other.

    Attributes:
        starts: int64 `[N]`, of each record its first byte in the file.
        stops: int64 `[N]`, the byte after its last.
        lines: int64 `[N]`, the number of its first line.
        data: Bytes of the file with all of them.
        fields: int64 `[N, 2 C]` as in `CsvRecord`; None for one damaged record.
    """

    starts: Ints
    stops: Ints
    lines: Ints
    data: bytes
    fields: Ints | None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CsvTable:
    """The layout of all records of a file, learned from its beginning by `open_table`.

    Attributes:
        columns: Role -> row of a record's `fields` that holds its column.
        last: Row that holds a record's last column, -1 where no role has it.
        slots: int64 `[F]`, for each field of a record its row, -1 for one that no role has.
        separator: The byte between fields.
        body: First byte after the header.
        body_line: Number of the first line after the header.
        encoding: What fields are decoded by.
        pattern: Matches one record with its line end; its groups are the rows.
        beginning: Matches what any record begins with, damaged ones too: fields up to the last key,
            or, without keys, as many separators in one line as a record has.
        keys: Roles that every record has a value for -> what such values look like.
    """

    columns: Mapping[str, int]
    last: int
    slots: Ints
    separator: int
    body: int
    body_line: int
    pattern: re.Pattern[bytes]
    beginning: re.Pattern[bytes]
    encoding: Encoding
    keys: Mapping[str, re.Pattern[str]]

    def value(self, record: CsvRecord, role: str) -> str | None:
        """Return a field; None for NULL, which is an empty field without quotes, and for no column.

        Raises:
            RecordError: The record is damaged, or the field is not UTF-8.
        """
        if record.fields is None:
            raise RecordError(
                Reason(
                    "expected a record with as many columns as the header and each quote closed, "
                    "got another",
                    advice={"separator": "say what stands between columns with source.separator"},
                )
            )
        row = self.columns.get(role)
        if row is None:
            return None

        raw = record.data[record.fields[2 * row] : record.fields[2 * row + 1]]
        value = _plain(raw, is_last=row == self.last)
        if not value and not raw.startswith(b'"'):
            return None
        return decode_utf8(to_utf8(value, self.encoding))

    def records(self, file: BinaryIO, part: Part) -> Iterator[CsvRecord]:
        """Read the records of a part of an open file, passing over blank lines between them."""
        for block in self.blocks(file, part):
            starts = block.starts.tolist()
            stops = block.stops.tolist()
            lines = block.lines.tolist()
            fields = [None] if block.fields is None else block.fields.tolist()
            for start, stop, line, of_record in zip(starts, stops, lines, fields, strict=True):
                yield CsvRecord(start, stop, line, block.data, of_record)

    def blocks(self, file: BinaryIO, part: Part) -> Iterator[_Block]:
        """Read the records of a part of an open file, many at a time."""
        if part.start == 0:
            window = _Window(file, self.body, part.stop, line=self.body_line)
        else:
            window = _Window(file, part.start, part.stop, line=part.line)

        while window.skip_blank():
            block = window.split(self)
            if not len(block.starts):
                block = self._single(window)
            yield block

    def _single(self, window: _Window) -> _Block:
        """Read a record that is damaged, or of which some has not been read yet."""
        start = window.offset
        line = window.line
        match = window.match(self.pattern)
        fields = None
        data = b""
        if match is not None:
            window.advance(match.end())
            fields = np.array([_field_bounds(match)], np.int64)
            data = match.string
        else:
            window.skip_line()
            while not window.is_over() and not self._begins(window):
                window.skip_line()

        return _Block(
            starts=np.array([start]),
            stops=np.array([window.offset]),
            lines=np.array([line]),
            data=data,
            fields=fields,
        )

    def _begins(self, window: _Window) -> bool:
        """Return whether a record begins where the window stands.

        A line of a damaged record's text may look like a record too; its keys tell them apart.
        """
        match = window.match(self.pattern)
        if match is None:
            return window.match(self.beginning) is not None
        record = CsvRecord(0, 0, 0, match.string, _field_bounds(match))
        try:
            return all(
                form.fullmatch(self.value(record, role) or "") for role, form in self.keys.items()
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
        if found is not None and found.end() - found.start() > LONGEST:
            return None
        return found

    def split(self, table: CsvTable) -> _Block:
        """Take the records that are strict and have been read, and go past them.

        There is none if the next record is another.
        """
        data = np.frombuffer(self._data, np.uint8)
        records = np.empty((_RECORDS, 4), np.int64)
        fields = np.empty((_RECORDS, table.pattern.groups, 2), np.int64)
        count = split_records(
            data, self._position, table.separator, LONGEST, table.slots, records, fields
        )

        starts, stops, lines, lines_past = records[:count].T
        block = _Block(
            starts=self._base + starts,
            stops=self._base + stops,
            lines=self.line + lines,
            data=self._data,
            fields=fields.reshape(_RECORDS, -1)[:count],
        )
        if count:
            self.line += int(lines_past[-1])
            self._position = int(stops[-1])
            block.stops[-1] = self.offset  # a last line without a line end has got one
        return block

    def skip_line(self) -> None:
        """Go to the next line; what is passed over is not kept."""
        while (end := self._data.find(b"\n", self._position)) < 0 and self._end < 0:
            self._position = len(self._data)
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
    number = first  # of the block's first record
    with opened(path) as file:
        for block in table.blocks(file, part):
            # The next part begins at the first record that is far enough from this one's first.
            at = 0
            while True:
                at = max(at, first + 1 - number)
                at += int(np.searchsorted(block.starts[at:], start + target_bytes))
                if at >= len(block.starts):
                    break
                yield Part(part.path, start, int(block.starts[at]), first, line)
                start = int(block.starts[at])
                line = int(block.lines[at])
                first = number + at
            number += len(block.starts)
    yield Part(part.path, start, path.stat().st_size if stop < 0 else stop, first, line)


def open_table(
    file: BinaryIO,
    name: str,
    columns: Mapping[str, str],
    *,
    keys: Collection[str],
    separator: str,
    encoding: Encoding = "utf-8",
) -> CsvTable:
    """Learn from a file's header where its columns are, and from its first record what keys are.

    Args:
        file: The file, at its beginning.
        name: Its name, for messages.
        columns: Role -> name of its column, in any case and order.
        keys: Roles that every record has a value for. Those that are integers in the first record
            are integers in all.
        separator: One character.
        encoding: What the fields are decoded by. Bytes of ASCII must stand for themselves in it.

    Raises:
        SourceError: No header that has these columns, each once, or one with too many columns. The
            message does not say what stands there instead: in a file without a header, that is a
            patient's.
    """
    beginning = file.read(CHUNK)
    header = _header(beginning, separator)
    names = header_names(beginning, separator=separator, encoding=encoding)
    absent = [name for name in columns.values() if names.count(name.casefold()) != 1]
    if header is None or absent:
        raise SourceError(
            f"{name}:1: expected a header with the columns {', '.join(columns.values())}, "
            f"found no single {', '.join(absent)}; name the columns with [source] text_column and "
            f"the like, '' for none"
        )
    if len(names) > _MOST_COLUMNS:
        raise SourceError(
            f"{name}:1: expected at most {_MOST_COLUMNS} columns, got {len(names)}; is it a table?"
        )

    numbers = {role: names.index(name.casefold()) for role, name in columns.items()}
    captured = sorted(set(numbers.values()))
    last_column = len(names) - 1
    pattern = _pattern(separator, width=len(names), captured=captured)
    first = pattern.match(beginning, header.end())
    values = _fields(first[0], separator, encoding) if first else []

    def form(role: str) -> re.Pattern[str]:
        is_integer = values and _INTEGER.fullmatch(values[numbers[role]])
        return _INTEGER if is_integer else _KEY

    forms = {role: form(role) for role in keys if role in numbers}
    slots = np.full(len(names), -1, np.int64)
    slots[captured] = np.arange(len(captured))
    return CsvTable(
        columns={role: int(slots[number]) for role, number in numbers.items()},
        last=int(slots[last_column]),
        slots=slots,
        separator=ord(separator),
        body=min(header.end(), len(beginning)),
        body_line=1 + header[0].count(b"\n"),
        pattern=pattern,
        beginning=_beginning(
            separator, len(names), {numbers[role]: of_key for role, of_key in forms.items()}
        ),
        encoding=encoding,
        keys=forms,
    )


def header_names(beginning: bytes, *, separator: str, encoding: Encoding) -> list[str]:
    """Return the names of a table's columns in lower case, none where it has no header.

    Args:
        beginning: The first bytes of the file.
        separator: One character.
        encoding: As of `open_table`.
    """
    header = _header(beginning, separator)
    if header is None:
        return []
    return [name.strip().casefold() for name in _fields(header[0], separator, encoding)]


def _header(beginning: bytes, separator: str) -> re.Match[bytes] | None:
    return _pattern(separator, width=None).match(
        beginning if beginning.endswith(b"\n") else beginning + b"\n",
        len(BOM_UTF8) if beginning.startswith(BOM_UTF8) else 0,
    )


def _field_bounds(match: re.Match[bytes]) -> list[int]:
    """Return the bounds of the wanted fields of a record that was matched, as in `CsvRecord`."""
    return [bound for group in range(1, match.re.groups + 1) for bound in match.span(group)]


def _fields(record: bytes, separator: str, encoding: Encoding) -> list[str]:
    """Return all fields of a record with its line end; what cannot be decoded is replaced."""
    mark, field = _marked(separator)
    found = re.finditer(rb"(" + field + rb")(?:" + mark + rb"|(\r?\n))", record)
    return [
        _plain(match[1], is_last=match[2] is not None).decode(encoding, errors="replace")
        for match in found
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


def _beginning(
    separator: str, width: int, keys: Mapping[int, re.Pattern[str]]
) -> re.Pattern[bytes]:
    """Return the pattern of what a record begins with, damaged ones too; see `CsvTable`.

    Args:
        separator: One character.
        width: Number of a record's fields.
        keys: Number of a field -> what its values look like.
    """
    mark, field = _marked(separator)
    if not keys:
        return re.compile((rb"[^\n" + mark + rb"]*+" + mark) * (width - 1))
    key = {
        number: (rb'"?[0-9]+"?' if form is _INTEGER else rb'"?[^\s"' + mark + rb']{1,128}"?')
        for number, form in keys.items()
    }
    fields = [key.get(number, rb"(?:" + field + rb")") for number in range(max(keys) + 1)]
    return re.compile(mark.join(fields) + rb"(?:" + mark + rb"|\r?\n)")
