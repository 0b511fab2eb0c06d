from __future__ import annotations

from pathlib import Path

import pytest

from mslm_data.errors import SourceError
from mslm_data.source.reading.encodings import TextSource
from mslm_data.source.reading.plain_tables import Header, PlainTable, open_table
from mslm_data.source.reading.records import RecordError


def table(path: Path, text: str, *, separator: str = "", header: Header = "auto") -> PlainTable:
    path.write_text(text, encoding="utf-8", newline="")
    return open_table(path, TextSource(), separator=separator, header=header)


@pytest.mark.parametrize(
    ("text", "separator"),
    [("a\tb,c,d\n", "\t"), ("a,b;c,d\n", ","), ("a;b;c,d\n", ";"), ("a|b\n", "|"), ("a\n", "\t")],
)
def test_open_table__finds_the_separator(tmp_path: Path, text: str, separator: str) -> None:
    assert table(tmp_path / "a.tsv", text).separator == separator


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("\ufeff\n Doc \tStart\n", ["doc", "start"]),
        ("a\t0\t3\n", []),
        ("a\t0 3;5 8\n", []),
        ("", [""]),
    ],
)
def test_open_table__a_row_with_numbers_is_no_header(
    tmp_path: Path, text: str, names: list[str]
) -> None:
    assert table(tmp_path / "a.tsv", text).names == names


def test_number_of__is_by_name_or_by_number(tmp_path: Path) -> None:
    found = table(tmp_path / "a.tsv", "Doc\tStart\tx\tx\n")

    assert [found.column_number(column) for column in ("START", 3, 4, -1, "x", "y")] == [
        1,
        3,
        None,
        None,
        None,
        None,
    ]


def test_rows__give_lines_and_cells(tmp_path: Path) -> None:
    found = table(tmp_path / "a.tsv", 'doc\tstart\n\n"a"\t7\nb\n')

    one, other = found.rows({"id": 0, "start": 1})

    assert (one.line, one.cells, one.cell("start"), one.cell("words")) == (
        3,
        {"id": '"a"', "start": "7"},
        "7",
        "",
    )
    assert (other.line, other.cell("id")) == (4, "b")
    with pytest.raises(RecordError, match="expected at least 2 columns, got 1"):
        other.cell("start")


def test_rows__with_a_separator_too_many_have_only_their_first_value(tmp_path: Path) -> None:
    found = table(tmp_path / "a.tsv", "doc\twords\tlabel\na\tred\tsore\tSign\nb\tred\tSign\t\n")

    moved, other = found.rows({"id": 0, "words": 1, "label": 2})

    assert moved.cell("id") == "a"
    for role in ("words", "label"):
        with pytest.raises(RecordError, match="expected at most 3 columns, got 4"):
            moved.cell(role)
    assert (other.cell("words"), other.cell("label")) == ("red", "Sign")


def test_rows__reads_other_roles_of_a_row_with_a_missing_value(tmp_path: Path) -> None:
    found = table(tmp_path / "a.tsv", "doc\tstart\tcode\na\t7\n")

    (row,) = found.rows({"id": 0, "start": 1, "concept": 2})

    assert (row.cell("start"), row.cell("words")) == ("7", "")
    with pytest.raises(RecordError, match="expected at least 3 columns, got 2"):
        row.cell("concept")


def test_rows__of_csv_are_quoted(tmp_path: Path) -> None:
    found = table(tmp_path / "a.csv", '"doc","text"\r\na,"Red, ""sore""\nskin"\r\nb,"open\r\n')

    one, other = found.rows({"id": 0, "text": 1})

    assert (one.line, one.cell("text")) == (2, 'Red, "sore"\nskin')
    assert other.line == 4
    with pytest.raises(RecordError, match="each quote closed"):
        other.cell("text")


def test_rows__of_csv_need_a_header(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"a\.csv:1: expected a header"):
        list(table(tmp_path / "a.csv", "a,1\n").rows({"id": 0}))
