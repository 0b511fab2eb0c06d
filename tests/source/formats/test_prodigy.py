from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.source import Sample
from mslm_data.source.formats.row_sources import JsonLines, Prodigy
from tests.source.formats.fixtures.prodigy import row, span

REJECTED = NotChosen("rejected by the annotator")
IGNORED = NotChosen("skipped by the annotator")
OTHER = NotChosen("another annotation of a document that is read")
NOT_THEIRS = NotChosen("of another annotator")


def read(path: Path, rows: list[Any], **options: Any) -> list[Any]:
    """Return the label of each document, and the reasons for other records."""
    path.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    source = Prodigy(**options)
    records: list[Document | SetAside | NotChosen] = [
        record
        for part in source.cut(Part(str(path)), target_bytes=1)
        for record in source.read(part)
    ]
    return [
        [one.label for one in record.spans] if isinstance(record, Document) else record
        for record in records
    ]


def answered(label: str, number: int, answer: str = "accept", session: str = "a") -> dict[str, Any]:
    spans = [span(0, 4, label)]
    names = {"_session_id": f"set-{session}", "_annotator_id": session}
    return row("Gout hurts.", number, spans=spans, answer=answer, **names)


def test_read__takes_accepted_rows_only(tmp_path: Path) -> None:
    rows = [answered("A", 1, "reject"), answered("B", 2, "ignore"), answered("C", 3)]
    bare = {"text": "Gout."}

    assert read(tmp_path / "x.jsonl", [*rows, bare]) == [REJECTED, IGNORED, ["C"], []]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [OTHER, REJECTED, ["C"], ["D"]]),
        ({"of_several": "first"}, [["A"], REJECTED, OTHER, ["D"]]),
        ({"of_several": "all"}, [["A"], REJECTED, ["C"], ["D"]]),
        ({"annotator": "a"}, [["A"], REJECTED, NOT_THEIRS, ["D"]]),
        ({"annotator": "set-b"}, [NOT_THEIRS, REJECTED, ["C"], NOT_THEIRS]),
        ({"annotator": "b", "of_several": "all"}, [NOT_THEIRS, REJECTED, ["C"], NOT_THEIRS]),
    ],
)
def test_read__chooses_among_answers_to_an_input(
    tmp_path: Path, options: dict[str, Any], expected: list[Any]
) -> None:
    rows = [
        answered("A", 1),
        answered("B", 1, "reject", "b"),
        answered("C", 1, session="b"),
        answered("D", 2),
    ]

    assert read(tmp_path / "x.jsonl", rows, **options) == expected


def test_read__knows_an_input_without_hash_by_its_text(tmp_path: Path) -> None:
    rows = [{"text": text, "_session_id": "a", "answer": "accept"} for text in ("A", "B", "A")]

    assert read(tmp_path / "x.jsonl", rows) == [OTHER, [], []]


def test_read__reads_rows_without_a_session_as_separate_documents(tmp_path: Path) -> None:
    rows = [{"text": "Denies pain.", "answer": "accept"}] * 2

    assert read(tmp_path / "x.jsonl", rows) == [[], []]
    assert read(tmp_path / "x.jsonl", rows, annotator="a") == [NOT_THEIRS] * 2


def test_recognises__hashes_beside_spans() -> None:
    path = Path("x.jsonl")
    line = json.dumps(answered("A", 1)).encode()

    assert Prodigy().sniff(Sample(path, line)).why
    assert not Prodigy().sniff(Sample(path, b'{"text": "a", "spans": []}')).why
    assert not Prodigy().sniff(Sample(path, json.dumps({"text": line.decode()}).encode())).why


@pytest.mark.parametrize("kind", [{"_is_binary": True}, {"_view_id": "ner"}])
def test_read__unites_answers_about_single_mentions(tmp_path: Path, kind: dict[str, Any]) -> None:
    def row(start: int, end: int, answer: str = "accept", **more: Any) -> dict[str, Any]:
        spans = [{"start": start, "end": end, "label": "X"}]
        given = {"text": "Gout, rash, pain", "_input_hash": 1, "spans": spans, "answer": answer}
        return {**given, **kind, **more}

    rows = [row(0, 4), row(6, 10, "reject"), row(12, 16), row(12, 16)]
    other = {"text": "Rash", "_input_hash": 2, "spans": [], "answer": "accept"}
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, [*rows, other])))

    records = [*Prodigy().read(Part(str(tmp_path / "a.jsonl")))]

    documents = [record for record in records if isinstance(record, Document)]
    assert [len(document.spans) for document in documents] == [2, 0]
    assert {span.start for span in documents[0].spans} == {0, 12}
    assert sum(isinstance(record, NotChosen) for record in records) == 3


@pytest.mark.parametrize(
    ("options", "starts"),
    [
        ({"annotator": "db-alice"}, [[0]]),
        ({"of_several": "first"}, [[0]]),
        ({"of_several": "all"}, [[0], [14, 8]]),
    ],
)
def test_read__unites_answers_of_one_annotator_only(
    options: dict[str, Any], starts: list[list[int]], tmp_path: Path
) -> None:
    answers = [("db-alice", 0, 7), ("db-bob", 14, 18), ("db-bob", 8, 13)]
    rows = [
        {
            **{"text": "Aspirin helps gout.", "_input_hash": 1, "_view_id": "ner"},
            "spans": [{"start": start, "end": end, "label": "X"}],
            **{"answer": "accept", "_session_id": annotator},
        }
        for annotator, start, end in answers
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    prodigy = Prodigy(**options)

    parts = prodigy.cut(Part(str(path)), target_bytes=1)
    records = [record for part in parts for record in prodigy.read(part)]

    documents = [record for record in records if isinstance(record, Document)]
    assert [[span.start for span in document.spans] for document in documents] == starts
    assert len(records) == 3


def test_read__rows_of_other_tasks_have_no_mentions(tmp_path: Path) -> None:
    row = {"text": "Aspirin helps.", "_input_hash": 1, "label": "POS", "answer": "accept"}
    (tmp_path / "a.jsonl").write_text(json.dumps(row))

    (document,) = Prodigy().read(Part(str(tmp_path / "a.jsonl")))

    assert isinstance(document, Document)
    assert document.spans == ()


@pytest.mark.parametrize("source", [Prodigy, JsonLines])
def test_read__finds_out_that_ends_are_inclusive(source: type[Any], tmp_path: Path) -> None:
    rows = [
        {
            "text": "Aspirin helps gout.",
            "_input_hash": n,
            "spans": [{"start": 0, "end": 6, "label": "X"}],
        }
        for n in range(12)
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))

    documents = [*source().read(Part(str(tmp_path / "a.jsonl")))]

    assert {(span.start, span.end) for document in documents for span in document.spans} == {(0, 7)}
