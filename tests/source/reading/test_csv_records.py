"""Tables of separated values: layouts, cuts, and damage limited to one record."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.errors import SourceError
from mslm_data.source.formats.notes import Notes
from mslm_data.source.reading import csv_records

NOTES = Notes(category_column="", error_column="")
HEADER = b"ROW_ID,SUBJECT_ID,CHARTDATE,TEXT\n"
TEXT = st.text(st.sampled_from('ab",\n\\é;[* \t'), max_size=30)
TABLE = st.lists(st.tuples(TEXT.filter(bool), TEXT), min_size=1, max_size=8)


def read(
    path: Path, source: Notes = NOTES, *, target_bytes: int = 1 << 30
) -> list[Document | SetAside]:
    return [
        r
        for part in source.cut(Part(str(path)), target_bytes=target_bytes)
        for r in source.read(part)
    ]  # type: ignore[misc]


def written(folder: Path, *records: bytes) -> Path:
    path = folder / "notes.csv"
    path.write_bytes(HEADER + b"".join(records))
    return path


def record(number: int, text: str) -> bytes:
    return f'{number},{number + 100},2101-01-01,"{text}"\n'.encode()


@given(
    TABLE,
    st.permutations(["ROW_ID", "SUBJECT_ID", "TEXT", "OTHER"]),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC]),
    st.sampled_from(["\n", "\r\n"]),
)
@example([("\r\n", "")], ["TEXT", "ROW_ID", "OTHER", "SUBJECT_ID"], csv.QUOTE_ALL, "\r\n")
def test_read__agrees_with_csv_for_any_cut(
    table: Sequence[tuple[str, str]], order: Sequence[str], quoting: int, end: str
) -> None:
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, order, quoting=quoting, lineterminator=end)  # type: ignore[arg-type]
    writer.writeheader()
    for i, (text, other) in enumerate(table):
        writer.writerow({"ROW_ID": i, "SUBJECT_ID": 50 + i // 2, "TEXT": text, "OTHER": other})

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "notes.csv"
        path.write_text(stream.getvalue(), encoding="utf-8", newline="")
        for target_bytes in (1, 50, 1000):
            got = [
                (r.id, r.text)
                for r in read(path, target_bytes=target_bytes)
                if isinstance(r, Document)
            ]

            assert got == [(str(i), text) for i, (text, _) in enumerate(table)]


@given(st.data(), st.integers(1, 5))
def test_read__gives_equal_records_of_damaged_files_for_any_cut(
    data: st.DataObject, target: int
) -> None:
    table = b"".join(record(i, f'line one, two\nsome ""more"" of it {i}\n') for i in range(5))
    where = data.draw(st.integers(0, len(table) - 1))
    harm = data.draw(st.sampled_from([b'"', b"\n", b",", b"\r\n", b'"\n', b"\xff", b""]))
    with tempfile.TemporaryDirectory() as folder:
        path = written(
            Path(folder), table[:where], harm, table[where + data.draw(st.integers(0, 1)) :]
        )

        in_one = read(path)
        assert read(path, target_bytes=target * 30) == in_one
        assert (
            len({r.id for r in in_one if isinstance(r, Document)} & {"0", "1", "2", "3", "4"}) >= 3
        )


@pytest.mark.parametrize(
    "broken",
    [
        '2,102,2101-01-01,"a stray " quote, and\nmore lines\nof text"\n',
        '2,102,2101-01-01,"a stray ", quote\nmore, lines\nof text"\n',
        '2,102,2101-01-01,"never closed\nmore lines\n',
        '2,102,2101-01-01,never, opened\nmore, lines, and, 4\nof text"\n',
        "2,102\n",
        '2,102,2101-01-01,"closed" \n',
    ],
)
@pytest.mark.parametrize("at", [0, 1, 3])
def test_damaged_record__loses_no_other_record(tmp_path: Path, broken: str, at: int) -> None:
    whole = [record(i, 'one,\n""two""\n') for i in (11, 12, 13)]
    path = written(tmp_path, *whole[:at], broken.encode(), *whole[at:])

    records = read(path)

    assert [r.id for r in records if isinstance(r, Document)] == ["11", "12", "13"]
    (aside,) = [r for r in records if isinstance(r, SetAside)]
    assert aside.place == f"notes.csv:{2 + 3 * at}"
    assert aside.reason.text == (
        "expected a record with as many columns as the header and each quote closed, got another"
    )
    assert read(path, target_bytes=1) == records


@pytest.mark.parametrize("keys", [{"id": "ID", "patient": "P"}, {}])
@pytest.mark.parametrize("wrong", ['"a",extra', '"a \\"b\\" c"', '"a'])
@pytest.mark.parametrize("target_bytes", [1, 50, 10**9])
def test_damaged_records__in_a_row_are_as_many(
    tmp_path: Path, keys: dict[str, str], wrong: str, target_bytes: int
) -> None:
    rows = [f'{number},7,,"fine"' for number in range(3)]
    rows += [f"{number},7,,{wrong}" for number in range(3, 10)]
    rows += [f'{number},7,,"fine\nagain"' for number in range(10, 12)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["ID,P,X,TEXT", *rows]) + "\n")

    with path.open("rb") as file:
        columns = {**keys, "text": "TEXT"}
        table = csv_records.open_table(file, "t.csv", columns, keys=keys, separator=",")
        found = [
            one
            for part in csv_records.cut(Part(str(path)), table, target_bytes=target_bytes)
            for one in table.records(file, part)
        ]

    assert [one.line for one in found] == [*range(2, 13), 14]
    assert [one.match is None for one in found] == [3 <= n < 10 for n in range(12)]


def test_read__reads_a_record_longer_than_a_chunk(tmp_path: Path) -> None:
    long = 'word ""x"",\n' * 300_000
    path = written(tmp_path, record(1, "a"), record(2, long), record(3, "b"))

    documents = [r for r in read(path) if isinstance(r, Document)]

    assert len(long) > 3 * csv_records.CHUNK
    assert [d.id for d in documents] == ["1", "2", "3"]
    assert documents[1].text == long.replace('""', '"')
    assert documents[2].place == "notes.csv:300004"


def test_read__ends_a_quote_that_is_never_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_records, "CHUNK", 64)
    monkeypatch.setattr(csv_records, "LONGEST", 256)
    path = written(tmp_path, record(1, "a"), record(2, "word\n" * 100), record(3, "b"))

    records = read(path)

    assert [r.id for r in records if isinstance(r, Document)] == ["1", "3"]
    assert len(records) == 3
    assert read(path, target_bytes=1) == records


def test_records__are_read_as_a_stream(tmp_path: Path) -> None:
    path = written(tmp_path, *(record(i, "x" * 1000) for i in range(5000)))
    with path.open("rb") as file:
        table = csv_records.open_table(
            file, path.name, {"id": "row_id"}, keys=("id",), separator=","
        )

    with path.open("rb") as file:
        next(table.records(file, Part(str(path))))
        assert file.tell() <= 2 * csv_records.CHUNK


def test_blank_lines__are_no_records(tmp_path: Path) -> None:
    path = written(tmp_path, b"\n", record(1, "a"), b"\r\n\n", record(2, "b"), b"\n\n")

    assert [r.id for r in read(path)] == ["1", "2"]
    assert [r.id for r in read(path, target_bytes=1)] == ["1", "2"]


def test_null__is_an_empty_field_without_quotes(tmp_path: Path) -> None:
    path = tmp_path / "notes.csv"
    path.write_bytes(b'A,B,C\r\n"",,\r\n')
    with path.open("rb") as file:
        table = csv_records.open_table(
            file, path.name, {"a": "A", "b": "B", "c": "C"}, keys=(), separator=","
        )

    with path.open("rb") as file:
        (only,) = table.records(file, Part(str(path)))

    assert [table.value(only.match, role) for role in "abc"] == ["", None, None]


def test_open_table__names_missing_columns_without_quoting_the_header(tmp_path: Path) -> None:
    path = tmp_path / "notes.csv"
    path.write_text("1,5,Zorbic\n2,6,Quillon\n")

    with pytest.raises(SourceError) as error:
        read(path)

    assert str(error.value) == (
        "notes.csv:1: expected a header with the columns ROW_ID, SUBJECT_ID, TEXT, found none or several of ROW_ID, "
        "SUBJECT_ID, TEXT; name the columns with [source] text_column and the like, '' for none"
    )


def test_open_table__rejects_a_duplicate_column(tmp_path: Path) -> None:
    path = tmp_path / "notes.csv"
    path.write_text("ROW_ID,SUBJECT_ID,TEXT,text\n")

    with pytest.raises(SourceError, match="found none or several of TEXT"):
        read(path)


def test_separator__may_be_another(tmp_path: Path) -> None:
    path = tmp_path / "notes.csv"
    path.write_text("ROW_ID|SUBJECT_ID|TEXT\n1|2|a, b\n")

    (document,) = read(path, Notes(category_column="", error_column="", separator="|"))

    assert isinstance(document, Document)
    assert document.text == "a, b"
