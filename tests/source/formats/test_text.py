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
from mslm_data.source import SOURCES
from mslm_data.source.formats import text as module
from mslm_data.source.formats.text import PlainText
from mslm_data.source.reading import csv_records
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


def test_source__has_no_mentions_on_purpose() -> None:
    assert PlainText.without_mentions
    assert not SOURCES.load("conll").without_mentions


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
