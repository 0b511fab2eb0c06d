"""Rows of note tables, whatever file they stand in: comma-separated values, parquet, or a text file for each note."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from mslm_data.data.document import Part
from mslm_data.errors import SourceError
from mslm_data.source.reading import arrow, csvs
from mslm_data.source.reading.csvs import Table
from mslm_data.source.reading.inputs import read_bytes
from mslm_data.source.reading.records import RecordError, opened, stem

Value = Callable[[str], str | None]
"""Returns what a row has for a role, None for nothing; raises `RecordError` for what is no text."""


class Row(NamedTuple):
    """A row: its number in the file from 0, its place for messages, the roles that it can have a value for."""

    number: int
    place: str
    roles: Collection[str]
    value: Value


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Options that say what columns are called, and the rows of files by them.

    Attributes:
        id_column: Of each note's id.
        patient_column: Whose note it is; "" takes it from the id.
        text_column: Of the text.
        category_column: Of the kind of note.
        error_column: Of the flag that withdraws a note.
        separator: What stands between columns of `.csv`.
    """

    id_column: str = "ROW_ID"
    patient_column: str = "SUBJECT_ID"
    text_column: str = "TEXT"
    category_column: str = "CATEGORY"
    error_column: str = "ISERROR"
    separator: str = ","

    def __post_init__(self) -> None:
        if not self.text_column:
            raise ValueError("expected text_column to name a column, got ''")
        if len(self.separator.encode()) != 1 or self.separator in '"\r\n':
            raise ValueError(
                "expected separator to be one character of ASCII, and no quote or line end"
            )

    def rows(self, part: Part) -> Iterator[Row]:
        """Give the rows of a part.

        Raises:
            SourceError: No table with these columns.
        """
        path = Path(part.path)
        if path.suffix == ".parquet":
            return _of_parquet(part, self.columns)
        return _of_text(part) if is_text(path) else _of_csv(part, self._table(path))

    def cut(self, path: Path, *, target_bytes: int) -> Iterator[Part]:
        """Cut a table between records or rows; what is compressed, or a text, is one part; see `Source.cut`."""
        if path.suffix == ".parquet":
            num_rows = arrow.num_rows(path)
            step = max(1, num_rows * target_bytes // max(path.stat().st_size, 1))
            for start in range(0, num_rows, step):
                yield Part(str(path), start, min(start + step, num_rows), start, start + 1)
        elif path.suffix == ".gz" or is_text(path) or path.stat().st_size <= target_bytes:
            yield Part(str(path))
        else:
            yield from csvs.cut(path, self._table(path), target_bytes=target_bytes)

    @functools.cached_property
    def columns(self) -> Mapping[str, str]:
        """Role -> column, of the columns that there are."""
        columns = {
            "id": self.id_column,
            "patient": self.patient_column,
            "text": self.text_column,
            "category": self.category_column,
            "error": self.error_column,
        }
        return {role: column for role, column in columns.items() if column}

    def _table(self, path: Path) -> Table:
        return csvs.open_table(path, self.columns, keys=("id", "patient"), separator=self.separator)


def is_text(path: Path) -> bool:
    """Say whether a file is one note."""
    return path.name.removesuffix(".gz").endswith(".txt")


def _of_csv(part: Part, table: Table) -> Iterator[Row]:
    """Give the rows of a part of a table of separated values."""
    path = Path(part.path)
    with opened(path) as file:
        for number, record in enumerate(table.records(file, part), start=part.first):
            value = (
                _damaged if record.match is None else functools.partial(_field, table, record.match)
            )
            yield Row(number, f"{path.name}:{record.line}", table.groups, value)


def _field(table: Table, match: re.Match[bytes], role: str) -> str | None:
    return table.value(match, role) if role in table.groups else None


def _damaged(_: str) -> str | None:
    raise RecordError(
        "expected a record with as many columns as the header and each quote closed, got another"
    )


def _of_parquet(part: Part, columns: Mapping[str, str]) -> Iterator[Row]:
    """Give the rows of a range of a parquet file's rows; places are `file:row`, from 1."""
    path = Path(part.path)
    names = {name.casefold(): name for name in arrow.schema(path).names}
    absent = [name for name in columns.values() if name.casefold() not in names]
    if absent:
        raise SourceError(
            f"{path.name}: expected the columns {', '.join(columns.values())}, found no {', '.join(absent)}; "
            f"name the columns with [source] text_column and the like, '' for none"
        )
    roles = {role: names[name.casefold()] for role, name in columns.items()}
    stop = arrow.num_rows(path) if part.stop < 0 else part.stop
    for number, row in enumerate(
        arrow.rows(path, part.start, stop, columns=set(roles.values())), start=part.start
    ):
        yield Row(number, f"{path.name}:{number + 1}", roles, functools.partial(_cell, row, roles))


def _cell(row: Mapping[str, object] | None, roles: Mapping[str, str], role: str) -> str | None:
    if row is None:
        raise RecordError("expected UTF-8, got other bytes")
    return _plain(row.get(roles.get(role, "")))


def _of_text(part: Part) -> Iterator[Row]:
    """Give a text file as one row: its id is the file's name without what follows the last dot."""
    path = Path(part.path)

    def value(role: str) -> str | None:
        if role == "id":
            return stem(path)
        try:
            return read_bytes(path).decode("utf-8-sig") if role == "text" else None
        except UnicodeDecodeError:
            raise RecordError("expected UTF-8, got other bytes") from None

    yield Row(0, f"{path.name}:1", ("id", "text"), value)


def _plain(value: object) -> str | None:
    """Return a cell of a typed table as a table of text would have it: whole numbers without a point, no NaN.

    Raises:
        RecordError: Several values, or bytes that are not UTF-8.
    """
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise RecordError("expected UTF-8, got other bytes") from None
    if isinstance(value, list | dict):
        raise RecordError("expected one value in each column, got several")
    if isinstance(value, float):
        value = None if value != value else int(value) if value.is_integer() else value  # noqa: PLR0124 - NaN
    if isinstance(value, bool):
        value = int(value)
    return None if value is None else str(value)
