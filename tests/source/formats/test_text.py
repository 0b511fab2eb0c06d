from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.source import SOURCES
from mslm_data.source.formats import text as module
from mslm_data.source.formats.text import PlainText
from mslm_data.source.reading import csv_records
from mslm_data.source.reading.records import NOT_UTF8
from tests.support.properties import with_fixtures

in_folder = with_fixtures()


def read(path: Path, *, target_bytes: int = 10**9, **options: Any) -> list[Document | SetAside]:
    source = PlainText(**options)
    return [
        record
        for part in source.cut(Part(str(path)), target_bytes=target_bytes)
        for record in source.read(part)
    ]


def pairs(records: list[Document | SetAside]) -> list[tuple[str, str]]:
    assert all(isinstance(record, Document) for record in records)
    return [(record.id, record.text) for record in records if isinstance(record, Document)]


def plain_reading(data: bytes, documents: str) -> list[str]:
    """Split by the documented rules, with Python's string methods."""
    lines = [line.removesuffix("\r") for line in data.decode().split("\n")]
    text = "\n".join(lines)
    if documents == "line":
        return [line for line in lines if line.strip(" \t\v\f\r")]
    blocks = re.split(r"\n(?:[ \t\v\f\r]*\n)+", text) if documents == "block" else [text]
    stripped = [re.sub(r"\A(?:[ \t\v\f\r]*\n)+|(?:\n[ \t\v\f\r]*)+\Z", "", one) for one in blocks]
    return [one for one in stripped if one.strip(" \t\v\f\r\n")]


PIECES = [
    "a",
    "naïve",
    "🧬 b",
    "\n",
    "\n",
    "\n\n",
    " ",
    "\t",
    "\f",
    "\r\n",
    "\u2028",
    "\u00a0",
    "\x1c",
    "# c",
]


@in_folder
@given(
    st.lists(st.sampled_from(PIECES), max_size=25).map("".join),
    st.sampled_from(["file", "line", "block"]),
    st.sampled_from([1, 10, 10**9]),
)
def test_read__agrees_with_plain_python(
    tmp_path: Path, data: str, documents: Any, target_bytes: int
) -> None:
    path = tmp_path / "f.txt"
    path.write_bytes((data + "\nend\n").encode())

    found = pairs(read(path, documents=documents, target_bytes=target_bytes))

    expected = plain_reading(path.read_bytes(), documents)
    assert [text for _, text in found] == expected
    if documents != "file":
        assert [doc_id for doc_id, _ in found] == [f"f:{number}" for number in range(len(expected))]


def test_read__a_file_is_a_document_by_default(tmp_path: Path) -> None:
    path = tmp_path / "note 7.txt"
    path.write_text("\n One.\n\nTwo.\n\n")

    (record,) = read(path)

    assert isinstance(record, Document)
    assert (record.id, record.text, record.place) == ("note 7", " One.\n\nTwo.", "note 7.txt:2")
    assert record.words is None
    assert record.sentences is None


def test_read__sets_damaged_lines_aside(tmp_path: Path) -> None:
    path = tmp_path / "f.txt"
    path.write_bytes("é one\ntwo\n\n\xff three\nfour \xff\n\nfive é\n".encode("latin-1"))
    data = path.read_bytes().replace(b"\xe9", "é".encode())
    path.write_bytes(data)

    blocks = read(path, documents="block")
    by_line = read(path, documents="line")

    assert blocks[0] == SetAside("f:1", "f.txt:4", NOT_UTF8)
    assert pairs(blocks[1:]) == [("f:0", "é one\ntwo"), ("f:2", "five é")]
    assert by_line[:2] == [
        SetAside("f:2", "f.txt:4", NOT_UTF8),
        SetAside("f:3", "f.txt:5", NOT_UTF8),
    ]
    assert pairs(by_line[2:]) == [("f:0", "é one"), ("f:1", "two"), ("f:4", "five é")]


def test_read__sets_files_without_text_and_long_ones_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty.txt").write_bytes(b" \n\n")
    (tmp_path / "long.txt").write_bytes(b"word " * 10)
    monkeypatch.setattr(module, "_LONGEST", 40)

    assert read(tmp_path / "empty.txt") == [
        SetAside("empty", "empty.txt:1", Reason("expected text, got an empty file"))
    ]
    (aside,) = read(tmp_path / "long.txt")
    assert isinstance(aside, SetAside)
    assert 'documents = "line"' in aside.reason.text


ROWS = [("x1", 'One, "two".\nThree'), ("x2", "naïve 🧬")]


def tables(folder: Path) -> list[Path]:
    """Write ROWS in each format with columns."""
    quoted = [[value.replace('"', '""') for value in row] for row in ROWS]
    (folder / "t.csv").write_text(
        "n,Text\n" + "".join(f'{a},"{b}"\n' for a, b in quoted), encoding="utf-8"
    )
    (folder / "t.tsv").write_text(
        "Text\tn\n" + "".join(f'"{b}"\t{a}\n' for a, b in quoted), encoding="utf-8"
    )
    (folder / "t.jsonl").write_text(
        "\n".join(json.dumps({"n": a, "Text": b, "z": [1]}) for a, b in ROWS)
    )
    (folder / "t.jsonl.gz").write_bytes(gzip.compress((folder / "t.jsonl").read_bytes()))
    table = pa.table({"n": [a for a, _ in ROWS], "Text": [b for _, b in ROWS]})
    pq.write_table(table, folder / "t.parquet")
    with (
        pa.OSFile(str(folder / "t.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema) as w,
    ):
        w.write_table(table)
    return sorted(folder.iterdir())


def test_read__gives_a_column_of_every_kind_of_table(tmp_path: Path) -> None:
    for path in tables(tmp_path):
        numbered = [(f"t:{number}", text) for number, (_, text) in enumerate(ROWS)]
        for target_bytes in (1, 10**9):
            options = {"text_column": "Text", "target_bytes": target_bytes}

            assert pairs(read(path, **options)) == numbered, path  # type: ignore[arg-type]
            assert pairs(read(path, id_column="n", **options)) == ROWS, path  # type: ignore[arg-type]


def test_read__converts_float_ids_of_pandas_to_integers(tmp_path: Path) -> None:
    table = pa.table({"id": [12.0, None, 13.5], "text": ["One", "two", "three"]})
    pq.write_table(table, tmp_path / "t.parquet")

    records = read(tmp_path / "t.parquet", id_column="id")

    assert pairs(records) == [("12", "One"), ("t:1", "two"), ("t:2", "three")]


def test_read__sets_rows_without_text_aside(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"text": ""}\n\n{"text": 7}\n{"body": "x"}\n[1]\nnone\n{"text": "good"}\n')

    *asides, good = read(path)

    assert pairs([good]) == [("t:5", "good")]
    assert [(aside.id, aside.place) for aside in asides if isinstance(aside, SetAside)] == [
        ("t:0", "t.jsonl:1"),
        ("t:1", "t.jsonl:3"),
        ("t:2", "t.jsonl:4"),
        ("t:3", "t.jsonl:5"),
        ("t:4", "t.jsonl:6"),
    ]


def test_read__refuses_a_table_without_the_column(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("body\nsecret\n")

    with pytest.raises(SourceError, match="text_column"):
        read(path)


def test_source__has_no_mentions_on_purpose() -> None:
    assert PlainText.without_mentions
    assert not SOURCES.load("conll").without_mentions


@pytest.mark.parametrize(
    ("rows", "options", "texts"),
    [
        # Only without quotes, every row has two columns.
        ('1\t"opened only\n2\tsecond\n', {}, ['"opened only', "second"]),
        ('1\t"Yes", he said\n2\tsecond', {}, ['"Yes", he said', "second"]),
        # Only with quotes, every row has two columns.
        ('1\t"two\nlines"\r\n\n2\tsecond\n', {}, ["two\nlines", "second"]),
        ('1\t"a\tTAB"\n', {}, ["a\tTAB"]),
        ('1\t5" long\n2\ta "b"\n', {}, ['5" long', 'a "b"']),
        # Both.
        ('1\t"opened\n2\tclosed"\n', {"quotes": False}, ['"opened', 'closed"']),
        ('1\t"opened\n2\tclosed"\n', {"quotes": True}, ["opened\n2\tclosed"]),
        ('1\t"a ""b"""\n', {"quotes": False}, ['"a ""b"""']),
        ('1\t"a ""b"""\n', {"quotes": True}, ['a "b"']),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_quotes_in_tsv__are_read_as_the_rows_show(
    tmp_path: Path, rows: str, options: dict[str, Any], texts: list[str], encoding: Any
) -> None:
    path = tmp_path / "t.tsv"
    path.write_bytes(("id\ttext\n" + rows).encode(encoding))

    for target_bytes in (1, 10**9):
        got = pairs(read(path, target_bytes=target_bytes, encoding=encoding, **options))
        assert [text for _, text in got] == texts


@pytest.mark.parametrize("rows", ['"id"\t"text"\n1\t"a"\n', 'id\ttext\n"1"\t"a"\n'])
def test_quotes_in_tsv__are_read_where_a_whole_row_has_them(tmp_path: Path, rows: str) -> None:
    path = tmp_path / "t.tsv"
    path.write_text(rows)

    assert pairs(read(path)) == [("t:0", "a")]


@pytest.mark.parametrize(
    "rows",
    [
        '1\t"opened only\n2\tsecond\n3\tthird"\n4\tfourth\n',  # both with and without quotes
        '1\t"a"\n',
        '1\t"opened only\n2\tsecond\tand more\n',  # neither
    ],
)
def test_quotes_in_tsv__are_asked_for_where_the_rows_do_not_show_them(
    tmp_path: Path, rows: str
) -> None:
    path = tmp_path / "t.tsv"
    path.write_text("id\ttext\n" + rows)

    with pytest.raises(SourceError) as error:
        read(path)

    assert str(error.value) == (
        "t.tsv: expected rows that show whether values may be in quotes, got rows that do not; "
        "set [source] quotes = true if values may be in quotes, as pandas writes them, or quotes "
        "= false if a quote is a character like any other"
    )


def test_quotes_in_tsv__after_the_first_rows_are_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_records, "CHUNK", 64)
    path = tmp_path / "t.tsv"
    path.write_text("id\ttext\n" + "1\tplain\n" * 20 + '2\t"a"\n3\tb\n')

    (*_, aside, last) = read(path)

    assert isinstance(aside, SetAside)
    assert aside.reason.text == (
        "expected no quote at the beginning of a value, as the first rows have none, got one"
    )
    assert "source.quotes=false" in aside.reason.advice["quotes"]
    assert last.id == "t:21"


def test_quotes_in_tsv__may_be_open_at_the_end_of_the_first_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_records, "CHUNK", 64)
    path = tmp_path / "t.tsv"
    long = "line\n" * 40
    path.write_text(f'id\ttext\n1\t"{long}"\n2\tb\n')

    assert pairs(read(path)) == [("t:0", long), ("t:1", "b")]


def test_quotes_in_csv__are_characters_if_set(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('id,text\n1,"opened\n2,closed"\n')

    assert pairs(read(path)) == [("t:0", "opened\n2,closed")]
    assert pairs(read(path, quotes=False)) == [("t:0", '"opened'), ("t:1", 'closed"')]


@pytest.mark.parametrize("mark", [",", ";", "|", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_separator_of_csv__is_that_of_the_header(tmp_path: Path, mark: str, encoding: str) -> None:
    path = tmp_path / "t.csv"
    rows = ["id{}Text", '1{}"one, two; three"', "2{}four"]
    path.write_bytes("\r\n".join(row.format(mark) for row in rows).encode(encoding))

    for target_bytes in (1, 10**9):
        got = pairs(read(path, target_bytes=target_bytes, id_column="id"))
        assert got == [("1", "one, two; three"), ("2", "four")]


def test_separator_of_csv__is_a_comma_if_there_is_one_column(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("text\na;b\n")

    assert pairs(read(path)) == [("t:0", "a;b")]


def test_separator_of_csv__gives_columns_of_these_names(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b;c;text;d,e\n1;2;three, four;5\n")

    assert pairs(read(path)) == [("t:0", "three, four")]
    with pytest.raises(SourceError, match="expected a header with the columns other"):
        read(path, text_column="other")
