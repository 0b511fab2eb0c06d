"""Tables of names and concepts, read row by row."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from mslm_data.errors import AnnotateError
from mslm_data.io.name_tables import read_table


def read(text: str, *, delimiter: str = ",", quoted: bool = True) -> list[tuple[int, list[str]]]:
    """Return the columns, and the line and fields of each row."""
    file = io.StringIO(text, newline="")
    table = read_table(file, Path("t.csv"), AnnotateError, delimiter=delimiter, quoted=quoted)
    return [(1, [*table.columns]), *((line, [*row.values()]) for line, row in table.rows)]


def test_read_table__gives_rows_with_their_first_lines() -> None:
    rows = read('ID, name \r\n\r\n1,"heart,\r\nfailure"\r\n2,"a ""b"" c"\r\n')

    assert rows == [
        (1, ["id", "name"]),
        (3, ["1", "heart,\r\nfailure"]),
        (5, ["2", 'a "b" c']),
    ]


def test_read_table__has_no_columns_without_a_header() -> None:
    assert read("") == [(1, [])]


def test_read_table__keeps_quotes_when_fields_are_unquoted() -> None:
    rows = read('id\tname\n1\t"heart\n', delimiter="\t", quoted=False)

    assert rows == [(1, ["id", "name"]), (2, ["1", '"heart'])]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('id,name\n1,"secret\n2,cough\n3,fever\n', r"^t\.csv:2: .* broken \(unexpected end of"),
        ('id,name\n1,cough\n2,"secret" x\n', r"^t\.csv:3: expected a row of a table"),
        ("id,name\n1,secret, acute\n", r"^t\.csv:2: expected 2 fields .* got 3; put quotes"),
        ("id,name\n1\n", r"^t\.csv:2: expected 2 fields as in the first row, got 1"),
    ],
)
def test_read_table__rejects_an_ambiguous_row(text: str, message: str) -> None:
    with pytest.raises(AnnotateError, match=message) as error:
        read(text)

    assert "secret" not in str(error.value)
