"""Reads tables with or without a header, by column name or number.

Quoting is supported in `.csv` files only. In other files a quote is an ordinary character.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from mslm_data.data.document import Part
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.source.reading import csv_records
from mslm_data.source.reading.encodings import TextReading, opened_utf8
from mslm_data.source.reading.files import ends_with, lines
from mslm_data.source.reading.records import RecordError, decode_utf8

Column = str | int
"""A column: its name in the header, in any case, or its number, from 0."""
Header = Literal["auto"] | bool
"""Whether the first row is a header. "auto": it is, unless one of its cells is a number."""

_LONGEST_ROW = 1 << 20
_SEPARATORS = "\t,;|"
_NUMBER = re.compile(r"\s*\d[\d\s;,.:-]*")


class PlainRow(NamedTuple):
    """A row of a table.

    Attributes:
        line: Line number of the row's first line.
        cells: Role -> value, "" for an empty cell. Roles with an unreadable value are missing.
        problems: Role -> why its value cannot be read.
    """

    line: int
    cells: Mapping[str, str]
    problems: Mapping[str, Reason]

    def cell(self, role: str) -> str:
        """Return the value of a role, "" if the role has no column.

        Raises:
            RecordError: The value cannot be read.
        """
        if role in self.problems:
            raise RecordError(self.problems[role], line=self.line)
        return self.cells.get(role, "")


@dataclass(frozen=True, kw_only=True)
class PlainTable:
    """The layout of a table.

    Attributes:
        path: The file.
        text: Encoding of the file.
        separator: Separator of columns.
        names: Column names in lower case, empty if there is no header.
        width: Number of columns in the first row.
        is_quoted: Whether cells may be quoted.
    """

    path: Path
    text: TextReading
    separator: str
    names: Sequence[str]
    width: int
    is_quoted: bool

    def column_number(self, column: Column) -> int | None:
        """Return the number of a column, None if the table does not have it."""
        if isinstance(column, int):
            return column if 0 <= column < self.width else None
        name = column.casefold()
        return self.names.index(name) if self.names.count(name) == 1 else None

    def rows(
        self, numbers: Mapping[str, int], part: Part | None = None, *, with_blank: bool = False
    ) -> Iterator[PlainRow]:
        """Read the rows after the header.

        Args:
            numbers: Role -> column number.
            part: Part of the file to read, including the header; None for the whole file.
            with_blank: Whether to yield a row without cells for a blank line. By default blank
                lines are skipped.

        Raises:
            SourceError: The file cannot be read, or is a `.csv` table without a header.
        """
        part = part or Part(str(self.path))
        if self.is_quoted:
            yield from self._quoted_rows(numbers, part)
            return

        separator = self.separator.encode()
        is_header = bool(self.names)
        for line in lines(self.text.utf8(self.path, part.start, part.stop)):
            is_blank = not line.data.strip()
            if is_header:
                is_header = is_blank
            elif not is_blank:
                yield _row(line.number, line.data.split(separator), numbers, width=self.width)
            elif with_blank:
                yield PlainRow(line.number, {}, {})

    def _quoted_rows(self, numbers: Mapping[str, int], part: Part) -> Iterator[PlainRow]:
        if not self.names:
            raise SourceError(
                f"{self.path.name}:1: expected a header, as .csv tables have one, got none; add "
                f"one, or write the table with TABs as .tsv"
            )
        columns = {role: self.names[number] for role, number in numbers.items()}
        with opened_utf8(self.path, self.text.encoding) as file:
            table = csv_records.open_table(
                file,
                self.path.name,
                columns,
                keys=tuple(columns)[:1],
                separator=self.separator,
            )
            for record in table.records(file, part):
                cells = {}
                problems: dict[str, Reason] = {}
                # A damaged value matters only to callers that need its role.
                for role in columns:
                    try:
                        cells[role] = table.value(record, role) or ""
                    except RecordError as error:
                        problems[role] = error.reason
                yield PlainRow(record.line, cells, problems)


def _row(
    number: int, fields: Sequence[bytes], numbers: Mapping[str, int], *, width: int
) -> PlainRow:
    """Make a row from the fields of a line.

    Args:
        number: Line number.
        fields: Fields of the line.
        numbers: Role -> column number.
        width: Number of columns of the table. A longer row has a separator within a value, so only
            its first column is certain.
    """
    # Trailing separators do not move anything.
    is_moved = any(fields[width:])
    cells = {}
    problems = {}
    for role, column in numbers.items():
        if is_moved and column > 0:
            problems[role] = Reason(
                f"expected at most {width} columns, got {len(fields)}", code="too many columns"
            )
        elif column >= len(fields):
            problems[role] = Reason(
                f"expected at least {column + 1} columns, got {len(fields)}",
                code=f"no column {column + 1}",
            )
        else:
            try:
                cells[role] = decode_utf8(fields[column])
            except RecordError as error:
                problems[role] = error.reason
    return PlainRow(number, cells, problems)


def open_table(path: Path, text: TextReading, *, separator: str, header: Header) -> PlainTable:
    """Find the columns of a table in the first row of its file.

    Args:
        path: The file.
        text: Encoding of the file.
        separator: One character. "" detects it: a TAB if the first row has one, else the most
            frequent of `,`, `;` and `|`.
        header: Whether the first row is a header. "auto": it is, unless one of its cells is a
            number.

    Raises:
        SourceError: The file cannot be read.
    """
    beginning = text.beginning(path, _LONGEST_ROW)
    return detect_table(beginning, path, text, separator=separator, header=header)


def detect_table(
    beginning: bytes, path: Path, text: TextReading, *, separator: str, header: Header
) -> PlainTable:
    """Find the columns of a table in the beginning of its file, as UTF-8; see `open_table`."""
    rows = (line.data for line in lines(beginning))
    row = next((row for row in rows if row.strip()), b"").decode("utf-8", errors="replace")

    # Counting in the first row is enough: names rarely contain separators.
    if not separator:
        separator = "\t" if "\t" in row else max(_SEPARATORS, key=row.count)
    fields = row.split(separator)
    is_quoted = ends_with(path, ".csv")
    if is_quoted:
        fields = csv_records.header_names(beginning, separator=separator, encoding="utf-8")

    has_header = header
    if header == "auto":
        has_header = not any(_NUMBER.fullmatch(name) for name in fields)
    names = [name.strip().casefold() for name in fields] if has_header else []
    return PlainTable(
        path=path,
        text=text,
        separator=separator,
        names=names,
        width=len(fields),
        is_quoted=is_quoted,
    )
