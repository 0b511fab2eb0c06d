from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mslm_data.data.document import Document, NotChosen, Part, SetAside, Span
from mslm_data.errors import SourceError
from mslm_data.source import SOURCES, Sample
from mslm_data.source.formats.hub import Hub
from mslm_data.source.formats.row_sources import JsonLines
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


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (
            {"text": "gout", "entities": [[0, 4, "X"]]},
            {"text": "gout", "entities": [[0, 4, 3]]},
        ),
        (
            {"tokens": ["gout"], "ner_tags": ["I-X"]},
            {"tokens": ["gout"], "ner_tags": [1]},
        ),
    ],
)
def test_read__names_the_row_with_integers_without_names(
    tmp_path: Path, good: object, bad: object
) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(f"{json.dumps(good)}\n{json.dumps(bad)}\n")

    with pytest.raises(SourceError, match=r"^own\.jsonl:2: expected names in column "):
        read(path)


@pytest.mark.parametrize("indent", [None, 2])
def test_read__takes_an_array_for_its_elements(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "own.json"
    rows = [{"text": "A."}, {"text": "A."}, {"words": "A."}, {"text": "B."}]
    path.write_text("\n " + json.dumps(rows, indent=indent), encoding="utf-8")

    found = read(path)

    lines = [2, 2, 2, 2] if indent is None else [3, 6, 9, 12]
    places = [document.place for document in found]
    assert places == [f"own.json:{line}" for line in lines]
    assert [document.id for document in found] == ["own:0", "own:1", "own:2", "own:3"]
    assert [type(document) for document in found] == [Document, Document, SetAside, Document]


def test_read__refuses_a_damaged_array(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    path.write_text('[{"text": "Gout"}, {"te', encoding="utf-8")

    with pytest.raises(
        SourceError,
        match=r"own\.json:1: expected one JSON array or object, got 'Input data was truncated'",
    ):
        read(path)


def test_read__reads_json_with_one_object_per_line(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    path.write_text('{"text": "A."}\n{"text": "B."}\n', encoding="utf-8")

    assert [document.id for document in read(path)] == ["own:0", "own:1"]


@pytest.mark.parametrize("name", ["own.jsonl", "own.json"])
def test_read__knows_files_whose_mentions_begin_with_i(tmp_path: Path, name: str) -> None:
    rows = [{"tokens": ["A", "b"], "tags": ["I-X", tag]} for tag in ("O", "B-X", "I-Y")]
    path = tmp_path / name
    lines = "\n".join(map(json.dumps, rows))
    path.write_text(lines if name.endswith("l") else json.dumps(rows))

    found = [document for document in read(path) if isinstance(document, Document)]

    assert [len(document.spans) for document in found] == [1, 2, 2]
    assert [document.adjusted for document in found] == [{}, {}, {}]


@pytest.mark.parametrize("name", ["train.parquet", "train.arrow"])
def test_find__names_the_source_of_binary_tables(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"PAR1")

    said = f"; of the files there, source 'hub' reads .{name.partition('.')[2]}"
    for given in (tmp_path / name, tmp_path):
        with pytest.raises(SourceError, match=r"expected .*\.jsonl.*; check") as caught:
            JsonLines().find([given])

        assert said in str(caught.value)


def test_read__reads_a_file_of_one_object(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    path.write_text(json.dumps({"id": "a", "text": "A."}, indent=2), encoding="utf-8")

    assert [(one.id, one.place) for one in read(path)] == [("a", "own.json:1")]


def test_read__rejected_rows_are_no_documents(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text('{"text": "A.", "spans": [[0, 1, "X"]], "answer": "reject"}\n')

    (found,) = JsonLines().read(Part(str(path)))

    assert found == NotChosen("rejected by the annotator")


def test_read__refuses_mentions_in_an_unknown_form(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text('{"text": "A.", "marks": [[0, 1, "X"]]}\n')

    with pytest.raises(SourceError, match=r"own\.jsonl:1: .* got column 'marks', which looks like"):
        read(path)


@pytest.mark.parametrize(
    ("value", "source"),
    [({"projects": [{"documents": []}]}, "medcattrainer"), ({"documents": [{"id": "1"}]}, "bioc")],
)
def test_read__names_the_source_of_a_file_of_many_documents(
    tmp_path: Path, value: object, source: str
) -> None:
    path = tmp_path / "own.json"
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")

    with pytest.raises(SourceError, match=rf"own\.json:1: .*; source '{source}' reads such files"):
        read(path)


@pytest.mark.parametrize(
    ("name", "content", "ids"),
    [
        ("a.json", '{"id": "a",\n "text": "Gout."}\n', ["a"]),
        ("a.json", '{\n"id": "a", "text": "Gout."}', ["a"]),
        ("a.json", '{"id": "a", "text": "Gout."}\n{"id": "b", "text": "Rash."}\n', ["a", "b"]),
        ("a.json", '{"id": "a", "text": "Gout."}', ["a"]),
        ("a.json", '{"id": "a", \n{"id": "b", "text": "Rash."}\n', ["a:0", "b"]),
        ("a.jsonl", '{"id": "a",\n{"id": "b", "text": "Rash."}\n', ["a:0", "b"]),
    ],
)
def test_read__tells_lines_from_one_object(
    name: str, content: str, ids: list[str], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)

    assert [record.id for record in JsonLines().read(Part(str(tmp_path / name)))] == ids


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


def test_sniff__finds_the_text_with_the_words_of_mentions() -> None:
    row = {
        "source_text": "Ola saw Oslo again.",
        "target_text": "[NAME] saw [CITY] again.",
        "privacy_mask": [{"value": "Oslo", "start": 8, "end": 12, "label": "CITY"}],
    }
    head = json.dumps([row, row]).encode()

    guess = JsonLines().sniff(Sample(Path("a.json"), head))

    assert guess.options == {"text_column": "source_text", "mentions_column": "privacy_mask"}


@pytest.mark.parametrize(("num_absent", "is_read"), [(0, True), (1, True), (3, False)])
def test_sniff__finds_mentions_without_offsets_of_which_few_are_absent(
    num_absent: int, is_read: bool
) -> None:
    words = [*(f"w{number}" for number in range(10)), *(num_absent * ["gone"])]
    mentions = [{"entity": word, "types": ["D"]} for word in words]
    head = json.dumps([{"text": " ".join(words[:10]), "entities": mentions}]).encode()

    assert bool(JsonLines().sniff(Sample(Path("a.json"), head)).why) is is_read


def test_sniff__says_how_an_array_of_texts_is_read() -> None:
    guess = JsonLines().sniff(Sample(Path("a.json"), b'[{"text": "Ola saw Oslo."}]'))

    assert "--source jsonl and annotate.use" in guess.problem


def test_sniff__names_the_options_of_unknown_keys() -> None:
    row = {"text": "Ola saw Oslo.", "spans": [{"from": 0, "to": 3, "kind": "P"}]}

    guess = JsonLines().sniff(Sample(Path("a.jsonl"), "\n".join([json.dumps(row)] * 3).encode()))

    assert (
        "the keys from, to, kind; name the keys of a mention with source.start_key" in guess.problem
    )


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
        {"version": "1", "labels": ["D"], "data": [ROW, ROW]},
        {"classes": ["D"], "annotations": [["Had gout.", {"entities": [[4, 8, "D"]]}], None]},
        {"nlu": {"examples": [ROW, ROW], "tables": []}},
        {"a": ROW, "b": ROW},
        {
            "source": "Gout and rash",
            "examples": [{"content": ROW["text"], "ents": ROW["entities"]}],
        },
    ],
)
def test_read__finds_rows_within_an_object(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "own.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    guess = JsonLines().sniff(Sample(path, path.read_bytes()))

    found = [*JsonLines(**guess.options).read(Part(str(path)))]

    assert guess.why
    assert all(isinstance(one, Document) and one.spans == (Span(4, 8, "D"),) for one in found)


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


@pytest.mark.parametrize("column", ["entities", "my_entities"])
def test_sniff__finds_mentions_without_offsets(column: str) -> None:
    row = {"text": "Had gout and rash.", column: {"D": ["gout", "rash"]}}
    guess = JsonLines().sniff(Sample(Path("a.jsonl"), json.dumps(row).encode()))

    assert guess.options == {"text_column": "text", "mentions_column": column}


LINES = [
    {"originalText": "Had gout.", "entities": [{"label_type": "D", "start_pos": 4, "end_pos": 8}]},
    {"originalText": "治疗痛风。", "entities": [{"label_type": "D", "start_pos": 2, "end_pos": 4}]},
]
PAIR = ["Had gout.", {"entities": [[4, 8, "D"]]}]


def texts(inputs: list[Path], source: JsonLines | None = None) -> list[tuple[str, list[str]]]:
    """Return the texts and the words of mentions."""
    source = source or JsonLines()
    return [
        (document.text, [document.text[span.start : span.end] for span in document.spans])
        for path in source.find(inputs)["train"]
        for document in source.read(Part(str(path)))
        if isinstance(document, Document)
    ]


@pytest.mark.parametrize("is_array", [True, False])
def test_find__knows_rows_by_content(tmp_path: Path, is_array: bool) -> None:
    path = tmp_path / "own.txt"
    lines = "\n".join(map(json.dumps, LINES))
    path.write_text(json.dumps(LINES) if is_array else lines, "utf-8-sig")
    (tmp_path / "LICENSE").write_text("[Do what you want.]\n", "utf-8")
    guess = JsonLines().sniff(Sample(path, path.read_bytes()))

    assert guess.options == {"text_column": "originalText", "mentions_column": "entities"}
    expected = [("Had gout.", ["gout"]), ("治疗痛风。", ["痛风"])]
    assert texts([tmp_path], JsonLines(**guess.options)) == expected
    assert texts([path], JsonLines(**guess.options)) == expected


def test_sniff__asks_about_rows_told_by_content() -> None:
    row = b'{"title": "A b", "body": "C d", "entities": [{"name": "D", "from": 0, "end": 1}]}'

    assert not JsonLines().sniff(Sample(Path("own.txt"), row)).problem
    row = row.replace(b"from", b"first_offset")
    assert "source.text_column" in JsonLines().sniff(Sample(Path("own.txt"), row)).problem


@pytest.mark.parametrize(
    "head", [b'{"cells": [{"source": "x"}]}', b"[Verse 1]\nA.", b"1\tA\tO\n", b'{"a": 1}', b"{{x}}"]
)
def test_sniff__leaves_other_files_to_others(head: bytes) -> None:
    guess = JsonLines().sniff(Sample(Path("a.ipynb"), head))

    assert not guess.why
    assert not guess.problem


@pytest.mark.parametrize(
    ("value", "number"), [(PAIR, 1), ([PAIR, PAIR], 2), ([PAIR], 1)], ids=["pair", "two", "one"]
)
@pytest.mark.parametrize("indent", [None, 1])
def test_read__takes_a_pair_for_one_row(
    tmp_path: Path, value: object, number: int, indent: int | None
) -> None:
    path = tmp_path / "own.json"
    path.write_text(json.dumps(value, indent=indent), "utf-8")

    assert texts([path]) == number * [("Had gout.", ["gout"])]
    assert JsonLines().sniff(Sample(path, path.read_bytes())).why


def test_sniff__knows_texts_in_segments_by_their_labels() -> None:
    bare = {"data": [{"text": "Nothing."}]}
    row = {"data": [{"text": "Had "}, {"text": "gout", "entity": "D"}]}

    assert JsonLines().sniff(Sample(Path("a.jsonl"), json.dumps(bare).encode())).why == ""
    both = f"{json.dumps(bare)}\n{json.dumps(row)}".encode()
    assert JsonLines().sniff(Sample(Path("a.jsonl"), both)).why


@pytest.mark.parametrize(
    "row",
    [
        {"text": "Had gout.", "words": {"first": "Had", "last": "gout"}},
        {"question": "Had he gout?", "answers": {"text": ["gout"], "answer_start": [7]}},
        {"snippet": {"content": "Had gout."}, "url": "http://a.b"},
    ],
)
def test_sniff__takes_other_texts_for_no_mentions(row: Any) -> None:
    assert not JsonLines().sniff(Sample(Path("a.jsonl"), json.dumps(row).encode() * 3)).why


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
