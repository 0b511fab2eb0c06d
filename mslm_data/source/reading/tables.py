"""Reads rows of tables by the role of their columns, from separated values, parquet or texts.

A role is what a column is for (`id`, `text` …); options of a source say which column has it.
"""

from __future__ import annotations

import functools
import math
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

from mslm_data.data.document import Part
from mslm_data.errors import SourceError
from mslm_data.source.reading import arrow_rows, csv_records
from mslm_data.source.reading.csv_records import CsvTable
from mslm_data.source.reading.encodings import Encoding, TextOptions, opened_utf8
from mslm_data.source.reading.files import ends_with, has_cr_lines, opened, read_bytes, stem
from mslm_data.source.reading.records import RecordError, decode_utf8, may_be_cut


class TableRow(NamedTuple):
    """A row of a table.

    Attributes:
        number: Its number in the file, from 0.
        place: Where it stands, for messages.
        roles: The roles that it can have a value for.
        value: Returns its value for a role, None for nothing; raises RecordError for a value that
            is not text.
    """

    number: int
    place: str
    roles: Collection[str]
    value: Callable[[str], str | None]


@dataclass(frozen=True, kw_only=True)
class TableReader:
    """Reads `.csv` and `.parquet` tables, and `.txt` files as tables of one row.

    Attributes:
        columns: Role -> name of its column, in any case.
        keys: Roles that every row has a value for.
        separator: What stands between columns of `.csv`.
        text: How files of text are read.
    """

    columns: Mapping[str, str]
    keys: Collection[str]
    separator: str
    text: TextOptions = field(default_factory=TextOptions)

    def rows(self, part: Part) -> Iterator[TableRow]:
        """Read the rows of a part.

        Raises:
            SourceError: It is not a table with these columns.
        """
        path = Path(part.path)
        if path.suffix == ".parquet":
            return _parquet_rows(part, self.columns)
        if ends_with(path, ".txt"):
            return iter([self._text_row(path)])
        return self._csv_rows(part)

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:
        """Cut a table between rows; a compressed one, or a text, is one part. See `Source.cut`."""
        path = Path(part.path)
        if path.suffix == ".parquet":
            return arrow_rows.cut(part, target_bytes=target_bytes)
        if ends_with(path, ".txt") or not may_be_cut(part, target_bytes) or self._is_recoded(path):
            return iter([part])
        with opened(path) as file:
            table = self._open(file, path.name, self.text.encoding)
            return csv_records.cut(part, table, target_bytes=target_bytes)

    def cut_before(
        self, part: Part, *, target_bytes: int, begins: Callable[[TableRow], bool]
    ) -> Iterator[Part]:
        """Cut a `.csv` table before rows that begin a group; the parts count groups.

        Args:
            part: The file, or a part of it that begins with a group.
            target_bytes: About how many bytes a part gets; each gets at least one group.
            begins: Says whether a row begins a group; it is asked of each row in order.
        """
        path = Path(part.path)
        if not may_be_cut(part, target_bytes) or self._is_recoded(path):
            yield part
            return

        _, start, stop, first, line = part
        groups = first
        with opened(path) as file:
            table = self._open(file, path.name, self.text.encoding)
            for record in table.records(file, part):
                value = functools.partial(table.value, record)
                if not begins(TableRow(0, "", table.columns, value)):
                    continue
                if groups > first and record.start - start >= target_bytes:
                    yield Part(part.path, start, record.start, first, line)
                    start = record.start
                    line = record.line
                    first = groups
                groups += 1
        yield Part(part.path, start, path.stat().st_size if stop < 0 else stop, first, line)

    def names(self, path: Path) -> list[str]:
        """Return the names of a `.csv` table's columns in lower case."""
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

    def _is_recoded(self, path: Path) -> bool:
        """Return whether a file's records are found only after its bytes became others."""
        return self.text.is_one_part(path) or has_cr_lines(read_bytes(path, 0, csv_records.CHUNK))

    def _open(self, file: BinaryIO, name: str, encoding: Encoding) -> CsvTable:
        return csv_records.open_table(
            file,
            name,
            self.columns,
            keys=self.keys,
            separator=self.separator,
            encoding=encoding,
        )

    def _text_row(self, path: Path) -> TableRow:
        """Read a text file as one row; its id is the file's name without its suffix."""

        def value(role: str) -> str | None:
            if role == "id":
                return stem(path)
            if role != "text":
                return None
            return decode_utf8(self.text.utf8(path).removeprefix(BOM_UTF8))

        return TableRow(0, f"{path.name}:1", ("id", "text"), value)


def _parquet_rows(part: Part, columns: Mapping[str, str]) -> Iterator[TableRow]:
    """Read a range of a parquet file's rows; places are `file:row`, from 1."""
    path = Path(part.path)
    given = arrow_rows.schema(path).names
    found = {name: _match_column(name, given) for name in columns.values()}
    absent = [name for name, column in found.items() if column is None]
    if absent:
        raise SourceError(
            f"{path.name}: expected the columns {', '.join(columns.values())}, found no single "
            f"{', '.join(absent)}; name the columns with [source] text_column and the like, '' for "
            f"none"
        )

    roles = {role: str(found[name]) for role, name in columns.items()}
    stop = arrow_rows.num_rows(path) if part.stop < 0 else part.stop
    rows = arrow_rows.rows(path, part.start, stop, columns=set(roles.values()))
    for number, row in enumerate(rows, start=part.start):
        value = functools.partial(_cell, row, roles)
        yield TableRow(number, f"{path.name}:{number + 1}", roles, value)


def _match_column(wanted: str, given: Sequence[str]) -> str | None:
    """Return the column of a name: that of just this name, or else the only one in any case."""
    if given.count(wanted) == 1:
        return wanted
    alike = [name for name in given if name.casefold() == wanted.casefold()]
    return alike[0] if len(alike) == 1 else None


def _cell(row: Mapping[str, object] | None, roles: Mapping[str, str], role: str) -> str | None:
    if row is None:
        raise RecordError("expected UTF-8, got other bytes")
    return _as_text(row.get(roles.get(role, "")))


def _as_text(value: object) -> str | None:
    """Return a typed cell as a table of text has it: whole numbers without a point, NaN as None.

    Raises:
        RecordError: The cell holds several values, or bytes that are not UTF-8.
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
