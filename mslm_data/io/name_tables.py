"""Reads small CSV tables, such as terms and concepts, and checks every row."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from mslm_data.errors import MslmDataError
from mslm_data.io.limits import iter_lines


class NameTable(NamedTuple):
    """Hold a table that is being read.

    Attributes:
        columns: Names of the columns, in lower case. Empty for an empty file.
        rows: Line number of each row, counted from 1, and its fields by column, without surrounding
            white space.
    """

    columns: tuple[str, ...]
    rows: Iterator[tuple[int, dict[str, str]]]


def read_table(
    file: IO[str],
    path: Path,
    error: type[MslmDataError],
    *,
    delimiter: str = ",",
    quoted: bool = True,
) -> NameTable:
    """Read a table with a header. Empty rows are skipped.

    All rows must have as many fields as the header: otherwise an unclosed quote would merge rows,
    and an unquoted comma would shift fields.

    Args:
        file: A text file opened with `newline=""`.
        path: Path of the file, for messages.
        error: Exception class for malformed rows.
        delimiter: Field separator. Default: ",".
        quoted: Whether fields may be quoted. Default: True.
    """
    rows = _rows(file, path, error, delimiter=delimiter, quoted=quoted)
    _, header = next(rows, (1, []))
    columns = tuple(name.strip().lower() for name in header)
    return NameTable(
        columns,
        ((line, dict(zip(columns, map(str.strip, fields), strict=True))) for line, fields in rows),
    )


def _rows(
    file: IO[str], path: Path, error: type[MslmDataError], *, delimiter: str, quoted: bool
) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line and the fields of each row that is not empty."""
    lines = iter_lines(file, path, error)
    reader = csv.reader(
        lines,
        delimiter=delimiter,
        quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
        strict=True,
    )
    columns = 0
    while True:
        first_line = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as problem:
            raise error(
                f"{path}:{first_line}: expected a row of a table, got one that is broken "
                f"({problem}); close each quote, and double those within a quoted field"
            ) from None

        if row is None:
            return
        if not row:
            continue
        columns = columns or len(row)
        if len(row) != columns:
            advice = "; put quotes around a field that holds a separator" if quoted else ""
            raise error(
                f"{path}:{first_line}: expected {columns} fields as in the first row, got "
                f"{len(row)}{advice}"
            )
        yield first_line, row
