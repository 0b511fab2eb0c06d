from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mslm_data.data.document import Document, Part, SetAside, Span
from mslm_data.errors import SourceError
from mslm_data.source import SOURCES, Sample
from mslm_data.source.formats.hub import Hub
from mslm_data.source.formats.row_sources import JsonLines, LabelStudio, Prodigy
from mslm_data.source.reading import json_rows


def read(path: Path, *, target_bytes: int = 1) -> list[Document | SetAside]:
    source = JsonLines()
    return [
        document
        for part in source.cut(Part(str(path)), target_bytes=target_bytes)
        for document in source.read(part)
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text": "Gout', "expected a JSON object, got 'Input data was truncated'"),
        (
            b'{"text": "Gout"} Gout',
            "expected a JSON object, got 'JSON is malformed: trailing characters (byte 18)'",
        ),
        (b'{"text": "Gou\xff"}', "expected UTF-8, or the encoding set with [source] encoding"),
        (b"[" * 100_000, "expected a JSON object, got too many levels"),
        (b'"Gout"', "expected an object with named columns, got another value"),
        (
            b'{"text": "A.", "label": "Gout"}',
            "expected a list of mentions in column 'label', got a text",
        ),
        (
            b'{"text": "A.", "entities": 3}',
            "expected a list of mentions in column 'entities', got a number",
        ),
        (
            b'{"text": "\\ud800 Gout"}',
            "expected a JSON object, got 'JSON is malformed: unexpected end of escaped",
        ),
    ],
)
def test_read__sets_a_wrong_line_aside(tmp_path: Path, line: bytes, reason: str) -> None:
    path = tmp_path / "own.jsonl"
    path.write_bytes(b'{"text": "A."}\n\n' + line + b'\n{"text": "B."}\n')

    first, broken, last = read(path)

    assert isinstance(broken, SetAside)
    assert (broken.id, broken.place) == ("own:1", "own.jsonl:3")
    assert broken.reason.text.startswith(reason)
    assert "Gou" not in broken.reason.text
    assert (first.id, last.id) == ("own:0", "own:2")


def test_read__refuses_a_damaged_array(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    path.write_text('[{"text": "Gout"}, {"te', encoding="utf-8")

    with pytest.raises(
        SourceError,
        match=r"own\.json:1: expected one JSON array or object, got 'Input data was truncated'",
    ):
        read(path)


@pytest.mark.parametrize("name", ["train.parquet", "train.arrow"])
def test_find__names_the_source_of_binary_tables(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"PAR1")

    said = f"; of the files there, source 'hub' reads .{name.partition('.')[2]}"
    for given in (tmp_path / name, tmp_path):
        with pytest.raises(SourceError, match=r"expected .*\.jsonl.*; check") as caught:
            JsonLines().find([given])

        assert said in str(caught.value)


def test_read__settles_a_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "Gout.", "entities": [[0, 4, "D"]]}\n' * 50)
    asked = []
    beginning = json_rows.beginning
    monkeypatch.setattr(json_rows, "beginning", lambda *args: asked.append(1) or beginning(*args))

    assert len(read(path)) == 50
    assert asked == [1]

    # A changed file is another file.
    path.write_text('{"tokens": ["Gout"], "tags": ["B-D"]}\n' * 2)
    assert [document.spans for document in read(path) if isinstance(document, Document)] == [
        (Span(0, 4, "D"),)
    ] * 2


@pytest.mark.parametrize(("options", "labels"), [({}, ["B"]), ({"annotator": "a"}, ["A"])])
@pytest.mark.parametrize("kind", ["prodigy", "label-studio"])
def test_read__chooses_among_annotations_of_any_tool(
    kind: str, options: dict[str, str], labels: list[str], tmp_path: Path
) -> None:
    rows = [
        {
            "prodigy": {
                "text": "Gout.",
                "_input_hash": 1,
                "_session_id": label.lower(),
                "spans": [{"start": 0, "end": 4, "label": label}],
                "answer": "accept",
            },
            "label-studio": {
                "id": 1,
                "text": "Gout.",
                "annotation_id": number,
                "annotator": label.lower(),
                "label": [{"start": 0, "end": 4, "text": "Gout", "labels": [label]}],
            },
        }[kind]
        for number, label in enumerate("AB")
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))

    for source in (JsonLines(**options), SOURCES.make(kind, options), Hub(**options)):
        parts = source.cut(Part(str(path)), target_bytes=1)
        records = [record for part in parts for record in source.read(part)]
        found = [one.label for record in records if isinstance(record, Document)
                 for one in record.spans]  # fmt: skip
        assert found == labels
        assert len(records) == 2


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
@pytest.mark.parametrize("number", [1, 3])
def test_sniff__never_shows_a_word_as_key(number: int, name: str, tmp_path: Path) -> None:
    rows = [{f"Smith{letter}": "NAME"} for letter in "abc"[:number]]
    path = tmp_path / name
    path.write_text("\n".join(map(json.dumps, rows)) if name == "a.jsonl" else json.dumps(rows))

    guess = JsonLines().sniff(Sample(path, path.read_bytes()))

    assert guess.problem
    assert "Smith" not in guess.problem
    assert JsonLines().list_columns(path) == []


ROW = {"text": "Had gout.", "entities": [{"start": 4, "end": 8, "label": "D"}]}


@pytest.mark.parametrize(
    "value",
    [
        {"text": "Had gout.", "entities": [{"text": "gout", "type": "D"}]},
        {
            "content": "Had gout.",
            "marks": [{"start": 4, "end": 8, "text": "gout here", "label": "D"}],
        },
        {"train": [ROW], "test": [ROW]},
    ],
)
def test_read__takes_an_object_for_a_row_else(tmp_path: Path, value: object) -> None:
    path = tmp_path / "own.json"
    path.write_text(json.dumps(value), encoding="utf-8")

    assert [*JsonLines().first_rows(path)] == [value]


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
def test_sniff__finds_columns_of_unusual_names(name: str, tmp_path: Path) -> None:
    row = {"Own": "Had gout.", "Found": [{"BeginOffset": "4", "EndOffset": "8", "Type": "D"}]}
    path = tmp_path / name
    path.write_text(json.dumps(row) + "\n")
    if name == "a.csv":
        path.write_text("own,found\nHad gout.,\"[(4, 8, 'D')]\"\n")
    source = Hub if name == "a.csv" else JsonLines
    guess = source().sniff(Sample(path, path.read_bytes()))

    (found,) = source(**guess.options).read(Part(str(path)))

    assert isinstance(found, Document)
    assert found.spans == (Span(4, 8, "D"),)


# Prodigy ------------------------------------------------------------------------------------------


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


# Label Studio -------------------------------------------------------------------------------------


def test_sniff__recognises_a_long_first_task(tmp_path: Path) -> None:
    value = {"start": 0, "end": 4, "text": "Gout", "labels": ["A"]}
    long = {"result": [{"value": value, "from_name": "label", "to_name": "text"}] * 2000}
    tasks = [{"id": n, "annotations": [long], "data": {"text": "Gout."}} for n in (1, 2)]
    path = tmp_path / "train.json"
    path.write_text(json.dumps(tasks, indent=1))
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
