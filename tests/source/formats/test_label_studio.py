from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mslm_data.data.document import Document, NotChosen, Part, SetAside, Span
from mslm_data.errors import SourceError
from mslm_data.source import Sample
from mslm_data.source.formats.row_sources import JsonLines, LabelStudio
from tests.source.formats.fixtures.label_studio import region, task

OTHER = NotChosen("another annotation of a document that is read")


def read(path: Path, rows: Any, **options: Any) -> list[Document | SetAside | NotChosen]:
    path.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    source = LabelStudio(**options)
    return list(source.read(Part(str(path))))


def labels(records: list[Document | SetAside | NotChosen]) -> list[Any]:
    return [
        [one.label for one in record.spans] if isinstance(record, Document) else record
        for record in records
    ]


def least(label: str, number: int, annotator: Any, time: str) -> dict[str, Any]:
    """Return a row of JSON-MIN."""
    return {
        "id": number,
        "text": "Gout hurts.",
        "label": [region(0, 4, "Gout", label)],
        "annotator": annotator,
        "annotation_id": number * 10,
        "created_at": time,
        "lead_time": 1.0,
    }


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [["A"], OTHER, ["C"]]),
        ({"of_several": "first"}, [OTHER, ["B"], ["C"]]),
        ({"of_several": "all"}, [["A"], ["B"], ["C"]]),
        ({"annotator": "b@x"}, [NotChosen("of another annotator"), ["B"], ["C"]]),
    ],
)
def test_read__chooses_among_rows_of_a_task(
    tmp_path: Path, options: dict[str, Any], expected: list[Any]
) -> None:
    rows = [
        least("A", 1, 7, "2024-02"),
        least("B", 1, {"id": 8, "email": "b@x"}, "2024-01"),
        least("C", 2, {"id": 8, "email": "b@x"}, "2024-01"),
    ]

    assert labels(read(tmp_path / "x.json", rows, **options)) == expected


def test_read__counts_tasks_without_annotation(tmp_path: Path) -> None:
    bare = {**task(1, "Gout."), "annotations": []}
    cancelled = task(2, "Gout.", region(0, 4, "Gout", "A"), was_cancelled=True)
    empty = task(3, "Gout.")

    found = labels(read(tmp_path / "x.json", [bare, cancelled, empty]))

    assert found == [NotChosen("not annotated"), NotChosen("skipped by the annotator"), []]


def test_read__reads_a_file_of_one_task(tmp_path: Path) -> None:
    found = read(tmp_path / "x.json", task(1, "Gout.", region(0, 4, "Gout", "A")))

    assert labels(found) == [["A"]]


def test_recognises__tasks_and_rows() -> None:
    path = Path("x.json")
    given = task(1, "Gout.", region(0, 4, "Gout", "A"))

    assert "tasks" in LabelStudio().sniff(Sample(path, json.dumps([given]).encode())).why
    assert (
        "regions"
        in LabelStudio().sniff(Sample(path, json.dumps([least("A", 1, 1, "")]).encode())).why
    )
    assert not LabelStudio().sniff(Sample(path, b'[{"data": 1, "labels": []}]')).why


@pytest.mark.parametrize("words", [{}, {"text": "Warfarin"}])
def test_read__counts_utf_16_code_units(words: dict[str, str], tmp_path: Path) -> None:
    value = {"start": 3, "end": 11, "labels": ["Drug"], **words}
    text = "\U0001f642 Warfarin was stopped."
    task = {
        "data": {"text": text},
        "annotations": [{"result": [{"to_name": "text", "type": "labels", "value": value}]}],
    }
    row = {"id": 1, "annotation_id": 1, "lead_time": 1, "text": text, "label": [value]}

    for content in (task, row):
        (document,) = read(tmp_path / "a.json", [content])
        assert isinstance(document, Document)
        assert [(span.start, span.end) for span in document.spans] == [(2, 10)]


def test_sniff__recognises_a_long_first_task(tmp_path: Path) -> None:
    regions = [region(0, 4, "Gout", "A")] * 2000
    path = tmp_path / "train.json"
    path.write_text(json.dumps([task(1, "Gout.", *regions), task(2, "Gout.")], indent=1))
    head = path.read_bytes()[: 64 << 10]

    assert "tasks" in LabelStudio().sniff(Sample(path, head)).why


def _predicted(text: str, *predictions: tuple[str, str]) -> dict[str, Any]:
    value = {"start": 0, "end": 4, "text": text[:4]}
    return {
        "data": {"text": text},
        "predictions": [
            {
                "model_version": model,
                "result": [
                    {"type": "labels", "to_name": "text", "value": value | {"labels": [name]}}
                ],
            }
            for model, name in predictions
        ],
    }


def test_read__asks_whether_predictions_are_wanted(tmp_path: Path) -> None:
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps([_predicted("Gout.", ("a", "X"), ("b", "Y"))]), "utf-8")
    part = Part(str(path))

    assert LabelStudio().sniff(Sample(path, path.read_bytes())).why
    with pytest.raises(SourceError, match=r"tasks\.json:1: .* predictions = true"):
        [*LabelStudio().read(part)]
    with pytest.raises(SourceError, match="--source label-studio"):
        [*JsonLines().read(part)]

    for options, label in (({}, "Y"), ({"of_several": "first"}, "X"), ({"annotator": "a"}, "X")):
        [document] = LabelStudio(predictions=True, **options).read(part)
        assert isinstance(document, Document)
        assert document.spans == (Span(0, 4, label),)


def test_read__does_not_ask_if_other_tasks_are_annotated(tmp_path: Path) -> None:
    path = tmp_path / "tasks.json"
    task = _predicted("Gout.", ("a", "X"))
    annotated = {**task, "annotations": task["predictions"], "predictions": []}
    path.write_text(json.dumps([{**task, "annotations": []}, annotated]), "utf-8")

    found = [*LabelStudio().read(Part(str(path)))]

    assert isinstance(found[0], NotChosen)
    assert isinstance(found[1], Document)


@pytest.mark.parametrize("column", ["text", "data"])
def test_read__reads_rows_of_regions_without_an_annotation_id(tmp_path: Path, column: str) -> None:
    region = {"start": 0, "end": 4, "text": "Gout", "labels": ["Disease"]}
    path = tmp_path / "train.json"
    path.write_text(json.dumps([{column: "Gout hurts.", "annotations": [region]}] * 2))

    assert LabelStudio().sniff(Sample(path, path.read_bytes())).why
    documents = [*LabelStudio().read(Part(str(path)))]

    assert [[(span.start, span.end, span.label) for span in document.spans]
            for document in documents if isinstance(document, Document)] == [
        [(0, 4, "Disease")]] * 2  # fmt: skip
