"""Reads tables whose columns are told by name or by number, with a header or without.

Only a `.csv` table quotes: everywhere else a quote is a character like others.
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
from mslm_data.source.reading.encodings import TextOptions, opened_utf8
from mslm_data.source.reading.files import ends_with, lines
from mslm_data.source.reading.records import RecordError, decode_utf8

Column = str | int
"""A column: its name in the header, in any case, or its number, from 0."""
Header = Literal["auto"] | bool
"""Whether the first row of a table names its columns (True), or is data as every other row (False).
With "auto" it is data if one of its cells is a number."""

_LONGEST_ROW = 1 << 20
_SEPARATORS = "\t,;|"
_NUMBER = re.compile(r"\s*\d[\d\s;,.:-]*")


class PlainRow(NamedTuple):
    """A row of a table.

    Attributes:
        line: Number of its first line.
        cells: Role -> its value, "" for an empty one; a role whose value cannot be read is missing.
        problems: Role -> why its value cannot be read.
    """

    line: int
    cells: Mapping[str, str]
    problems: Mapping[str, Reason]

    def cell(self, role: str) -> str:
        """Return a value, "" for a role without a column.

        Raises:
            RecordError: It cannot be read.
        """
        if role in self.problems:
            raise RecordError(self.problems[role], line=self.line)
        return self.cells.get(role, "")


@dataclass(frozen=True, kw_only=True)
class PlainTable:
    """How a file's rows are parted and which columns they have.

    Attributes:
        path: The file.
        text: How its bytes are decoded.
        separator: What stands between columns.
        names: The header's names in lower case; empty where the file has no header.
        width: Number of columns of the first row.
        is_quoted: Whether cells may be quoted.
    """

    path: Path
    text: TextOptions
    separator: str
    names: Sequence[str]
    width: int
    is_quoted: bool

    def column_number(self, column: Column) -> int | None:
        """Return the number of a column, None where the table does not have it."""
        if isinstance(column, int):
            return column if 0 <= column < self.width else None
        name = column.casefold()
        return self.names.index(name) if self.names.count(name) == 1 else None

    def rows(
        self, numbers: Mapping[str, int], part: Part | None = None, *, with_blank: bool = False
    ) -> Iterator[PlainRow]:
        """Read the rows after the header.

        Args:
            numbers: Role -> number of its column.
            part: The part of the file with these rows, the header among them; None for all of it.
            with_blank: Give a row without cells for a blank line, which is passed over otherwise.

        Raises:
            SourceError: The file cannot be read, or it is a `.csv` table without a header.
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
                for role in columns:
                    try:
                        cells[role] = table.value(record, role) or ""
                    except RecordError as error:
                        problems[role] = error.reason
                yield PlainRow(record.line, cells, problems)


def _row(
    number: int, fields: Sequence[bytes], numbers: Mapping[str, int], *, width: int
) -> PlainRow:
    """Return the row of a line.

    Args:
        number: Number of the line.
        fields: What stands between its separators.
        numbers: Role -> number of its column.
        width: Number of columns of the table. A row with more has a separator within a value, which
            moves all values but the first.
    """
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


def open_table(path: Path, text: TextOptions, *, separator: str, header: Header) -> PlainTable:
    """Learn from a file's first row what its columns are.

    Args:
        path: The file.
        text: How its bytes are decoded.
        separator: One character; "" finds it: a TAB if the first row has one, else the most
            frequent of `,`, `;` and `|`.
        header: Whether the first row names the columns. "auto" takes a row without any number for
            a header.

    Raises:
        SourceError: The file cannot be read.
    """
    beginning = text.beginning(path, _LONGEST_ROW)
    return detect_table(beginning, path, text, separator=separator, header=header)


def detect_table(
    beginning: bytes, path: Path, text: TextOptions, *, separator: str, header: Header
) -> PlainTable:
    """Learn from a file's beginning, as UTF-8, what its columns are; see `open_table`."""
    rows = (line.data for line in lines(beginning))
    row = next((row for row in rows if row.strip()), b"").decode("utf-8", errors="replace")

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
