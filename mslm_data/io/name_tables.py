"""Read tables of names and concepts row by row, so that no row is lost without a word."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from mslm_data.errors import MslmDataError
from mslm_data.io.limits import iter_lines


class NameRow(NamedTuple):
    """Hold a row of a table.

    Attributes:
        line: Number of its first line, from 1.
        fields: Its fields.
    """

    line: int
    fields: list[str]


def read_rows(
    file: IO[str],
    path: Path,
    error: type[MslmDataError],
    *,
    delimiter: str = ",",
    quoted: bool = True,
) -> Iterator[NameRow]:
    """Give the rows of a table that are not empty, the names of its columns first.

    A quote that is not closed would take all rows up to the next quote into one field, and a comma
    that is not quoted would move all fields after it. So both are refused.

    Args:
        file: An open text file whose line ends are kept.
        path: Its path, for messages.
        error: What is raised where a row is broken, or has not as many fields as the first one.
        delimiter: Separates fields.
        quoted: Whether quotes may stand around a field.
    """
    lines = iter_lines(file, path, error)
    if quoted:
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
    else:
        reader = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)
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
        yield NameRow(first_line, row)
