"""One corpus in the format of each annotation tool. All mentions must be read from each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.source import SOURCES, Sample
from tests.source.formats.test_offsets import articles


class Annotated(NamedTuple):
    """A document; mentions are start, end, label and concept."""

    id: str
    text: str
    mentions: list[tuple[int, int, str, str]]


@pytest.fixture(scope="module")
def corpus(real: Path) -> list[Annotated]:
    (path,) = (real / "pubtator/bc5cdr").glob("*[dD]evelop*")
    return [
        Annotated(
            one.pmid, f"{one.title}\n{one.abstract}", [(*m[:2], *m[3:]) for m in one.mentions]
        )
        for one in articles(path)
    ]


def read(name: str, path: Path, **options: Any) -> list[Document | SetAside | NotChosen]:
    source = SOURCES.make(name, options)
    return [
        record
        for part in source.cut(Part(str(path)), target_bytes=100_000)
        for record in source.read(part)
    ]


def mentions(records: list[Document | SetAside | NotChosen]) -> dict[str, list[tuple[Any, ...]]]:
    """Return id -> mentions with their words, after checking that none are left out."""
    found = {}
    for record in records:
        assert isinstance(record, Document), record
        assert not record.unplaced
        found[record.id] = sorted(
            (span.start, span.end, record.text[span.start : span.end], span.label)
            for span in record.spans
        )
    return found


def objects(one: Annotated) -> list[dict[str, Any]]:
    return [{"start": a, "end": b, "label": label} for a, b, label, _ in one.mentions]


def prodigy(one: Annotated) -> dict[str, Any]:
    tokens = [{"text": "a", "start": 0, "end": 1, "id": 0, "ws": True}]
    return {
        "id": one.id,
        "text": one.text,
        "tokens": tokens,
        "spans": objects(one),
        "answer": "accept",
    }


def doccano(one: Annotated) -> dict[str, Any]:
    labels = [[a, b, label] for a, b, label, _ in one.mentions]
    return {"id": one.id, "text": one.text, "label": labels, "Comments": []}


def doccano_relations(one: Annotated) -> dict[str, Any]:
    entities = [
        {"id": i, "label": label, "start_offset": a, "end_offset": b}
        for i, (a, b, label, _) in enumerate(one.mentions)
    ]
    return {"id": one.id, "text": one.text, "entities": entities, "relations": [], "Comments": []}


def regions(one: Annotated) -> list[dict[str, Any]]:
    return [
        {"start": a, "end": b, "text": one.text[a:b], "labels": [label]}
        for a, b, label, _ in one.mentions
    ]


def label_studio(one: Annotated) -> dict[str, Any]:
    results = [
        {"from_name": "label", "to_name": "text", "type": "labels", "value": value}
        for value in regions(one)
    ]
    return {"id": int(one.id), "data": {"text": one.text}, "annotations": [{"result": results}]}


def label_studio_min(one: Annotated) -> dict[str, Any]:
    return {"id": int(one.id), "text": one.text, "label": regions(one), "annotation_id": 1}


def argilla(one: Annotated) -> dict[str, Any]:
    labels = [[label, a, b] for a, b, label, _ in one.mentions]
    return {
        "id": one.id,
        "text": one.text,
        "tokens": ["a"],
        "annotation": labels,
        "prediction": None,
    }


def argilla_nested(one: Annotated) -> dict[str, Any]:
    responses = {"q": [{"value": objects(one), "user_id": "u"}]}
    return {"id": one.id, "fields": {"text": one.text}, "suggestions": {}, "responses": responses}


def argilla_flat(one: Annotated) -> dict[str, Any]:
    return {
        "id": one.id,
        "text": one.text,
        "q.responses": [objects(one)],
        "q.responses.users": ["u"],
    }


def spacy_doc(one: Annotated) -> dict[str, Any]:
    return {"id": one.id, "text": one.text, "ents": objects(one), "tokens": [{"id": 0, "start": 0}]}


def lines(rows: list[Any]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def array(rows: list[Any]) -> str:
    return json.dumps(rows, indent=1)


@pytest.mark.parametrize(
    ("name", "form", "written"),
    [
        ("prodigy", prodigy, lines),
        ("label-studio", label_studio, array),
        ("label-studio", label_studio_min, array),
        ("doccano", doccano, lines),
        ("doccano", doccano_relations, lines),
        ("jsonl", prodigy, lines),
        ("jsonl", label_studio, lines),
        ("jsonl", label_studio_min, array),
        ("jsonl", doccano, lines),
        ("jsonl", doccano_relations, lines),
        ("jsonl", argilla, lines),
        ("jsonl", argilla_nested, array),
        ("jsonl", argilla_flat, lines),
        ("jsonl", spacy_doc, lines),
        ("hub", prodigy, lines),
        ("hub", argilla_flat, lines),
    ],
)
def test_read__each_form_has_the_mentions_of_the_same_corpus(
    name: str,
    form: Callable[[Annotated], Any],
    written: Callable[[list[Any]], str],
    corpus: list[Annotated],
    tmp_path: Path,
) -> None:
    path = tmp_path / ("train.json" if written is array else "train.jsonl")
    path.write_text(written(list(map(form, corpus))), encoding="utf-8")

    found = mentions(read(name, path))

    assert found == {
        one.id: sorted((a, b, one.text[a:b], label) for a, b, label, _ in one.mentions)
        for one in corpus
    }
    assert sum(map(len, found.values())) == 9591


@pytest.mark.parametrize("form", [prodigy, argilla_flat, spacy_doc, label_studio])
def test_hub__reads_the_same_rows_of_parquet(
    form: Callable[[Annotated], Any], corpus: list[Annotated], tmp_path: Path
) -> None:
    datasets = pytest.importorskip("datasets")
    path = tmp_path / "train.parquet"
    rows = [form(one) for one in corpus[:100] if one.mentions]
    datasets.Dataset.from_list(rows).to_parquet(str(path))

    found = mentions(read("hub", path))

    assert found == {
        one.id: sorted((a, b, one.text[a:b], label) for a, b, label, _ in one.mentions)
        for one in corpus[:100]
        if one.mentions
    }


def test_label_studio__offsets_of_javascript_are_found(
    corpus: list[Annotated], tmp_path: Path
) -> None:
    def moved(one: Annotated) -> Annotated:
        """Return the document after an emoji, with offsets in UTF-16 code units."""
        units = [(a + 3, b + 3, *more) for a, b, *more in one.mentions]
        return Annotated(one.id, f"\N{GRINNING FACE} {one.text}", units)  # type: ignore[arg-type]

    given = [moved(one) for one in corpus]
    tasks = [label_studio(one) for one in given]
    for task, one in zip(tasks, given, strict=True):
        data = one.text.encode("utf-16-le")
        for result in task["annotations"][0]["result"]:
            value = result["value"]
            value["text"] = data[2 * value["start"] : 2 * value["end"]].decode("utf-16-le")
    path = tmp_path / "train.json"
    path.write_text(array(tasks), encoding="utf-8")

    found = mentions(read("label-studio", path))

    assert found == {
        one.id: sorted((a + 2, b + 2, one.text[a:b], label) for a, b, label, _ in one.mentions)
        for one in corpus
    }


def test_jsonl__reads_spacy_output(corpus: list[Annotated], tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    rows, expected = [], {}
    for one in corpus[:60]:
        doc = nlp(one.text)
        spans = [doc.char_span(a, b, label=label) for a, b, label, _ in one.mentions]
        doc.set_ents(spacy.util.filter_spans([span for span in spans if span]))
        rows.append({"id": one.id, **doc.to_json()})
        expected[one.id] = sorted((e.start_char, e.end_char, e.text, e.label_) for e in doc.ents)
    path = tmp_path / "train.jsonl"
    path.write_text(lines(rows), encoding="utf-8")

    found = read("jsonl", path)

    assert mentions(found) == expected
    assert all(isinstance(one, Document) and one.sentences for one in found)
    assert sum(map(len, expected.values())) > 500


def test_jsonl__reads_training_data_of_gliner(corpus: list[Annotated], tmp_path: Path) -> None:
    rows, expected = [], {}
    for one in corpus:
        words = one.text.split()
        ends = {}
        position = 0
        for number, word in enumerate(words):
            start = one.text.index(word, position)
            position = start + len(word)
            ends[start, position] = number
        ner = [[ends[a, b], ends[a, b], label] for a, b, label, _ in one.mentions if (a, b) in ends]
        rows.append({"id": one.id, "tokenized_text": words, "ner": ner})
        expected[one.id] = sorted((words[first], label) for first, _, label in ner)
    path = tmp_path / "train.jsonl"
    path.write_text(lines(rows), encoding="utf-8")

    found = mentions(read("jsonl", path))

    assert {id_: sorted(m[2:] for m in of) for id_, of in found.items()} == expected
    assert sum(map(len, expected.values())) > 3000


def test_medcattrainer__reads_training_data_of_medcat(
    corpus: list[Annotated], tmp_path: Path
) -> None:
    pytest.importorskip("datasets")
    theirs = pytest.importorskip("medcat.utils.ner.transformers_ner")
    flags: list[dict[str, bool]] = [
        {"correct": True},
        {"correct": False, "alternative": True},
        {"correct": False, "manually_created": True},
        {"correct": False},
        {"correct": True, "deleted": True},
        {"correct": True, "irrelevant": True},
        {"correct": True, "killed": True},
        {},
    ]
    number = 0
    documents = []
    for one in corpus:
        annotations = []
        for a, b, _, concept in one.mentions:
            annotations.append(
                {"start": a, "end": b, "cui": concept, "value": one.text[a:b], **flags[number % 8]}
            )
            number += 1
        documents.append(
            {"id": one.id, "name": one.id, "text": one.text, "annotations": annotations}
        )
    projects = [{"name": str(i), "id": i, "cuis": "", "documents": documents[i::2]} for i in (0, 1)]
    path = tmp_path / "train.json"
    path.write_text(json.dumps({"projects": projects}, indent=1), encoding="utf-8")

    found = read("medcattrainer", path, label="cui")

    maker = next(
        kind
        for kind in vars(theirs).values()
        if isinstance(kind, type)
        and hasattr(kind, "_generate_examples")
        and kind.__module__ == theirs.__name__
    )
    expected = {
        str(example["id"]): sorted(
            zip(example["ent_starts"], example["ent_ends"], example["ent_cuis"], strict=True)
        )
        for _, example in maker._generate_examples(None, [path])
    }
    assert {
        one.id: sorted((span.start, span.end, span.concept) for span in one.spans)
        for one in found
        if isinstance(one, Document)
    } == expected
    left_out = sum(sum(one.unplaced.values()) for one in found if isinstance(one, Document))
    assert left_out + sum(map(len, expected.values())) == number == 9591


@pytest.mark.parametrize(
    ("name", "form", "written"),
    [
        ("prodigy", prodigy, lines),
        ("label-studio", label_studio, array),
        ("label-studio", label_studio_min, array),
        ("doccano", doccano, lines),
        ("doccano", doccano_relations, lines),
        ("jsonl", argilla, lines),
        ("jsonl", argilla_nested, array),
        ("jsonl", argilla_flat, lines),
        ("jsonl", spacy_doc, lines),
    ],
)
def test_recognises__exactly_one_source(
    name: str, form: Callable[[Annotated], Any], written: Callable[[list[Any]], str]
) -> None:
    one = Annotated("1", "Gout hurts.", [(0, 4, "Disease", "")])
    row = form(one)
    if name == "prodigy":
        row |= {"_input_hash": 1, "_task_hash": 2}
    path = Path("train.json" if written is array else "train.jsonl")
    head = written([row] * 3).encode()

    said = {
        source: kind().sniff(Sample(path, head)).why
        for source in SOURCES.names()
        if path.name.endswith((kind := SOURCES.load(source)).suffixes)
    }

    assert [source for source, reason in said.items() if reason] == [name]
    assert "Gout" not in said[name]


@pytest.mark.parametrize("head", [b"", b"[", b"[1]", b"\xff", b'{"text": "a"}', b"[" * 100_000])
def test_recognises__nothing_in_other_files(head: bytes) -> None:
    for source in SOURCES.names():
        kind = SOURCES.load(source)
        if ".json" in kind.suffixes:
            assert kind().sniff(Sample(Path("train.json"), head)).why == ""
