from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.errors import SourceError
from mslm_data.source.form import Record
from mslm_data.source.formats.row_sources import RowSource
from mslm_data.source.reading.shapes import SHAPES
from mslm_data.source.reading.shapes.base import RowsFile


def read(
    row: object,
    *,
    first: Sequence[object] = (),
    names: Any = None,
    written: Collection[str] = (),
    **options: Any,
) -> Document | SetAside | NotChosen:
    """Read a row of a file with given first rows. By default the file has only this row."""
    rows = [one for one in first or [row] if isinstance(one, dict)]

    class Given(RowSource, frozen=True, kw_only=True):
        def records(self, part: Part) -> Iterator[Record | SetAside | NotChosen]:
            return iter([Record("rows:0", "rows.jsonl:1", row, Path(part.path))])

        def file(self, path: Path) -> RowsFile:
            return RowsFile(
                options=self, shapes=SHAPES, first=rows, names=names or {}, written=written
            )

    return next(Given(**options).read(Part("rows.jsonl")))


def document(row: object, **options: Any) -> Document:
    found = read(row, **options)
    assert isinstance(found, Document), found
    return found


TEXT = "Had gout in 1990."
REGION = {"start": 4, "end": 8, "text": "gout", "labels": ["Disease"]}
EXAMPLES: dict[str, list[Any]] = {
    "texts in segments": [
        {
            "id": 1,
            "title": "A",
            "segments": ["Had ", {"t": "gout", "label": "Disease"}, " in 1990."],
        },
        {"data": [{"text": "Had "}, {"text": "gout", "entity": "Disease"}, {"text": " in 1990."}]},
    ],
    "GLiNER": [
        {"tokenized_text": ["Had", "gout", "in", "1990."], "ner": [[1, 1, "Disease"]]},
    ],
    "LangExtract": [
        {
            "text": TEXT,
            "extractions": [
                {
                    "extraction_class": "Disease",
                    "extraction_text": "Gout",
                    "char_interval": {"start_pos": 4, "end_pos": 8},
                    "alignment_status": "match_exact",
                }
            ],
        },
    ],
    "GLiNER2's training data": [
        {"input": TEXT, "output": {"entities": {"Disease": ["gout"], "Drug": []}}},
        {"input": TEXT, "output": {"entities": {"Disease": "gout"}, "relations": []}},
    ],
    "chats about mentions": [
        {
            "messages": [
                {"role": "user", "content": TEXT},
                {"role": "assistant", "content": '{"Disease": ["gout"]}'},
            ]
        },
        {
            "conversations": [
                {"from": "human", "value": f"Text: {TEXT}"},
                {"from": "gpt", "value": "I've read this text."},
                {"from": "human", "value": "What describes Disease in the text?"},
                {"from": "gpt", "value": '["gout"]'},
            ]
        },
    ],
    "Label Studio": [
        {
            "id": 1,
            "data": {"article": TEXT},
            "annotations": [
                {
                    "result": [
                        {"from_name": "label", "to_name": "text", "type": "labels", "value": REGION}
                    ]
                }
            ],
            "predictions": [{"result": [{"value": {**REGION, "start": 0}}]}],
        },
        {"data": {"text": TEXT, "title": "A"}, "completions": [{"result": [{"value": REGION}]}]},
    ],
    "Label Studio, JSON-MIN": [
        {"id": 1, "text": TEXT, "label": [REGION], "annotator": 1, "annotation_id": 7},
        {"text": TEXT, "project_label": [REGION], "sentiment": {"choices": ["a", "b"]}},
        {
            "text": TEXT,
            "ner": [
                {
                    "start": "/p[1]",
                    "end": "/p[1]",
                    "globalOffsets": {"start": 4, "end": 8},
                    "hypertextlabels": ["Disease"],
                }
            ],
        },
    ],
    "Prodigy": [
        {
            "text": TEXT,
            "_input_hash": 1,
            "_task_hash": 2,
            "tokens": [{"text": "Had", "start": 0, "end": 3, "id": 0, "ws": True}],
            "spans": [{"start": 4, "end": 8, "label": "Disease", "token_start": 1, "token_end": 1}],
            "relations": [
                {"head_span": {"start": 0, "end": 3}, "child_span": {"start": 4, "end": 8}}
            ],
            "answer": "accept",
        },
    ],
    "Argilla 1": [
        {
            "text": TEXT,
            "tokens": ["Had", "gout", "in", "1990", "."],
            "annotation": [["Disease", 4, 8]],
            "prediction": [["Drug", 0, 3, 0.9]],
            "status": "Validated",
        },
        {
            "text": TEXT,
            "annotation": {"label": ["Disease"], "start": [4], "end": [8]},
            "prediction": None,
        },
    ],
    "Argilla 2": [
        {
            "fields": {"text": TEXT},
            "suggestions": {"spans": {"value": [{"start": 0, "end": 3, "label": "Drug"}]}},
            "responses": {
                "spans": [{"value": [{"start": 4, "end": 8, "label": "Disease"}], "user_id": "u"}],
                "topic": [{"value": "arthritis", "user_id": "u"}],
            },
        },
        {
            "text": TEXT,
            "spans.responses": [[{"start": 4, "end": 8, "label": "Disease"}]],
            "spans.responses.users": ["u"],
            "spans.responses.status": ["submitted"],
            "spans.suggestion": [{"start": 0, "end": 3, "label": "Drug"}],
        },
    ],
    "MedCATtrainer": [
        {
            "text": TEXT,
            "annotations": [
                {
                    "start": 4,
                    "end": 8,
                    "cui": "C1",
                    "value": "gout",
                    "correct": True,
                    "validated": True,
                }
            ],
        },
    ],
    "SciERC": [
        {
            "doc_key": "1",
            "sentences": [["Had", "gout", "in", "1990."]],
            "ner": [[[1, 1, "Disease", 0.9]]],
            "relations": [[]],
        },
    ],
    "DocRED": [
        {
            "title": "A",
            "sents": [["Had", "gout", "in", "1990."]],
            "vertexSet": [[{"name": "gout", "sent_id": 0, "pos": [1, 2], "type": "Disease"}]],
            "labels": [{"h": 0, "t": 0, "r": "P1"}],
        },
    ],
    "words with mentions": [
        {
            "tokens": ["Had", "gout", "in", "1990."],
            "entities": [{"type": "Disease", "start": 1, "end": 2}],
            "relations": [{"type": "In", "head": 0, "tail": 0}],
            "orig_id": 7,
        },
    ],
    "words with tags": [
        {"tokens": ["Had", "gout", "in", "1990."], "ner_tags": ["O", "B-Disease", "O", "O"]},
        {"sentence": "Had gout in 1990.", "labels": "O B-Disease O O"},
        {"text": "Had  gout in 1990.", "tags": "O\tB-Disease O O "},
    ],
    "BioC JSON": [
        {
            "id": "1",
            "passages": [
                {
                    "offset": 0,
                    "text": TEXT,
                    "annotations": [
                        {
                            "infons": {"type": "Disease", "identifier": "-1"},
                            "text": "gout",
                            "locations": [{"offset": 4, "length": 4}],
                        }
                    ],
                }
            ],
        },
    ],
    "BigBio": [
        {
            "passages": [{"text": [TEXT], "offsets": [[0, 17]]}],
            "entities": [{"type": "Disease", "text": ["gout"], "offsets": [[4, 8]]}],
        },
    ],
    "doccano": [
        {"text": TEXT, "label": [[4, 8, "Disease"]], "Comments": []},
    ],
    "text with mentions": [
        {
            "text": TEXT,
            "entities": [{"id": 1, "label": "Disease", "start_offset": 4, "end_offset": 8}],
            "relations": [{"id": 2, "from_id": 1, "to_id": 1, "type": "of"}],
        },
        {  # spaCy
            "text": TEXT,
            "ents": [{"start": 4, "end": 8, "label": "Disease", "kb_id": ""}],
            "sents": [{"start": 0, "end": 17}],
            "tokens": [{"id": 0, "start": 0, "end": 3}],
            "spans": {},
        },
        {"text": TEXT, "ents": [], "spans": {"sc": [{"start": 4, "end": 8, "label": "Disease"}]}},
        [TEXT, {"entities": [[4, 8, "Disease"]]}],
        {"text": TEXT, "entities": [], "label": "positive", "spans": [[4, 8, "Disease"]]},
        {"text": TEXT, "mentions": [["Disease", 4, 8]]},
        {"data": TEXT, "label": [[4, 8, "Disease"]]},  # doccano's former exports
    ],
}
"""Shape -> its rows. All rows have the same content."""


def test_shapes__have_examples_each() -> None:
    assert {*EXAMPLES} == {shape.name for shape in SHAPES}


@pytest.mark.parametrize("number", [1, 20])
@pytest.mark.parametrize(
    "make",
    [
        lambda word: {word: "NAME"},
        lambda word: {word: "NAME", "title": "a"},
        lambda word: {"text": "A.", "entities": [{word: "NAME"}]},
        lambda word: {"text": "A.", "entities": {word: "NAME"}},
        lambda word: {"data": {word: "He came."}, "annotations": [{"result": []}]},
        lambda word: {"data": {word: "He came.", "b": "A."}, "annotations": [{"result": []}]},
        lambda word: {"fields": {word: "A."}, "responses": {}},
        lambda word: {"tokens": ["A"], word: "NAME"},
        lambda word: {"text": "A.", "label": {word: [0, 1]}},
    ],
)
def test_document__never_shows_a_word_as_key(make: Any, number: int) -> None:
    """Models write `{word: label}`, and a patient's word is no key to print."""
    rows = [make(f"Smith{letter}") for letter in "abcdefghijklmnopqrst"[:number]]

    try:
        found: object = read(rows[0], first=rows)
    except SourceError as error:
        found = error

    if not isinstance(found, Document):
        assert "Smith" not in str(found)


def test_document__takes_whole_floats_for_ids() -> None:
    assert document({"id": 7.0, "text": TEXT}).id == "7"
    assert document({"note": 7.0, "text": TEXT}, id_column="note").id == "7"
    for value in (7.5, float("nan"), [7], True):
        assert document({"id": value, "text": TEXT}).id == "rows:0"
        found = read({"note": value, "text": TEXT}, id_column="note")
        assert isinstance(found, SetAside)
        assert found.reason.text.endswith("text or a whole number, got another value")
