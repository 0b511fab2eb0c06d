"""Tables of separated values as records of bytes, one after the other: the file is never held, damage costs a record.

A record is strict: as many fields as the header has, every quote closed and followed by a separator or a line end.
What is not one is damaged, and ends before the next line that begins a record by the same measure. Each record is
decided by the bytes from its first one on, so cutting a file finds exactly the records that reading a part gives.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from mslm_data.data.document import Part
from mslm_data.errors import SourceError
from mslm_data.source.reading.records import RecordError, opened
from mslm_data.source.reading.window import CHUNK, Window

_BOM = b"\xef\xbb\xbf"
_QUOTED = rb'"[^"]*+(?:""[^"]*+)*+"'
_MOST_COLUMNS = 1000
_INTEGER = re.compile(r"\d+")
_KEY = re.compile(r"\S{1,128}")


class Record(NamedTuple):
    """One record: bytes `[start, stop)` of its file, the number of its first line, its fields; None if damaged."""

    start: int
    stop: int
    line: int
    match: re.Match[bytes] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """What a file's beginning says about all of its records.

    Attributes:
        groups: Role -> group of `pattern` that holds its column.
        last: The group that holds a record's last column, 0 where no role has it.
        body: First byte after the header.
        body_line: Number of the first line after the header.
        pattern: Matches one record with its line end.
        keys: Roles that every record has a value for -> what it looks like in the first record.
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
            RecordError: Not UTF-8.
        """
        group = self.groups[role]
        raw: bytes = match[group]
        value = _plain(raw, is_last=group == self.last)
        if not value and not raw.startswith(b'"'):
            return None
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise RecordError("expected UTF-8, got other bytes") from None

    def records(self, file: BinaryIO, part: Part) -> Iterator[Record]:
        """Give the records of a part of an open file; blank lines between them are none."""
        at_header = part.start == 0
        file.seek(self.body if at_header else part.start)
        window = Window(file, self.body if at_header else part.start, part.stop)
        window.line = self.body_line if at_header else part.line
        while window.skip_blank():
            start, line = window.offset, window.line
            match = window.match(self.pattern)
            if match is not None:
                window.advance(match.end())
            else:
                window.skip_line()
                while not window.is_over() and not self._begins(window):
                    window.skip_line()
            yield Record(start, window.offset, line, match)

    def _begins(self, window: Window) -> bool:
        """Say whether a record begins where the window stands, and not a line of a damaged one's text."""
        match = window.match(self.pattern)
        try:
            return match is not None and all(
                form.fullmatch(self.value(match, role) or "") for role, form in self.keys.items()
            )
        except RecordError:
            return False


def cut(path: Path, table: Table, *, target_bytes: int) -> Iterator[Part]:
    """Cut a file before records into parts of at least `target_bytes` but for the last; it is read once."""
    start, first, line = 0, 0, 1
    with opened(path) as file:
        for number, record in enumerate(table.records(file, Part(str(path)))):
            if number > first and record.start - start >= target_bytes:
                yield Part(str(path), start, record.start, first, line)
                start, first, line = record.start, number, record.line
    yield Part(str(path), start, path.stat().st_size, first, line)


def open_table(
    path: Path, columns: Mapping[str, str], *, keys: Collection[str], separator: str
) -> Table:
    """Learn from a file's header where its columns are, and from its first record what keys look like.

    Args:
        path: The file.
        columns: Role -> name of its column, in any case and order.
        keys: Roles that every record has a value for; integers in the first record are integers in all.
        separator: One character.

    Raises:
        SourceError: No header that has these columns, each once, or too many others. What it has instead is not
            named: in a file without a header that would be a patient's.
    """
    any_record = _pattern(separator, width=None)
    with opened(path) as file:
        head = file.read(CHUNK)
    begin = len(_BOM) if head.startswith(_BOM) else 0
    header = any_record.match(head if head.endswith(b"\n") else head + b"\n", begin)
    names = (
        []
        if header is None
        else [name.strip().casefold() for name in _fields(header[0], separator)]
    )
    absent = [name for name in columns.values() if names.count(name.casefold()) != 1]
    if header is None or absent:
        raise SourceError(
            f"{path.name}:1: expected a header with the columns {', '.join(columns.values())}, found no single "
            f"{', '.join(absent)}; name the columns with [source] text_column and the like, '' for none"
        )
    if len(names) > _MOST_COLUMNS:
        raise SourceError(
            f"{path.name}:1: expected at most {_MOST_COLUMNS} columns, got {len(names)}; is it a table?"
        )
    numbers = {role: names.index(name.casefold()) for role, name in columns.items()}
    captured = sorted(set(numbers.values()))
    pattern = _pattern(separator, width=len(names), captured=captured)
    first = pattern.match(head, header.end())
    values = _fields(first[0], separator) if first else []
    return Table(
        groups={role: captured.index(number) + 1 for role, number in numbers.items()},
        last=captured.index(len(names) - 1) + 1 if len(names) - 1 in captured else 0,
        body=min(header.end(), len(head)),
        body_line=1 + header[0].count(b"\n"),
        pattern=pattern,
        keys={
            role: _INTEGER if values and _INTEGER.fullmatch(values[numbers[role]]) else _KEY
            for role in keys
            if role in numbers
        },
    )


def _fields(record: bytes, separator: str) -> list[str]:
    """Return all fields of a record with its line end; bytes that are not UTF-8 become something else."""
    mark, field = _marked(separator)
    found = re.finditer(rb"(" + field + rb")(?:" + mark + rb"|(\r?\n))", record)
    return [
        _plain(match[1], is_last=match[2] is not None).decode(errors="replace") for match in found
    ]


def _plain(field: bytes, *, is_last: bool) -> bytes:
    """Return a field's value; the last of a record may have the first byte of its line end."""
    if field.startswith(b'"'):
        return field[1:-1].replace(b'""', b'"')
    return field.removesuffix(b"\r") if is_last else field


def _marked(separator: str) -> tuple[bytes, bytes]:
    """Return patterns of what separates fields, and of a field.

    A field without quotes may hold them but for its first character, as every reader has it.
    """
    mark = re.escape(separator.encode())
    return mark, _QUOTED + rb"|(?:[^\"\n" + mark + rb"][^\n" + mark + rb"]*+)?"


def _pattern(
    separator: str, *, width: int | None, captured: Collection[int] = ()
) -> re.Pattern[bytes]:
    """Return what matches a record of `width` fields, None for any number, with a group for some of them."""
    mark, field = _marked(separator)
    if width is None:
        return re.compile(rb"(?:" + field + rb")(?:" + mark + rb"(?:" + field + rb"))*+\r?\n")
    fields = [(b"(" if number in captured else b"(?:") + field + b")" for number in range(width)]
    return re.compile(mark.join(fields) + rb"\r?\n")
