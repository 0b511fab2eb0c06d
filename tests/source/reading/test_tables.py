from __future__ import annotations

from pathlib import Path

import pytest

from mslm_data.errors import SourceError
from mslm_data.source.reading.encodings import TextSource
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.tables import Header, TableLayout, read_layout


def table(path: Path, text: str, *, separator: str = "", header: Header = "auto") -> TableLayout:
    path.write_text(text, encoding="utf-8", newline="")
    return read_layout(path, TextSource(), separator=separator, header=header)


@pytest.mark.parametrize(
    ("text", "separator"),
    [("a\tb,c,d\n", "\t"), ("a,b;c,d\n", ","), ("a;b;c,d\n", ";"), ("a|b\n", "|"), ("a\n", "\t")],
)
def test_read_layout__finds_the_separator(tmp_path: Path, text: str, separator: str) -> None:
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
def test_read_layout__a_row_with_numbers_is_no_header(
    tmp_path: Path, text: str, names: list[str]
) -> None:
    assert table(tmp_path / "a.tsv", text).names == names


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_read_layout__of_lines_ending_in_cr(tmp_path: Path, name: str) -> None:
    found = table(tmp_path / name, "doc,start\ra,7\rb,8\r")

    assert found.names == ["doc", "start"]
    assert [row.value["id"] for row in found.rows({"id": 0})] == ["a", "b"]


def test_find__is_by_name_or_by_number(tmp_path: Path) -> None:
    found = table(tmp_path / "a.tsv", "Doc\tStart\tx\tx\n")

    assert [found.find(column) for column in ("START", 3, 4, -1, "x", "y")] == [
        1,
        3,
        None,
        None,
        None,
        None,
    ]
    assert found.find("y", "start", "doc") == 1


def test_rows__give_lines_and_cells(tmp_path: Path) -> None:
    found = table(tmp_path / "a.tsv", '\ndoc\tstart\n\n"a"\t7\nb\n')

    blank, one, other = found.rows({"id": 0, "start": 1})

    assert (blank.place, dict(blank.value)) == ("a.tsv:3", {})
    assert (one.place, dict(one.value)) == ("a.tsv:4", {"id": '"a"', "start": "7"})
    assert one.value.get("words") is None
    assert (other.place, other.value["id"]) == ("a.tsv:5", "b")
    assert "start" in other.value
    with pytest.raises(RecordError, match="expected at least 2 columns, got 1"):
        other.value.get("start")


def test_rows__with_a_separator_too_many_have_only_their_first_value(tmp_path: Path) -> None:
    found = table(tmp_path / "a.tsv", "doc\twords\tlabel\na\tred\tsore\tSign\nb\tred\tSign\t\n")

    moved, other = found.rows({"id": 0, "words": 1, "label": 2})

    assert moved.value["id"] == "a"
    for role in ("words", "label"):
        with pytest.raises(RecordError, match="expected at most 3 columns, got 4"):
            moved.value[role]
    assert (other.value["words"], other.value["label"]) == ("red", "Sign")


def test_rows__of_csv_are_quoted(tmp_path: Path) -> None:
    found = table(tmp_path / "a.csv", '"doc","text"\r\na,"Red, ""sore""\nskin"\r\nb,"open\r\n')

    one, other = found.rows({"id": 0, "text": 1})

    assert (one.place, one.value["text"]) == ("a.csv:2", 'Red, "sore"\nskin')
    assert other.place == "a.csv:4"
    with pytest.raises(RecordError, match="each quote closed"):
        other.value["text"]


def test_rows__of_csv_need_a_header(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"a\.csv:1: expected a header"):
        list(table(tmp_path / "a.csv", "a,1\n").rows({"id": 0}))
