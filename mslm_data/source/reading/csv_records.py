"""Reads tables of separated values as a stream of records, isolating damaged records.

A strict record has as many fields as the header, and every quote is closed and followed by a
separator or a line end. Any other record is damaged. It ends before the next line that begins a
strict record or looks like the beginning of a damaged one, so consecutive damaged records are
counted separately. The boundaries of a record depend only on bytes from its first one on, so
cutting a file gives the same records as reading its parts. The file is never in memory as a whole.

Without this, one surplus column in every second half of a file merged hundreds of notes into one
record, below every limit of lost documents.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

from mslm_data.data.document import Part
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.source.reading.encodings import Encoding, to_utf8
from mslm_data.source.reading.files import opened
from mslm_data.source.reading.records import RecordError, decode_utf8

Quotes = Literal["auto"] | bool
"""Whether values may be in quotes. With "auto", the first rows of a file decide."""

CHUNK = 1 << 20
"""Number of bytes read at once."""
LONGEST = 8 << 20
"""Maximum size of a record in bytes. A longer match is a quote that is never closed."""

_QUOTED = rb'"[^"]*+(?:""[^"]*+)*+"'
_SEPARATORS = ",;\t|"
_MOST_COLUMNS = 1000
_INTEGER = re.compile(r"\d+")
_KEY = re.compile(r"\S{1,128}")


class CsvRecord(NamedTuple):
    """A record.

    Attributes:
        start: First byte in the file.
        line: Line number of the record's first line.
        match: Match of `CsvTable.pattern`; None if the record is damaged.
    """

    start: int
    line: int
    match: re.Match[bytes] | None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CsvTable:
    """The layout of a file's records, found from its beginning by `open_table`.

    Attributes:
        columns: Role -> group of its column in `pattern`.
        body: First byte after the header.
        body_line: Line number after the header.
        encoding: Encoding of the fields.
        pattern: Matches a record with its line end. Each column of a role has a group.
        beginning: Matches the beginning of any record, even a damaged one: fields up to the last
            key or, without keys, as many separators in a line as a record has.
        keys: Roles for which every record has a value -> pattern of the values.
        quotes: Whether a field may be in quotes. "auto": no, but a field that begins with a quote
            is an error.
    """

    columns: Mapping[str, int]
    body: int
    body_line: int
    pattern: re.Pattern[bytes]
    beginning: re.Pattern[bytes]
    encoding: Encoding
    keys: Mapping[str, re.Pattern[str]]
    quotes: Quotes

    def value(self, match: re.Match[bytes] | None, role: str) -> str | None:
        """Return a field of a record; None for NULL, which is an empty field without quotes.

        Raises:
            RecordError: The record is damaged, or the field is not valid UTF-8.
        """
        if match is None:
            raise RecordError(
                Reason(
                    "expected a record with as many columns as the header and each quote closed, "
                    "got another",
                    advice={"separator": "set the separator of columns with source.separator"},
                )
            )
        raw = match[self.columns[role]]
        is_quoted = raw.startswith(b'"')
        if is_quoted and self.quotes == "auto":
            raise RecordError(
                Reason(
                    "expected no quote at the beginning of a value, as the first rows have none, "
                    "got one",
                    advice={
                        "quotes": "{set} source.quotes=true if values may be in quotes, or "
                        "source.quotes=false if a quote is a character like any other"
                    },
                )
            )
        value = raw
        if is_quoted and self.quotes is True:
            value = _unquoted(raw)
        # `""` is an empty text; an empty field is NULL.
        if not value and not is_quoted:
            return None
        return decode_utf8(to_utf8(value, self.encoding))

    def records(self, file: BinaryIO, part: Part) -> Iterator[CsvRecord]:
        """Read the records of a part of an open file, skipping blank lines between them."""
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
                # Damaged. Skip lines until a record begins.
                window.skip_line()
                while not window.is_over() and not self._begins(window):
                    window.skip_line()
            yield CsvRecord(start, line, match)

    def _begins(self, window: _Window) -> bool:
        """Return whether a record begins at the window's position.

        A line in the text of a damaged record may look like a record. The values of keys
        distinguish them.
        """
        match = window.match(self.pattern)
        if match is None:
            return window.match(self.beginning) is not None
        try:
            return all(
                form.fullmatch(self.value(match, role) or "") for role, form in self.keys.items()
            )
        except RecordError:
            return False


class _Window:
    """A piece of a file that begins at the next record, and grows if a record needs more bytes."""

    def __init__(self, file: BinaryIO, start: int, stop: int, *, line: int) -> None:
        """Move to the first record.

        Args:
            file: An open file.
            start: First byte.
            stop: Byte after the last; -1 for the end of the file.
            line: Line number at `start`.
        """
        file.seek(start)
        self.line = line
        self._file = file
        self._left = stop - start if stop >= 0 else -1

        # `_data` has the bytes of the file from `_base`; the window is at `_position` in `_data`.
        self._data = b""
        self._position = 0
        self._base = start
        self._is_read = False

    @property
    def offset(self) -> int:
        """Position in the file."""
        return self._base + self._position

    def is_over(self) -> bool:
        """Return whether no bytes are left."""
        while self._position >= len(self._data) and not self._is_read:
            self._grow()
        return self._position >= len(self._data)

    def skip_blank(self) -> bool:
        """Skip blank lines, and return whether any bytes are left."""
        while not self.is_over():
            if len(self._data) - self._position < 2 and not self._is_read:
                self._grow()
            if self._data.startswith(b"\n", self._position):
                self.advance(self._position + 1)
            elif self._data.startswith(b"\r\n", self._position):
                self.advance(self._position + 2)
            else:
                return True
        return False

    def match(self, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
        """Match at the window's position, reading up to `LONGEST` bytes if needed."""
        while (match := pattern.match(self._data, self._position)) is None and not self._is_read:
            if len(self._data) - self._position >= LONGEST:
                break
            self._grow()
        if match is not None and match.end() - match.start() > LONGEST:
            return None
        return match

    def skip_line(self) -> None:
        """Move to the next line, discarding the bytes before it."""
        while (end := self._data.find(b"\n", self._position)) < 0 and not self._is_read:
            self._position = len(self._data)
            self._grow()
        self.advance(end + 1 if end >= 0 else len(self._data))

    def advance(self, position: int) -> None:
        """Move to a position in the window's bytes, such as the end of a match."""
        self.line += self._data.count(b"\n", self._position, position)
        self._position = position

    def _grow(self) -> None:
        """Read more bytes, and discard those before the position. Adds a missing final line end."""
        # Double the window, so that a long record is matched only a few times.
        wanted = max(CHUNK, len(self._data) - self._position)
        piece = self._file.read(wanted if self._left < 0 else min(wanted, self._left))
        if self._left > 0:
            self._left -= len(piece)

        self._base += self._position
        self._data = self._data[self._position :] + piece
        self._position = 0
        if not piece:
            self._is_read = True
            if self._data and not self._data.endswith(b"\n"):
                self._data += b"\n"


def cut(part: Part, table: CsvTable, *, target_bytes: int) -> Iterator[Part]:
    """Cut a part of a file between records. All parts but the last have at least `target_bytes`.

    Reads the part once.
    """
    path = Path(part.path)
    _, start, stop, first, line = part
    with opened(path) as file:
        for number, record in enumerate(table.records(file, part), start=first):
            if number > first and record.start - start >= target_bytes:
                yield Part(part.path, start, record.start, first, line)
                start = record.start
                line = record.line
                first = number
    yield Part(part.path, start, path.stat().st_size if stop < 0 else stop, first, line)


def open_table(
    file: BinaryIO,
    name: str,
    columns: Mapping[str, str],
    *,
    keys: Collection[str],
    separator: str,
    encoding: Encoding = "utf-8",
    quotes: Quotes = True,
) -> CsvTable:
    """Find the columns of a file in its header, and the form of its keys in the first record.

    Args:
        file: The file, at its beginning.
        name: Name of the file, for messages.
        columns: Role -> column name, in any case and order.
        keys: Roles for which every record has a value. A key that is an integer in the first record
            is an integer in all records.
        separator: One character. "" is the one of `,`, `;`, TAB and `|` that gives a header with
            these columns.
        encoding: Encoding of the fields. ASCII bytes must represent themselves in it.
        quotes: Whether a field may be in quotes. "auto": yes if only then the first records have as
            many fields as the header, no if only otherwise. The header may have quotes in any case.

    Raises:
        SourceError: The file has no header with each of these columns exactly once, or too many
            columns, or does not show whether fields are in quotes. The message does not quote the
            first line: in a file without a header, it belongs to a patient.
    """
    beginning = file.read(CHUNK)
    separator = separator or _find_separator(beginning, columns.values(), encoding)
    header = _header(beginning, separator)
    names = header_names(beginning, separator=separator, encoding=encoding)
    absent = [name for name in columns.values() if names.count(name.casefold()) != 1]
    if header is None or absent:
        raise SourceError(
            f"{name}:1: expected a header with the columns {', '.join(columns.values())}, "
            f"found none or several of {', '.join(absent)}; name the columns with [source] "
            "text_column and the like, '' for none"
        )
    if len(names) > _MOST_COLUMNS:
        raise SourceError(
            f"{name}:1: expected at most {_MOST_COLUMNS} columns, got {len(names)}; is it a table?"
        )

    if quotes == "auto":
        quotes = _find_quotes(beginning, header, name, separator, width=len(names))

    # Several roles may share a column. Each column has one group in the pattern.
    numbers = {role: names.index(name.casefold()) for role, name in columns.items()}
    captured = sorted(set(numbers.values()))
    pattern = _pattern(separator, width=len(names), captured=captured, has_quotes=quotes is True)
    first = pattern.match(beginning, header.end())
    values = _fields(first[0], separator, encoding) if first else []

    # Integer keys are recognised more reliably in damaged records than arbitrary words.
    def key_pattern(role: str) -> re.Pattern[str]:
        is_integer = values and _INTEGER.fullmatch(values[numbers[role]])
        return _INTEGER if is_integer else _KEY

    key_patterns = {role: key_pattern(role) for role in keys if role in numbers}
    groups = {number: group for group, number in enumerate(captured, start=1)}
    return CsvTable(
        columns={role: groups[number] for role, number in numbers.items()},
        body=min(header.end(), len(beginning)),
        body_line=1 + header[0].count(b"\n"),
        pattern=pattern,
        beginning=_beginning(
            separator,
            len(names),
            {numbers[role]: pattern for role, pattern in key_patterns.items()},
        ),
        encoding=encoding,
        keys=key_patterns,
        quotes=quotes,
    )


def _find_quotes(
    beginning: bytes, header: re.Match[bytes], name: str, separator: str, *, width: int
) -> Quotes:
    """Find out whether fields may be in quotes; "auto" if no field begins with a quote.

    Args:
        beginning: First bytes of the file.
        header: Match of the header.
        name: Name of the file, for messages.
        separator: One character.
        width: Number of columns.

    Raises:
        SourceError: The records have as many fields as the header both with and without quotes, or
            neither with nor without.
    """
    # A name in quotes, or a first row with all values in quotes, is no accident.
    mark = separator.encode()
    opening = re.compile(rb"(?:^|[\n" + re.escape(mark) + rb'])"')
    if opening.search(header[0]):
        return True
    is_whole = len(beginning) < CHUNK
    body = beginning[header.end() :]
    if not is_whole:
        body = body[: body.rfind(b"\n") + 1]
    elif not body.endswith(b"\n"):
        body += b"\n"
    if not opening.search(body):
        return "auto"

    rows = [row for row in body.split(b"\n") if row.strip(b"\r")]
    if width > 1 and all(value.startswith(b'"') for value in rows[0].split(mark)):
        return True
    fits_without = all(row.count(mark) == width - 1 for row in rows)

    record = _pattern(separator, width=width).pattern
    records = re.compile(rb"(?:\r?\n|" + record + rb")*+").match(body)
    rest = body[records.end() :] if records else body
    # The last record may be longer than the beginning. It then has an open quote.
    fits_with = not rest or (not is_whole and rest.count(b'"') % 2 == 1)
    if fits_with == fits_without:
        raise SourceError(
            f"{name}: expected rows that show whether values may be in quotes, got rows that do "
            "not; set [source] quotes = true if values may be in quotes, as pandas writes them, or "
            "quotes = false if a quote is a character like any other"
        )
    return fits_with


def _find_separator(beginning: bytes, columns: Collection[str], encoding: Encoding) -> str:
    """Return the separator that gives a header with each of these columns once, else a comma."""
    for separator in _SEPARATORS:
        names = header_names(beginning, separator=separator, encoding=encoding)
        if all(names.count(column.casefold()) == 1 for column in columns):
            return separator
    return ","


def header_names(beginning: bytes, *, separator: str, encoding: Encoding) -> list[str]:
    """Return the column names of a table in lower case, empty if it has no header.

    Args:
        beginning: First bytes of the file.
        separator: One character.
        encoding: See `open_table`.
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


def _fields(record: bytes, separator: str, encoding: Encoding) -> list[str]:
    """Return all fields of a record with its line end, replacing invalid bytes."""
    mark, field = _marked(separator)
    matches = re.finditer(rb"(" + field + rb")(?:" + mark + rb"|\r?\n)", record)
    values = (_unquoted(match[1]) if match[1].startswith(b'"') else match[1] for match in matches)
    return [value.decode(encoding, errors="replace") for value in values]


def _unquoted(field: bytes) -> bytes:
    return field[1:-1].replace(b'""', b'"')


def _marked(separator: str) -> tuple[bytes, bytes]:
    """Return the patterns of a separator and of a field.

    A field that does not begin with a quote may contain quotes, as in other CSV readers.
    """
    mark = re.escape(separator.encode())
    return mark, _QUOTED + rb'|(?!")' + _unquoted_pattern(mark)


def _unquoted_pattern(mark: bytes) -> bytes:
    """Return the pattern of a field without quotes. The CR of a CRLF is not part of it."""
    characters = rb"[^\r\n" + mark + rb"]*+"
    return characters + rb"(?:\r(?!\n)" + characters + rb")*+"


def _pattern(
    separator: str,
    *,
    width: int | None,
    captured: Collection[int] = (),
    has_quotes: bool = True,
) -> re.Pattern[bytes]:
    """Return the pattern of a record with its line end.

    Args:
        separator: One character.
        width: Number of fields, None for any.
        captured: Fields that get a group, from 0.
        has_quotes: Whether a field may be in quotes.
    """
    mark, field = _marked(separator)
    if not has_quotes:
        field = _unquoted_pattern(mark)
    if width is None:
        return re.compile(rb"(?:" + field + rb")(?:" + mark + rb"(?:" + field + rb"))*+\r?\n")
    fields = [(b"(" if number in captured else b"(?:") + field + b")" for number in range(width)]
    return re.compile(mark.join(fields) + rb"\r?\n")


def _beginning(
    separator: str, width: int, keys: Mapping[int, re.Pattern[str]]
) -> re.Pattern[bytes]:
    """Return the pattern of the beginning of any record; see `CsvTable`.

    Args:
        separator: One character.
        width: Number of fields.
        keys: Field -> pattern of its values.
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
