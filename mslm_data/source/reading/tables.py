"""Reads rows of tables by role, from separated values, parquet or texts.

A role is the purpose of a column (`id`, `text` …). Options of a source map roles to columns.
"""

from __future__ import annotations

import functools
import math
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

from mslm_data.data.document import Part, SetAside
from mslm_data.errors import SourceError
from mslm_data.source.reading import arrow_rows, csv_records
from mslm_data.source.reading.cells import Row
from mslm_data.source.reading.csv_records import CsvTable, Quotes
from mslm_data.source.reading.encodings import Encoding, TextReading, TextSource, opened_utf8
from mslm_data.source.reading.files import ends_with, has_cr_lines, opened, read_bytes, stem
from mslm_data.source.reading.records import RecordError, decode_utf8


class TableRow(NamedTuple):
    """A row of a table.

    Attributes:
        number: Index of the row in the file, from 0.
        place: Place of the row, for messages.
        roles: Roles for which the row may have a value.
        value: Function from a role to its value, None if empty. Raises RecordError if the value is
            not text.
    """

    number: int
    place: str
    roles: Collection[str]
    value: Callable[[str], str | None]


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
    text: TextReading = field(default_factory=TextSource)
    quotes: Quotes = True

    def rows(self, part: Part) -> Iterator[TableRow]:
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
        if ends_with(path, ".txt") or not self._may_be_cut(part, target_bytes):
            return iter([part])
        with opened(path) as file:
            table = self._open(file, path.name, self.text.encoding)
        return csv_records.cut(part, table, target_bytes=target_bytes)

    def names(self, path: Path) -> list[str]:
        """Return the column names of a `.csv` table in lower case."""
        is_recoded = self._is_recoded(path)
        encoding = "utf-8" if is_recoded else self.text.encoding
        with opened_utf8(path, self.text.encoding) if is_recoded else opened(path) as file:
            beginning = file.read(csv_records.CHUNK)
        return csv_records.header_names(beginning, separator=self.separator, encoding=encoding)

    def _csv_rows(self, part: Part) -> Iterator[TableRow]:
        path = Path(part.path)
        is_recoded = self._is_recoded(path)
        encoding = "utf-8" if is_recoded else self.text.encoding
        with opened_utf8(path, self.text.encoding) if is_recoded else opened(path) as file:
            table = self._open(file, path.name, encoding)
            for number, record in enumerate(table.records(file, part), start=part.first):
                value = functools.partial(table.value, record)
                yield TableRow(number, f"{path.name}:{record.line}", table.columns, value)

    def _may_be_cut(self, part: Part, target_bytes: int) -> bool:
        may_be_cut = self.text.may_be_cut(part, target_bytes=target_bytes)
        return may_be_cut and not self._is_recoded(Path(part.path))

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

    def _text_row(self, path: Path) -> TableRow:
        """Read a text file as a row, with the file's name without suffix as id."""

        def value(role: str) -> str | None:
            if role == "id":
                return stem(path)
            if role != "text":
                return None
            return decode_utf8(self.text.utf8(path).removeprefix(BOM_UTF8))

        return TableRow(0, f"{path.name}:1", ("id", "text"), value)


def _parquet_rows(part: Part, columns: Mapping[str, str]) -> Iterator[TableRow]:
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
    rows = arrow_rows.rows(part, columns=set(roles.values()))
    for number, row in enumerate(rows, start=part.start):
        yield TableRow(number, row.place, roles, functools.partial(_cell, row, roles))


def _match_column(name: str, present: Sequence[str]) -> str | None:
    """Return the column with exactly this name, or else the only column with it in any case."""
    if present.count(name) == 1:
        return name
    alike = [column for column in present if column.casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else None


def _cell(row: Row | SetAside, roles: Mapping[str, str], role: str) -> str | None:
    if isinstance(row, SetAside):
        raise RecordError(row.reason)
    return _as_text(row.value.get(roles.get(role, "")))


def _as_text(value: object) -> str | None:
    """Convert a typed cell to text: whole numbers without a decimal point, NaN to None.

    Raises:
        RecordError: The cell has several values, or bytes that are not valid UTF-8.
    """
    if isinstance(value, bytes):
        return decode_utf8(value)
    if isinstance(value, list | dict):
        raise RecordError("expected one value in each column, got several")
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        value = int(value)
    return str(value)
