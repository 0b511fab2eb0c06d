"""Reads rows of tables by role, from separated values, parquet or texts.

A role is the purpose of a column (`id`, `text` …). Options of a source map roles to columns. Tables
whose columns are known are read by a `TableReader`. `find_layout` finds columns in the first row.
"""

from __future__ import annotations

import functools
import math
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

from mslm_data.data.document import Part
from mslm_data.errors import SourceError
from mslm_data.source.reading import arrow_rows, csv_records
from mslm_data.source.reading.cells import Cells, Row
from mslm_data.source.reading.csv_records import CsvTable, Quotes
from mslm_data.source.reading.encodings import (
    Encoding,
    TextReading,
    marked,
    opened_utf8,
    to_utf8,
)
from mslm_data.source.reading.files import (
    ends_with,
    has_cr_lines,
    lines,
    opened,
    plain_lines,
    read_bytes,
    stem,
)
from mslm_data.source.reading.records import RecordError, decode_utf8

Column = str | int
"""A column: its name in the header, in any case, or its number, from 0."""
Header = Literal["auto"] | bool
"""Whether the first row is a header. "auto": it is, unless one of its cells is a number."""

_LONGEST_ROW = 1 << 20
_SEPARATORS = "\t,;|"
_NUMBER = re.compile(r"\s*\d[\d\s;,.:-]*")


class LazyCells(Mapping[str, Any]):
    """The cells of a row: role -> value. In tables, values are text, and None or "" if empty.

    A value is read on access, which raises RecordError if it is damaged or not text.
    """

    __slots__ = ("_read", "_roles")

    def __init__(self, roles: Collection[str], read: Callable[[str], object]) -> None:
        """Set the roles that have a column, and the function that reads the value of a role."""
        self._roles = roles
        self._read = read

    def __contains__(self, role: object) -> bool:
        return role in self._roles

    def __getitem__(self, role: str) -> Any:
        if role not in self._roles:
            raise KeyError(role)
        return self._read(role)

    def __iter__(self) -> Iterator[str]:
        return iter(self._roles)

    def __len__(self) -> int:
        return len(self._roles)


@dataclass(frozen=True, kw_only=True)
class TableReader:
    """Reads `.csv` and `.parquet` tables, and `.txt` files as tables with one row.

    Attributes:
        columns: Role -> column name, in any case.
        keys: Roles for which every row has a value.
        separator: Separator of columns in `.csv` files; "" for that of the header, see
            `csv_records.open_table`.
        text: Encoding of text files.
        quotes: Whether values in `.csv` files may be in quotes; see `csv_records.open_table`.
    """

    columns: Mapping[str, str]
    keys: Collection[str]
    separator: str
    text: TextReading
    quotes: Quotes = True

    def rows(self, part: Part) -> Iterator[Row]:
        """Read the rows of a part.

        Raises:
            SourceError: The file is not a table with these columns.
        """
        path = Path(part.path)
        if path.suffix == ".parquet":
            return _parquet_rows(part, self.columns)
        if ends_with(path, ".txt"):
            return iter([self._text_row(path)])
        return self._csv_rows(part)

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:
        """Cut a table between rows. A compressed table or a text is one part. See `Source.cut`."""
        path = Path(part.path)
        if path.suffix == ".parquet":
            return arrow_rows.cut(part, target_bytes=target_bytes)
        may_be_cut = self.text.may_be_cut(part, target_bytes=target_bytes)
        if ends_with(path, ".txt") or not may_be_cut or self._is_recoded(path):
            return iter([part])
        with opened(path) as file:
            table = self._open(file, path.name, self.text.encoding)
        return csv_records.cut(part, table, target_bytes=target_bytes)

    def _csv_rows(self, part: Part) -> Iterator[Row]:
        path = Path(part.path)
        file_stem = stem(path)
        is_recoded = self._is_recoded(path)
        encoding = "utf-8" if is_recoded else self.text.encoding
        with opened_utf8(path, self.text.encoding) if is_recoded else opened(path) as file:
            table = self._open(file, path.name, encoding)
            for number, record in enumerate(table.records(file, part), start=part.first):
                cells = LazyCells(table.columns, functools.partial(table.value, record.match))
                yield Row(cells, f"{file_stem}:{number}", f"{path.name}:{record.line}")

    def _is_recoded(self, path: Path) -> bool:
        """Return whether a file must be converted before its records can be found."""
        return self.text.is_one_part(path) or has_cr_lines(read_bytes(path, 0, csv_records.CHUNK))

    def _open(self, file: BinaryIO, name: str, encoding: Encoding) -> CsvTable:
        return csv_records.open_table(
            file,
            name,
            self.columns,
            keys=self.keys,
            separator=self.separator,
            encoding=encoding,
            quotes=self.quotes,
        )

    def _text_row(self, path: Path) -> Row:
        """Read a text file as a row, with the file's name without suffix as id."""

        def value(role: str) -> str:
            if role == "id":
                return stem(path)
            return decode_utf8(self.text.utf8(path).removeprefix(BOM_UTF8))

        return Row(LazyCells(("id", "text"), value), stem(path), f"{path.name}:1")


def _parquet_rows(part: Part, columns: Mapping[str, str]) -> Iterator[Row]:
    """Read a range of rows of a parquet file. Places are `file:row`, from 1."""
    path = Path(part.path)
    names = arrow_rows.schema(path).names
    matches = {name: _match_column(name, names) for name in columns.values()}
    absent = [name for name, column in matches.items() if column is None]
    if absent:
        raise SourceError(
            f"{path.name}: expected the columns {', '.join(columns.values())}, found none or "
            f"several of {', '.join(absent)}; name the columns with [source] text_column and the "
            "like, '' for none"
        )

    roles = {role: str(matches[name]) for role, name in columns.items()}
    for row in arrow_rows.rows(part, columns=set(roles.values())):
        cells = LazyCells(roles, functools.partial(_typed_cell, row.value, roles))
        yield row._replace(value=cells)


def _match_column(name: str, present: Sequence[str]) -> str | None:
    """Return the column with exactly this name, or else the only column with it in any case."""
    if present.count(name) == 1:
        return name
    alike = [column for column in present if column.casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else None


def _typed_cell(cells: Cells, roles: Mapping[str, str], role: str) -> str | None:
    """Convert a typed cell to text: whole numbers without a decimal point, NaN to None.

    Raises:
        RecordError: The cell has several values, or bytes that are not valid UTF-8.
    """
    value = cells.get(roles[role])
    if isinstance(value, bytes):
        return decode_utf8(value)
    if isinstance(value, list | dict):
        raise RecordError("expected one value in each column, got several")
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        value = int(value)
    return str(value)


# Columns found in the first row -------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TableLayout:
    """The columns of a table of separated values, with or without a header.

    Quotes are supported in `.csv` files only. In others a quote is an ordinary character.

    Attributes:
        path: The file.
        text: Encoding of the file.
        separator: Separator of columns.
        names: Column names in lower case, empty if there is no header.
        width: Number of columns in the first row.
    """

    path: Path
    text: TextReading
    separator: str
    names: Sequence[str]
    width: int

    def find(self, *columns: Column) -> int | None:
        """Return the number of the first of some columns that the table has, None if it has none.

        A name that occurs twice is no column.
        """
        for column in columns:
            if isinstance(column, int):
                if 0 <= column < self.width:
                    return column
            elif self.names.count(column.casefold()) == 1:
                return self.names.index(column.casefold())
        return None

    def rows(self, numbers: Mapping[str, int], part: Part | None = None) -> Iterator[Row]:
        """Read the rows after the header. Blank lines are rows without cells, but not in `.csv`.

        Args:
            numbers: Role -> column number. Every row has a value for the role "id".
            part: Part of the file to read, including the header; None for the whole file.

        Raises:
            SourceError: The file cannot be read, or is a `.csv` table without a header.
        """
        part = part or Part(str(self.path))
        if not ends_with(self.path, ".csv"):
            return self._plain_rows(numbers, part)
        if not self.names:
            raise SourceError(
                f"{self.path.name}:1: expected a header, as .csv tables have one, got none; add "
                f"one, or write the table with TABs as .tsv"
            )
        reader = TableReader(
            columns={role: self.names[number] for role, number in numbers.items()},
            keys=("id",),
            separator=self.separator,
            text=self.text,
        )
        return reader.rows(part)

    def _plain_rows(self, numbers: Mapping[str, int], part: Part) -> Iterator[Row]:
        """Read the rows of a table without quotes, in which every line is a row."""
        separator = self.separator.encode()
        file_lines = lines(self.text.utf8(self.path, part.start, part.stop))
        if self.names:
            next((line for line in file_lines if line.data.strip()), None)
        for number, line in enumerate(file_lines):
            fields = line.data.split(separator)
            read = functools.partial(self._plain_cell, fields, numbers)
            cells = LazyCells(numbers if line.data.strip() else (), read)
            yield Row(cells, f"{stem(self.path)}:{number}", f"{self.path.name}:{line.number}")

    def _plain_cell(self, fields: Sequence[bytes], numbers: Mapping[str, int], role: str) -> str:
        """Return a field of a line.

        Raises:
            RecordError: The line does not have it, or it is not valid UTF-8, or the line has more
                fields than the table has columns.
        """
        column = numbers[role]
        # A separator within a value moves those after it, so only the first column is certain.
        # Separators at the end do not move anything.
        if column > 0 and any(fields[self.width :]):
            raise RecordError(
                f"expected at most {self.width} columns, got {len(fields)}", code="too many columns"
            )
        if column >= len(fields):
            raise RecordError(
                f"expected at least {column + 1} columns, got {len(fields)}",
                code=f"no column {column + 1}",
            )
        return decode_utf8(fields[column])


def read_layout(path: Path, text: TextReading, *, separator: str, header: Header) -> TableLayout:
    """Find the columns of a table in its file; see `find_layout`.

    Raises:
        SourceError: The file cannot be read.
    """
    head = read_bytes(path, 0, _LONGEST_ROW)
    return find_layout(head, path, text, separator=separator, header=header)


def find_layout(
    head: bytes, path: Path, text: TextReading, *, separator: str, header: Header
) -> TableLayout:
    """Find the columns of a table in the first row of its file.

    Args:
        head: First bytes of the file.
        path: The file.
        text: Encoding of the file.
        separator: One character. "" detects it: a TAB if the first row has one, else the most
            frequent of `,`, `;` and `|`.
        header: Whether the first row is a header. "auto": it is, unless one of its cells is a
            number.
    """
    beginning = plain_lines(to_utf8(head, marked(head, text.encoding)), first=1)
    rows = (line.data for line in lines(beginning))
    row = next((row for row in rows if row.strip()), b"").decode("utf-8", errors="replace")

    # Counting in the first row is enough: names rarely contain separators.
    if not separator:
        separator = "\t" if "\t" in row else max(_SEPARATORS, key=row.count)
    fields = row.split(separator)
    if ends_with(path, ".csv"):
        fields = csv_records.header_names(beginning, separator=separator, encoding="utf-8")

    has_header = header
    if header == "auto":
        has_header = not any(_NUMBER.fullmatch(name) for name in fields)
    names = [name.strip().casefold() for name in fields] if has_header else []
    return TableLayout(path=path, text=text, separator=separator, names=names, width=len(fields))
