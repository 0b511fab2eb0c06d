"""Tables NOTE and NOTE_NLP, with the modules csv and pyarrow as independent readers."""

from __future__ import annotations

import csv
import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.errors import SourceError
from mslm_data.source import SOURCES
from mslm_data.source.formats.omop import Omop
from mslm_data.source.recognise import recognise
from tests.source.formats import fixtures

NOTE = ("note_id", "person_id", "note_date", "note_class_concept_id", "note_text")
NOTE_NLP = ("note_nlp_id", "note_id", "offset", "lexical_variant", "note_nlp_concept_id")
TEXTS = ("No fever, or pain.\nPain again.", "Naïve \U0001f600 cells, with gout.", "Nothing.")


def write(path: Path, columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerows([columns, *rows])
    return path


def notes(folder: Path, name: str = "note.csv", *, people: int = 3) -> Path:
    rows = [
        (number, 100 + number % people, "2020-01-01", 0, TEXTS[number % len(TEXTS)])
        for number in range(30)
    ]
    return write(folder / name, NOTE, rows)


def mentions(folder: Path, name: str = "note_nlp.csv") -> Path:
    rows = [
        (10 * note + number, note, word.start(), word[0], word.start() % 7)
        for note in range(30)
        for number, word in enumerate(re.finditer("[A-Za-zï]{4,}", TEXTS[note % len(TEXTS)]))
    ]
    random.Random(0).shuffle(rows)
    return write(folder / name, NOTE_NLP, rows)


def as_parquet(path: Path) -> Path:
    options = pa.csv.ParseOptions(newlines_in_values=True)
    table = pa.csv.read_csv(path, parse_options=options)
    pq.write_table(table, path.with_suffix(".parquet"))
    path.unlink()
    return path.with_suffix(".parquet")


def read(source: Omop, path: Path, *, target_bytes: int = 10**9) -> list[Document | SetAside]:
    parts = source.cut(Part(str(path)), target_bytes=target_bytes)
    found = [record for part in parts for record in source.read(part)]
    return [record for record in found if isinstance(record, Document | SetAside)]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_read__agrees_with_other_readers(tmp_path: Path, form: str) -> None:
    note = notes(tmp_path)
    table = mentions(tmp_path)
    with note.open(newline="", encoding="utf-8") as file:
        texts = {row["note_id"]: row["note_text"] for row in csv.DictReader(file)}
    with table.open(newline="", encoding="utf-8") as file:
        rows = [*csv.DictReader(file)]
    if form == "parquet":
        note, table = as_parquet(note), as_parquet(table)
        assert pq.read_table(table).num_rows == len(rows)

    found = read(Omop(), note, target_bytes=200)

    documents = {one.id: one for one in found if isinstance(one, Document)}
    assert len(found) == len(documents)
    assert {doc_id: one.text for doc_id, one in documents.items()} == texts
    expected = sorted(
        (row["note_id"], int(row["offset"]), row["lexical_variant"], row["note_nlp_concept_id"])
        for row in rows
    )
    assert expected == sorted(
        (one.id, span.start, one.text[span.start : span.end], span.concept or "0")
        for one in documents.values()
        for span in one.spans
    )
    assert not any(one.unplaced or one.adjusted for one in documents.values())


@pytest.mark.parametrize("unit", ["utf-16", "bytes"])
def test_read__finds_the_unit_of_offsets(tmp_path: Path, unit: str) -> None:
    note = notes(tmp_path)
    encoding, width = ("utf-16-le", 2) if unit == "utf-16" else ("utf-8", 1)
    begin = TEXTS[1].index("gout")
    offset = len(TEXTS[1][:begin].encode(encoding)) // width
    write(tmp_path / "note_nlp.csv", NOTE_NLP, [(1, 1, offset, "gout", 7)])

    (found,) = [one for one in read(Omop(), note) if one.id == "1"]

    assert isinstance(found, Document)
    assert [(span.start, span.end) for span in found.spans] == [(begin, begin + 4)]
    assert not found.adjusted


def test_read__gives_each_lost_row_to_one_split(tmp_path: Path) -> None:
    note = notes(tmp_path)
    mentions(tmp_path)
    write(tmp_path / "note_nlp_2.csv", NOTE_NLP, [(1, 99, 0, "gout", 7), (2, 99, 5, "pain", 7)])
    source = Omop(shares={"train": 0.5, "test": 0.5})

    by_split = {
        split: read(source.for_split(split), note, target_bytes=200) for split in source.shares
    }

    lost = [(s, one) for s, found in by_split.items() for one in found if isinstance(one, SetAside)]
    assert [(s, one.id, one.mentions) for s, one in lost] == [("train", "99", 2)]
    num_spans = sum(
        len(one.spans) for found in by_split.values() for one in found if isinstance(one, Document)
    )
    assert num_spans == sum(1 for _ in (tmp_path / "note_nlp.csv").open()) - 1
    assert all(len(found) > 1 for found in by_split.values())


def test_find__takes_note_from_a_folder_of_tables(tmp_path: Path) -> None:
    note = notes(tmp_path, "NOTE.csv")
    table = mentions(tmp_path / "NOTE_NLP", "part-0.csv")
    other = write(tmp_path / "person.csv", ("person_id", "gender_concept_id"), [(1, 8507)])

    source = Omop()

    assert source.find([tmp_path]) == {"train": [note]}
    assert source.find([note, other]) == {"train": [note]}
    assert Omop(shares={"a": 0.5, "b": 0.5}).find([tmp_path]) == {"a": [note], "b": [note]}
    assert source.files(note) == [note, table]
    assert recognise([tmp_path]).what == "omop"


def test_find__refuses_tables_that_would_be_read_wrongly(tmp_path: Path) -> None:
    first = notes(tmp_path / "in", "note_a.csv")
    table = mentions(tmp_path / "in")
    elsewhere = mentions(tmp_path / "out")

    with pytest.raises(SourceError, match=r"out/note_nlp\.csv: expected NOTE_NLP at .*elsewhere"):
        Omop().find([first, elsewhere])
    with pytest.raises(SourceError, match=r"expected NOTE_NLP at .*none"):
        Omop(mentions="../none.csv").find([first])
    with pytest.raises(SourceError, match="expected a table NOTE with the column note_text"):
        Omop().find([table])
    assert Omop(mentions="../out/note_nlp.csv").find([first]) == {"train": [first]}

    notes(tmp_path / "in", "note_b.csv")
    with pytest.raises(SourceError, match=r"expected one table NOTE for .*, got two"):
        Omop().find([tmp_path / "in"])
    assert len(Omop(mentions="").find([tmp_path / "in"])["train"]) == 2


@pytest.mark.parametrize("option", ["mentions", "label_table"])
def test_options__are_relative_to_the_folder_of_note(option: str) -> None:
    with pytest.raises(ValueError, match="relative to the folder of NOTE"):
        Omop(**{option: "/tables/note_nlp.csv"})  # type: ignore[arg-type]


def test_read__sees_new_mentions_of_an_old_table(tmp_path: Path) -> None:
    fixture = fixtures.fixture("omop", tmp_path)
    source = SOURCES.make("omop", fixture.options)
    path = tmp_path / "test/note.csv"
    (before,) = source.read(Part(str(path)))

    write(tmp_path / "test/note_nlp.csv", NOTE_NLP, [(1, 7, 5, "sleep", 9)])
    (after,) = source.read(Part(str(path)))

    assert isinstance(before, Document)
    assert isinstance(after, Document)
    assert [span.start for span in before.spans] == [0]
    assert [span.start for span in after.spans] == [5]
