from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from mslm_data.data.document import Document, NotChosen, Part, Sentence, SetAside, Span
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.source.form import Record
from mslm_data.source.formats.row_sources import RowSource
from mslm_data.source.reading import cells
from mslm_data.source.reading.cells import Cells
from mslm_data.source.reading.shapes import SHAPES
from mslm_data.source.reading.shapes.base import RowsFile, decode_written, find_written
from mslm_data.source.reading.standoff import Discontinuous

NAMES = ("O", "B-Disease", "I-Disease")


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


@pytest.mark.parametrize("column", ["ner_tags", "tags", "labels"])
@pytest.mark.parametrize("tags", [["O", "B-Disease", "I-Disease"], [0, 1, 2]])
def test_document__reads_words_with_tags(column: str, tags: list[Any]) -> None:
    found = document({"tokens": ["Had", "kidney", "stones"], column: tags}, tag_names=NAMES)

    assert (found.text, found.spans) == ("Had kidney stones", (Span(4, 17, "Disease"),))
    assert found.sentences == (Sentence(0, 17),)
    assert found.words is not None
    assert found.words.tolist() == [[0, 3], [4, 10], [11, 17]]


def test_document__prefers_the_names_of_the_column_itself() -> None:
    names = {"tags": ("B-Right",)}
    row = {"tokens": ["Gout"], "tags": [0]}

    assert document(row, names=names, tag_names=("B-Wrong",)).spans == (Span(0, 4, "Right"),)


def test_document__names_the_option_for_integers_without_names() -> None:
    with pytest.raises(
        SourceError, match=r"rows\.jsonl:1: .* column 'ner_tags', got integers .* tag_names = \["
    ):
        read({"tokens": ["Gout"], "ner_tags": [0]})


NUMBERED = {"tokens": ["ad", "hoc", "team", "work"], "tags": [1, 1, 0, 1]}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("O", "X"), [(0, 6), (12, 16)]),
        (("O", "I-X"), [(0, 6), (12, 16)]),
        (("O", "B-X", "I-X"), [(0, 2), (3, 6), (12, 16)]),
    ],
)
def test_document__reads_integers_with_names(
    names: tuple[str, ...], expected: list[tuple[int, int]]
) -> None:
    spans = document(NUMBERED, tag_names=names).spans

    assert [(span.start, span.end) for span in spans] == expected
    assert {span.label for span in spans} == {"X"}


def test_document__asks_if_neighbours_all_begin_a_mention() -> None:
    expected = r'tag_names = \["O", "X"\] if they are one mention, and add "I-X" at the end'
    with pytest.raises(SourceError, match=expected):
        read(NUMBERED, tag_names=("O", "B-X"))

    assert document({**NUMBERED, "tags": [1, 0, 1, 0]}, tag_names=("O", "B-X")).spans


def test_document__gives_tags_without_type_the_label_named() -> None:
    assert document({"tokens": ["Gout"], "tags": ["B"]}, untyped="Disease").spans == (
        Span(0, 4, "Disease"),
    )


def test_document__counts_stray_i_tags() -> None:
    late: dict[str, Any] = {"tokens": ["Gout", "and", "fever"], "tags": ["I-X", "O", "B-X"]}
    rows = [late, "no row", {"tokens": []}, {"tokens": ["Gout"], "tags": ["B-X"]}]

    assert document(late, first=rows).adjusted == {"begins with I": 1}


def test_document__knows_files_whose_mentions_begin_with_i() -> None:
    late: dict[str, Any] = {"tokens": ["Gout", "and", "fever"], "tags": ["I-X", "O", "I-X"]}
    found = document(late)

    assert len(found.spans) == 2
    assert found.adjusted == {}


@pytest.mark.parametrize(
    "entities",
    [
        [{"start": 4, "end": 8, "label": "Disease"}],
        [{"start": 4, "end": 8, "label": 1}],
        [{"start_offset": 4, "end_offset": 8, "type": "Disease", "text": "gout"}],
        [{"offsets": [[4, 8]], "type": "Disease", "text": ["gout"]}],
        [{"name": "gout", "span": [4, 8], "type": "Disease"}],
        [[4, 8, "Disease"]],
        {"start": [4], "end": [8], "label": ["Disease"]},
        '[{"start": 4, "end": 8, "label": "Disease"}]',
        ' [[4, 8, "Disease"]]',
    ],
)
@pytest.mark.parametrize("column", ["entities", "spans", "labels", "label"])
def test_document__reads_text_with_mentions(column: str, entities: Any) -> None:
    found = document({"text": "Had gout.", column: entities}, names={column: ("Other", "Disease")})

    assert found.spans == (Span(4, 8, "Disease"),)
    assert found.sentences is None
    assert found.words is None


@pytest.mark.parametrize(
    "entities",
    [
        [{"type": "D", "mentions": [{"start": 4, "end": 8}, {"start": 13, "end": 17}]}],
        [
            {"label": ["D"], "points": [{"start": at, "end": at + 3, "text": "gout"}]}
            for at in (4, 13)
        ],
        {"D": [{"start": 4, "end": 8}, {"start": 13, "end": 17}]},
        {"D": [[4, 8], [13, 17]], "E": []},
        {"D": {"gout": [[4, 7], [13, 16]]}},
        [[4, 8, "D", "gout"], [13, 17, "gout", "D"]],
        [["gout", 4, 8, "D"], ["D", 13, 17]],
        [{"offset": at, "length": 4, "category": "D"} for at in (4, 13)],
        [{"startIndex": at, "endIndex": at + 4, "entity": "D", "value": "gout"} for at in (4, 13)],
        [{"value": {"start": at, "end": at + 4}, "label": "D"} for at in (4, 13)],
        [{"text": "gout", "type": "D"}, {"text": "gout", "type": "D"}],
        [{"entity": "gout", "label": "D"}] * 2,
        {"D": ["gout", "gout"]},
        [["gout", "D"], ["D", "gout"]],
    ],
)
def test_document__reads_mentions_in_every_form(entities: Any) -> None:
    found = document({"text": "Had gout and gout.", "entities": entities})

    assert found.spans == (Span(4, 8, "D"), Span(13, 17, "D"))
    assert found.unplaced == {}


@pytest.mark.parametrize(
    "entities",
    [
        [
            {
                "type": "D",
                "mentions": [{"fragments": [{"start": 0, "end": 3}, {"start": 9, "end": 13}]}],
            }
        ],
        [{"label": "D", "fragments": [[0, 3], [9, 13]]}],
        {"D": [{"ranges": [[0, 3], [9, 13]]}]},
        [{"type": "D", "offsets": [[0, 3], [9, 13]]}],
    ],
)
def test_document__joins_the_parts_of_a_mention(entities: Any) -> None:
    found = document({"text": "Big, old gout.", "entities": entities})

    assert found.spans == (Span(0, 13, "D"),)
    assert found.adjusted == {"discontinuous": 1}


@pytest.mark.parametrize(
    ("option", "starts", "reasons"),
    [
        ("once", [22], ["without offsets, and its words occur several times"]),
        ("first", [4, 22], []),
        ("all", [4, 13, 22], []),
    ],
)
def test_document__finds_the_words_of_mentions_without_offsets(
    option: str, starts: list[int], reasons: list[str]
) -> None:
    listed = [{"text": words, "type": "D"} for words in ("gout", "rash", "flu")]
    found = document(
        {"text": "Had gout and gout and rash, gouty.", "entities": listed}, occurrences=option
    )

    assert [span.start for span in found.spans] == starts
    absent = ["without offsets, and its words are not in the text"]
    assert sorted(reason.text for reason in found.unplaced) == sorted(reasons + absent)


@pytest.mark.parametrize(("option", "num_surplus"), [("once", 1), ("first", 1), ("all", 0)])
def test_document__counts_mentions_listed_more_often_than_their_words(
    option: str, num_surplus: int
) -> None:
    row = {"text": "Had gout.", "entities": 2 * [{"text": "gout", "type": "D"}]}

    found = document(row, occurrences=option)

    surplus = Reason("without offsets, and listed more often than its words occur")
    assert found.spans == (Span(4, 8, "D"),)
    assert found.unplaced == ({surplus: num_surplus} if num_surplus else {})


def test_document__an_empty_text_holds_no_mentions() -> None:
    assert document({"text": "Had gout.", "entities": ""}).spans == ()


def test_document__reads_text_alone() -> None:
    assert document({"text": " Had gout.\n"}).text == " Had gout.\n"


@pytest.mark.parametrize(
    "sentences", [[[0, 4], [5, 9]], [{"start": 0, "end": 4}, {"start": 5, "end": 9}]]
)
def test_document__reads_sentences(sentences: Any) -> None:
    found = document({"text": "Gout hurts", "sentences": sentences})

    assert found.sentences == (Sentence(0, 4), Sentence(5, 9))


def test_document__reads_passages_as_lists_and_as_objects_of_lists() -> None:
    passages = [
        {"text": ["Pain."], "offsets": [[0, 5]]},
        {"text": ["Had gout."], "offsets": [[6, 15]]},
    ]
    entities = [
        {"type": "Disease", "text": ["gout"], "offsets": [[10, 14]], "normalized": [{"db_id": "A"}]}
    ]
    turned = [
        {name: [row[name] for row in rows] for name in rows[0]} for rows in (passages, entities)
    ]

    for of_passages, of_entities in ((passages, entities), turned):
        found = document({"document_id": 5, "passages": of_passages, "entities": of_entities})

        assert (found.id, found.text) == ("5", "Pain.\nHad gout.")
        assert found.sentences == (Sentence(0, 5), Sentence(6, 15))
        assert found.spans == (Span(10, 14, "Disease", "A"),)


def test_document__counts_mentions_that_do_not_match() -> None:
    entities = [
        [4, 99, "Disease"],
        {"start": 0, "end": 3, "label": "Disease", "text": "gout"},
        {"start": 0, "end": 3},
    ]

    found = document({"text": "Had gout.", "entities": entities})

    assert found.spans == ()
    assert found.unplaced == {
        Reason("offsets do not match the text"): 1,
        Reason("offsets outside the text"): 1,
        Reason("without a label"): 1,
    }


@pytest.mark.parametrize(
    ("discontinuous", "spans", "unplaced"),
    [("hull", (Span(0, 13, "Sign"),), {}), ("set_aside", (), {Reason("discontinuous"): 1})],
)
def test_document__treats_discontinuous_mentions_by_option(
    discontinuous: Discontinuous, spans: tuple[Span, ...], unplaced: dict[Reason, int]
) -> None:
    entity = {"type": "Sign", "text": ["Red", "skin"], "offsets": [[0, 3], [9, 13]]}

    found = document(
        {"text": "Red sore skin", "entities": [entity]},
        discontinuous=discontinuous,
    )

    assert (found.spans, found.unplaced) == (spans, unplaced)


@pytest.mark.parametrize(
    ("row", "id_column", "expected"),
    [
        ({"pmid": "p", "id": 3}, "auto", "3"),
        ({"pmid": "p", "doc_id": "d"}, "auto", "d"),
        ({"pmid": "p", "id": "i"}, "pmid", "p"),
        ({"pmid": "p"}, "", "rows:0"),
        ({}, "auto", "rows:0"),
        ({"id": ""}, "auto", "rows:0"),
    ],
)
def test_document__has_the_id_of_the_named_column(
    row: dict[str, Any], id_column: str, expected: str
) -> None:
    assert document({**row, "text": "Gout."}, id_column=id_column).id == expected


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"tokens": [], "ner_tags": []}, "got no tokens"),
        ({"tokens": ["Gout"], "ner_tags": ["O", "O"]}, "got 1 token(s) and 2 tag(s)"),
        ({"tokens": ["Gout"]}, "expected tags in one of the columns"),
        (
            {"tokens": ["Gout", ""], "tags": ["O", "O"]},
            "got an empty one or a value that is not text",
        ),
        (
            {"tokens": ["Gout", None], "tags": ["O", "O"]},
            "got an empty one or a value that is not text",
        ),
        ({"tokens": ["Gout"], "tags": ["Gout"]}, "position 0: expected a tag"),
        (
            {"tokens": ["Gout"], "tags": [3]},
            "expected integers from 0 to 2 in column 'tags', got 3",
        ),
        ({"tokens": ["Gout"], "tags": [-100]}, "got -100"),
        ({"tokens": ["Gout"], "tags": [True]}, "expected names or integers"),
        ({"tokens": "Gout", "tags": [0]}, "expected a list in column 'tokens'"),
        ({"text": ""}, "expected text with at least one token, got none"),
        ({"text": None, "entities": []}, "expected text with at least one token, got none"),
        ({"text": 3}, "got none of them"),
        ({"title": "Gout"}, "got none of them"),
        (
            {"tokenized_text": ["Gout"], "ner": [[0, 0]]},
            "expected mentions of first word, last word and label",
        ),
        ({"tokenized_text": ["Gout"]}, "expected a list in column 'ner'"),
        ({"data": {"n": 1}, "annotations": [{"result": []}]}, "whose data have a text, got none"),
        (
            {"text": "Gout", "annotations": [{"cui": "", "start": 0, "end": 4}]},
            "in the field 'cui'",
        ),
        (
            {"text": "Gout", "q.responses": [[]], "q.responses.status": []},
            "expected 1 value(s) in column 'q.responses.status'",
        ),
        ({"passages": [{"offset": -1, "text": "Gout"}]}, "expected a whole number as offset"),
        ({"text": "Gout", "label": 1}, "expected a list of mentions"),
        ({"text": "Gout", "label": "Gout"}, "expected a list of mentions"),
        ({"text": "Gout", "label": "[[0, 4, Gout]]"}, "expected a list of mentions"),
        ({"text": "Gout", "entities": ["Gout"]}, "expected mentions, got a list of texts"),
        ({"text": "Gout", "labels": [0, 1, 1, 0]}, "expected mentions, got a list of numbers"),
        ({"text": "Gout", "entities": [[0, 4]]}, "got 2 value(s)"),
        (
            {"text": "Gout", "entities": [[0, "4", "Gout"]]},
            "start and end, got a list of 1",
        ),
        (
            {"text": "Gout", "entities": [{"start": 0.0, "end": 4, "label": "Gout"}]},
            "start and end, got a list of float and int",
        ),
        (
            {"text": "Gout", "entities": {"start": [0], "end": [4, 5]}},
            "lists of equal length in an object of lists, got lengths 1 and 2",
        ),
        ({"text": "Gout", "entities": {"start": [0], "end": 4}}, "an object of lists, got 1 other"),
        ({"text": "Gout", "sentences": [[0, 4], [2, 4]]}, "the other, got 2 to 4 after 4"),
        ({"text": "Gout", "sentences": [4]}, "start and end, got int"),
        ({"text": "Gout", "sentences": [[0, 2, 4]]}, "start and end, got a list of 3"),
        (
            {"text": "Gout", "sentences": [[0, 5]]},
            "the text of 4 characters, one after the other, got 0 to 5 after 0",
        ),
        ({"passages": [{"text": ["Gout"], "offsets": []}]}, "expected offsets, got none"),
        ({"passages": []}, "expected passages with text"),
        (["Gout"], "expected an object with named columns"),
    ],
)
def test_document__sets_a_wrong_row_aside(row: object, reason: str) -> None:
    found = read(row, tag_names=NAMES)

    assert isinstance(found, SetAside)
    assert (found.id, found.place) == ("rows:0", "rows.jsonl:1")
    assert reason in found.reason.text
    assert "Gout" not in found.reason.text


@pytest.mark.parametrize(
    ("row", "mentions"),
    [
        ({"text": 3, "entities": [[0, 4, "X"], [5, 9, "X"]]}, 2),
        ({"text": "", "entities": {"start": [0], "end": [4], "label": ["X"]}}, 1),
        ({"tokens": ["a", "b"], "tags": ["B-X", "I-X", "B-X"]}, 2),
        ({"tokens": ["a", "b"], "tags": []}, -1),
        ("no row", -1),
    ],
)
def test_document__counts_mentions_of_rows_set_aside(row: object, mentions: int) -> None:
    found = read(row)

    assert isinstance(found, SetAside)
    assert found.mentions == mentions


def test_document__sets_a_row_without_the_named_id_aside() -> None:
    found = read({"text": "Gout."}, id_column="note")

    assert isinstance(found, SetAside)
    assert found.reason.text == "expected an id in column 'note', text or a whole number, got none"


TEXT = "Had gout in 1990."
GOUT = Span(4, 8, "Disease")
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


@pytest.mark.parametrize(
    ("shape", "row"), [(shape, row) for shape, rows in EXAMPLES.items() for row in rows]
)
def test_document__reads_each_shape(shape: str, row: Any) -> None:
    found = document(row, untyped="Disease")

    columns = cells.named_columns(row)
    assert next(one.name for one in SHAPES if one.fits(columns)) == shape

    concept = "C1" if shape == "MedCATtrainer" else ""
    assert (found.text, found.spans, found.unplaced) == (
        TEXT,
        (GOUT._replace(concept=concept),),
        {},
    )


@pytest.mark.parametrize(
    "row",
    [
        {"annots": [{"start": 4, "end": 8, "name": "Disease"}]},
        {"entities": [], "gold": [[4, 8, "Disease"]]},
        {"gold": [["Disease", 4, 8]]},
        {"gold": [["C1", 4, 8, "Disease"]]},
        {"gold": {"begin": [4], "end": [8], "kind": ["Disease"]}},
        {"gold": [{"offset": 4, "length": 4, "category": "Disease"}]},
        {"gold": [{"beginoffset": 4, "endoffset": 8, "category": "Disease"}]},
        {"gold": [{"char_start": 4, "char_end": 8}]},
        {"gold": {"first": {"Disease": [{"tokenStart": 4, "tokenEnd": 8}]}}},
        {"answers": [{"gold": [{"beginOffset": 4, "endOffset": 8}]}]},
        {"gold": '[{"start": 4, "end": 8, "label": "Disease"}]'},
    ],
)
def test_document__rejects_mentions_in_an_unread_column(row: dict[str, Any]) -> None:
    column = list(row)[-1]

    with pytest.raises(
        SourceError,
        match=rf"rows\.jsonl:1: expected mentions in .* got column '{column}', which .* "
        rf"mentions_column = '{column}', or ignored_columns = \['{column}'\]",
    ):
        read({"text": TEXT, **row})

    assert document({"text": TEXT, **row}, ignored_columns=(column,)).spans == ()


def test_document__refuses_mentions_of_words_without_text_and_tags() -> None:
    row = {"tokens": ["Had", "gout"], "gold": [{"start": 1, "end": 2, "type": "Disease"}]}

    with pytest.raises(SourceError, match=r"rows\.jsonl:1: .* got column 'gold', which looks"):
        read(row)


def in_words(start: int, end: int, **more: Any) -> dict[str, Any]:
    return {"tokens": ["Had", "gout", "once"], "entities": [[start, end, "Disease"]], **more}


@pytest.mark.parametrize(
    ("others", "options", "words"),
    [
        ([in_words(2, 2)], {}, "gout once"),
        ([in_words(0, 3)], {}, "gout"),
        ([in_words(1, 2)], {"ends": "inclusive"}, "gout once"),
        ([in_words(2, 2)], {"ends": "exclusive"}, "gout"),
        ([], {}, ""),
        ([in_words(2, 2), in_words(0, 3)], {}, ""),
    ],
)
def test_document__raises_if_ends_in_words_are_ambiguous(
    others: list[Any], options: dict[str, Any], words: str
) -> None:
    row = in_words(1, 2)
    rows = [row, *others]

    if not words:
        with pytest.raises(
            SourceError, match=r"column 'entities' includes its last word; set \[source\] ends to"
        ):
            read(row, first=rows, **options)
        return
    found = read(row, first=rows, **options)
    assert isinstance(found, Document)
    assert [found.text[span.start : span.end] for span in found.spans] == [words]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (
            in_words(2, 4, relations=[], entities=[{"start": 2, "end": 4, "type": "X"}]),
            "offsets outside the text",
        ),
        (
            {"sentences": [["Had", "gout"]], "ner": [[[1, 2, "X"], [1, 1, "X"]]]},
            "offsets outside the text",
        ),
        (
            {"sents": [["a"], ["b"]], "vertexSet": [[{"sent_id": 0, "pos": [0, 2], "type": "X"}]]},
            "offsets outside the text",
        ),
    ],
)
def test_document__counts_mentions_beyond_the_words(row: Any, reason: str) -> None:
    assert document(row).unplaced == {Reason(reason): 1}


def test_document__keeps_sentences_of_words() -> None:
    rows = [
        {"doc_key": "d", "sentences": [["Gout", "is"], ["Rash"]], "ner": [[[0, 0, "X"]], [[2, 2, "X"]]]},
        {"id": "d", "words": ["Gout", "is", "Rash"], "sentences": [[0, 2], [2, 3]],
         "ner": [[0, 1, "X"], [2, 3, "X"]]},
        {"id": "d", "sents": [["Gout", "is"], ["Rash"]], "vertexSet": [
            [{"sent_id": 0, "pos": [0, 1], "type": "X"}, {"sent_id": 1, "pos": [0, 1], "type": "X"}]]},
    ]  # fmt: skip

    for row in rows:
        found = document(row, first=rows)

        assert (found.id, found.text, found.sentences) == (
            "d",
            "Gout is\nRash",
            (Sentence(0, 7), Sentence(8, 12)),
        )
        assert found.spans == (Span(0, 4, "X"), Span(8, 12, "X"))
        assert found.words is not None
        assert found.words.tolist() == [[0, 4], [5, 7], [8, 12]]


def test_document__finds_tags_in_a_column_of_any_name() -> None:
    row = {
        "text": "Had gout",
        "tokens": ["Had", "gout"],
        "entities": ["O", "B-X"],
        "pos": ["V", "N"],
    }

    assert document(row).spans == (Span(4, 8, "X"),)
    assert document({**row, "entities": [[4, 8, "Y"]]}).spans == (Span(4, 8, "Y"),)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (
            {"text": "Gout", "entities": [{"from": 0, "kind": "X"}]},
            "objects with the keys from, kind",
        ),
        (
            {"content": "Gout", "annotation": None},
            "got none of them, but the columns content, annotation",
        ),
    ],
)
def test_document__names_keys_that_most_rows_have(row: Any, words: str) -> None:
    found = read(row, first=[row] * 3)

    assert isinstance(found, SetAside)
    assert words in found.reason.text


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


@pytest.mark.parametrize(
    ("mention", "options"),
    [
        ({"entity_type": "D", "entity_value": "gout", "start_position": 4, "end_position": 8}, {}),
        ({"start_idx": 4, "end_idx": 8, "label": "D"}, {}),
        ({"start": 4, "end": 8, "entity_type": "D"}, {}),
        (
            {"from": 4, "to": 8, "kind": "D"},
            {"start_key": "from", "end_key": "to", "label_key": "kind"},
        ),
    ],
)
def test_document__reads_keys_of_other_programs(mention: Any, options: dict[str, Any]) -> None:
    found = document({"text": TEXT, "spans": [mention]}, **options)

    assert found.spans == (Span(4, 8, "D"),)


def test_document__reads_bytes_if_the_keys_say_so() -> None:
    mention = {"start_byte": 5, "limit_byte": 9, "type": "D"}

    assert document({"text": "Là, gout", "spans": [mention]}).spans == (Span(4, 8, "D"),)


def test_document__names_the_options_of_keys() -> None:
    found = read({"text": TEXT, "entities": [{"from": 4, "to": 8}]})

    assert isinstance(found, SetAside)
    assert "start_key" in str(found.reason.advice)


@pytest.mark.parametrize(
    ("row", "options"),
    [
        ({"data": {"text": TEXT}, "label": [[4, 8, "D"]]}, {"text_column": "data.text"}),
        (
            {"doc": {"body": {"text": TEXT}, "ents": [[4, 8, "D"]]}, "meta": {"id": 7}},
            {
                "text_column": "doc.body.text",
                "mentions_column": "doc.ents",
                "id_column": "meta.id",
            },
        ),
        ({"data.text": TEXT, "label": [[4, 8, "D"]]}, {"text_column": "data.text"}),
        (
            {"data": {"a": TEXT, "text": "B"}, "annotations": [{"result": [{"value": REGION}]}]},
            {"text_column": "data.a"},
        ),
    ],
)
def test_document__reads_nested_columns(row: Any, options: dict[str, Any]) -> None:
    found = document(row, **options)

    assert (found.text, found.spans[0][:2]) == (TEXT, (4, 8))
    assert found.id == ("7" if "id_column" in options else "rows:0")


def test_document__of_another_shape_than_its_file_is_read() -> None:
    usual = {"text": TEXT, "entities": [[4, 8, "Disease"]]}
    others = [row for rows in EXAMPLES.values() for row in rows if "label" not in row]

    for row in others:
        found = document(row, first=[usual] * 3, untyped="Disease")
        assert [span[:3] for span in found.spans] == [GOUT[:3]]
    rejected = read({**usual, "answer": "reject"}, first=[usual] * 3)
    assert rejected == NotChosen("rejected by the annotator")


def test_document__sees_unread_ranges_one_object_deep() -> None:
    row = {"text": TEXT, "mine": [{"label": "D", "place": {"start": 4, "end": 8}}]}

    with pytest.raises(SourceError, match="got column 'mine', which looks like mentions"):
        read(row)


def test_document__shows_no_column_of_an_unusual_name() -> None:
    with pytest.raises(
        SourceError, match="got column of an unusual name, which looks like"
    ) as caught:
        read({"text": TEXT, "Gout\x1b[31m": [[0, 4, "A"]]})

    assert "\x1b" not in str(caught.value)


def test_document__reads_the_same_column_of_mentions_in_all_rows() -> None:
    suggested = [[0, 3, "Guess"]]
    given = {"text": TEXT, "entities": [[4, 8, "Disease"]], "spans": suggested}
    none = {"text": TEXT, "entities": [], "spans": suggested}
    unused = {"text": TEXT, "entities": [], "spans": [[4, 8, "Disease"]]}
    rows = [none, given]

    assert [document(row, first=rows).spans for row in (given, none)] == [(GOUT,), ()]
    assert document(unused).spans == (GOUT,)


def test_document__rejects_rows_with_mentions_outside_the_named_column() -> None:
    row = {"text": TEXT, "entities": [[4, 8, "Disease"]]}

    with pytest.raises(SourceError, match="got column 'entities', which looks like mentions"):
        read(row, mentions_column="gold")

    assert document({**row, "gold": []}, mentions_column="gold").spans == ()


def test_document__reads_the_column_of_tags_named() -> None:
    row = {"tokens": ["Had", "gout"], "ner_tags": ["O", "O"], "other": ["O", "B-Disease"]}

    assert document(row, mentions_column="other").spans == (GOUT,)
    assert document({"tokens": row["tokens"], "ner": row["other"]}, mentions_column="ner").spans
    reason = read(row, mentions_column="absent")
    assert isinstance(reason, SetAside)
    assert reason.reason.text == "expected tags in one of the columns absent, got none"


def test_document__reads_json_min_from_a_table() -> None:
    labels = '[{"start": 4, "end": 8, "text": "gout", "labels": ["Disease"]}]'
    row = {"id": 1, "text": TEXT, "label": labels, "annotation_id": 1, "lead_time": 1.0}

    assert document(row).spans == (GOUT,)


def test_document__takes_whole_floats_for_ids() -> None:
    assert document({"id": 7.0, "text": TEXT}).id == "7"
    assert document({"note": 7.0, "text": TEXT}, id_column="note").id == "7"
    for value in (7.5, float("nan"), [7], True):
        assert document({"id": value, "text": TEXT}).id == "rows:0"
        found = read({"note": value, "text": TEXT}, id_column="note")
        assert isinstance(found, SetAside)
        assert found.reason.text.endswith("text or a whole number, got another value")


def test_document__reads_the_column_named() -> None:
    row = {"text": TEXT, "entities": [[0, 3, "Other"]], "gold": [[4, 8, "Disease"]]}

    assert document(row, mentions_column="gold").spans == (GOUT,)
    assert document({"note": TEXT, **row}, text_column="note").text == TEXT
    assert isinstance(read(row, text_column="note"), SetAside)


@pytest.mark.parametrize(
    "row",
    [
        {"meta": {"start": 0, "end": 3}},
        {"clips": [{"start": 0.5, "end": 1.5}]},
        {"relations": [{"start": 0, "end": 3}]},
        {"table": [[1, 2, 3], ["a", "b", 1]]},
        {"vector": [0.1, 0.2]},
        {"flags": [[True, False, "a"]]},
        {"deep": [[[[[[0, 3, "Disease"]]]]]]},
        {"tokens": [{"text": "Had", "start": 0, "end": 3}]},
        {"jobs": [{"start_year": 1990, "end_year": 1999}, {"startTime": 1, "endTime": 2}]},
        {"people": [{"gender": 1, "start": 2}, {"friend": 1, "offset": 2}, {"1": 1, "2": 2}]},
        {"_input_hash": 1, "versions": [{"spans": [{"start": 4, "end": 8, "label": "A"}]}]},
        {"q.responses": [[]], "q.suggestion": [{"start": 4, "end": 8, "label": "A"}]},
    ],
)
def test_document__reads_no_other_column_as_mentions(row: dict[str, Any]) -> None:
    assert document({"text": TEXT, **row}).spans == ()


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"answer": "reject", "text": TEXT, "spans": [[4, 8, "A"]]}, "rejected by the annotator"),
        ({"answer": "ignore", "text": TEXT}, "skipped by the annotator"),
        ({"data": {"text": TEXT}, "annotations": []}, "not annotated"),
        (
            {"data": {"text": TEXT}, "annotations": [{"was_cancelled": True, "result": []}]},
            "skipped by the annotator",
        ),
        ({"text": TEXT, "annotation": None, "prediction": [["A", 4, 8]]}, "not annotated"),
        (
            {"text": TEXT, "annotation": [], "prediction": None, "status": "Discarded"},
            "skipped by the annotator",
        ),
        ({"fields": {"text": TEXT}, "responses": {}}, "not annotated"),
        (
            {"text": TEXT, "q.responses": [[]], "q.responses.status": ["discarded"]},
            "skipped by the annotator",
        ),
    ],
)
def test_document__counts_rejected_and_skipped_rows(row: dict[str, Any], reason: str) -> None:
    assert read(row) == NotChosen(reason)


def _task(*versions: tuple[str, int, str, bool]) -> dict[str, Any]:
    """Return a task with annotations given by label, annotator, time and ground truth."""
    annotations = [
        {
            "completed_by": {"id": number, "email": f"{number}@x"},
            "created_at": time,
            "ground_truth": is_truth,
            "result": [{"value": {**REGION, "labels": [label]}}],
        }
        for label, number, time, is_truth in versions
    ]
    cancelled = {"was_cancelled": True, "result": [{"value": REGION}]}
    return {"data": {"text": TEXT}, "annotations": [*annotations, cancelled]}


@pytest.mark.parametrize(
    ("options", "labels"),
    [
        ({}, ["B"]),
        ({"of_several": "first"}, ["C"]),
        ({"of_several": "all"}, ["A", "B", "C"]),
        ({"annotator": "1"}, ["A"]),
        ({"annotator": "3@x"}, ["C"]),
    ],
)
def test_document__chooses_among_annotations(options: dict[str, Any], labels: list[str]) -> None:
    row = _task(("A", 1, "2024-02", False), ("B", 2, "2024-03", False), ("C", 3, "2024-01", False))

    found = document(row, **options)

    assert [span.label for span in found.spans] == labels
    others = 3 - len(labels)
    expected = {Reason("in an annotation that was cancelled"): 1}
    assert found.unplaced == expected | (
        {Reason("in another annotation of the document"): others} if others else {}
    )


def test_document__prefers_the_annotation_marked_as_ground_truth() -> None:
    row = _task(("A", 1, "2024-02", True), ("B", 2, "2024-03", False))

    assert [span.label for span in document(row).spans] == ["A"]
    assert read(row, annotator="9") == NotChosen("of another annotator")


def test_document__chooses_among_users_of_argilla() -> None:
    spans = [[{"start": 4, "end": 8, "label": label}] for label in "AB"]
    row = {"text": TEXT, "q.responses": spans, "q.responses.users": ["u", "v"]}

    found = document(row)

    assert [span.label for span in found.spans] == ["B"]
    assert found.unplaced == {Reason("in another annotation of the document"): 1}


def test_document__skips_results_about_other_texts() -> None:
    results = [{"to_name": name, "value": REGION} for name in ("text", "title")]
    row = {"data": {"text": TEXT, "title": "A"}, "annotations": [{"result": results}]}

    assert document(row).spans == (GOUT,)
    assert document(row).unplaced == {Reason("in another text of the record"): 1}


def test_document__asks_which_text_a_task_is_about() -> None:
    row = {"data": {"a": TEXT, "b": "B"}, "annotations": [{"result": [{"value": REGION}]}]}

    with pytest.raises(SourceError, match=r"got the fields a, b; .* text_column = 'a'"):
        read(row, first=[row] * 2)
    assert document(row, text_column="a").spans == (GOUT,)


@pytest.mark.parametrize("other", ["B", f"{len(TEXT) * 'b'}"])
def test_document__proposes_no_text_that_the_mentions_do_not_fit(other: str) -> None:
    region = {**REGION, "text": TEXT[REGION["start"] : REGION["end"]]}
    row = {"data": {"b": other, "a": TEXT}, "annotations": [{"result": [{"value": region}]}]}
    alone = {**row, "data": {"b": other, "c": "c"}}

    with pytest.raises(SourceError, match=r"got the fields b, a; .* text_column = 'a'"):
        read(row, first=[row, row, {"data": {}, "annotations": [{"result": [3]}]}])
    with pytest.raises(SourceError, match=r"the fields b, c, whose texts the mentions do not fit"):
        read(alone, first=[alone] * 2)


def test_document__names_what_mentions_without_offsets_lack() -> None:
    row = {"text": TEXT, "entities": [{"entity": "gout", "kinds": ["Disease"]}]}

    found = read(row, first=[row] * 2)

    assert isinstance(found, SetAside)
    assert found.reason.text == (
        "expected mentions in column 'entities', got objects without offsets, with the keys "
        "entity, kinds"
    )
    assert list(found.reason.advice) == ["label_key"]
    assert document(row, label_key="kinds").spans == (GOUT,)
    types = {"text": TEXT, "entities": [{"entity": "gout", "types": ["Disease"]}]}
    assert document(types).spans == (GOUT,)


def test_document__omits_column_names_that_may_be_text() -> None:
    # In a table without a header, the first row is read as column names.
    data = {"Mr John Smith was admitted": TEXT, "He is ill": "B"}
    row = {"data": data, "annotations": [{"result": [{"value": REGION}]}]}

    with pytest.raises(SourceError, match=r"got 2 field\(s\) that are not shown, .*; name it as"):
        read(row, first=[row] * 2)
    more = {**row, "data": {**data, "note": TEXT}}
    with pytest.raises(SourceError, match=r"the fields note and 2 other\(s\); .* = 'note'"):
        read(more, first=[more] * 2)


def test_document__with_labels_beside_concepts_keeps_the_labels() -> None:
    annotation = {"start": 0, "end": 8, "label": "Drug", "cui": "C0043031"}

    found = document({"text": "Warfarin was stopped.", "annotations": [annotation]})

    assert found.spans == (Span(0, 8, "Drug", "C0043031"),)


@pytest.mark.parametrize(
    ("given", "concept"),
    [
        (38341003, "38341003"),
        (["C1", "C2"], "C1|C2"),
        ([{"db_id": "C1"}, {"db_id": 2}], "C1|2"),
        ("-1", ""),
        (None, ""),
        ([], ""),
    ],
)
def test_document__takes_concepts_as_text_numbers_and_lists(given: object, concept: str) -> None:
    entity = {"start": 0, "end": 4, "label": "D", "concept": given}

    (span,) = document({"text": "Gout", "entities": [entity]}).spans

    assert span.concept == concept


def test_document__counts_each_label_of_a_region_and_regions_without_one() -> None:
    results = [
        {"type": "labels", "value": {**REGION, "labels": ["A", "B"]}},
        {"type": "labels", "value": {**REGION, "labels": []}},
        {"type": "choices", "value": {**REGION, "choices": ["yes"]}},
        {"type": "relation", "from_id": "a", "to_id": "b"},
        {
            "type": "hypertextlabels",
            "value": {
                "start": "/p[1]/text()[1]",
                "end": "/p[1]/text()[1]",
                "globalOffsets": {"start": 4, "end": 8},
                "hypertextlabels": ["C"],
            },
        },
        {"type": "labels", "value": {"start": "/p", "end": "/p", "labels": ["D"]}},
    ]

    found = document({"data": {"text": TEXT}, "annotations": [{"result": results}]})

    assert [span.label for span in found.spans] == ["A", "B", "C"]
    assert found.unplaced == {Reason("without a label"): 1, Reason("without offsets"): 1}


@pytest.mark.parametrize(
    ("flags", "is_read"),
    [
        ({}, True),
        ({"correct": True, "validated": True}, True),
        ({"correct": False, "alternative": True}, True),
        ({"correct": False, "manually_created": True}, True),
        ({"correct": False}, False),
        ({"correct": True, "validated": False}, False),
        ({"correct": True, "deleted": True}, False),
        ({"correct": True, "killed": True}, False),
        ({"correct": True, "irrelevant": True}, False),
    ],
)
def test_document__reads_confirmed_mentions_of_medcattrainer(
    flags: dict[str, bool], is_read: bool
) -> None:
    row = {"text": TEXT, "annotations": [{"start": 4, "end": 8, "cui": "C1", **flags}]}

    found = document(row, untyped="cui")

    assert [span.label for span in found.spans] == ["C1"] * is_read
    assert found.unplaced == ({} if is_read else {Reason("not marked as right"): 1})


def test_document__reads_ends_of_gliner_as_inclusive_words() -> None:
    ner = [[1, 2, "A"], [0, 0, "B"], [2, 3, "C"], [2, 1, "D"]]

    found = document({"tokenized_text": ["Had", "kidney", "stones"], "ner": ner})

    assert found.spans == (Span(4, 17, "A"), Span(0, 3, "B"))
    assert found.unplaced == {
        Reason("offsets outside the text"): 1,
        Reason("end at or before the start"): 1,
    }


def test_document__detects_utf_16_offsets_of_label_studio() -> None:
    text = "\N{HAMMER}\N{GRINNING FACE} gout."
    value = {"start": 5, "end": 9, "text": "gout", "labels": ["Disease"]}

    found = document({"text": text, "label": [value]})

    assert [text[span.start : span.end] for span in found.spans] == ["gout"]


RATES = {"text": "Gout came with aspirin, gout left.", "entities": [[0, 4, "D"], [15, 22, "C"]]}


@pytest.mark.parametrize(
    ("less", "number", "options", "words"),
    [
        (0, 5, {}, ["Gout", "aspirin"]),
        (1, 5, {}, ["Gout", "aspirin"]),
        (1, 4, {}, ["Gou", "aspiri"]),  # too few to tell
        (1, 5, {"ends": "exclusive"}, ["Gou", "aspiri"]),
    ],
)
def test_document__detects_inclusive_ends_by_cut_words(
    less: int, number: int, options: dict[str, Any], words: list[str]
) -> None:
    entities = [[start, end - less, label] for start, end, label in RATES["entities"]]
    row = {**RATES, "entities": entities}

    found = document(row, first=[row] * number, **options)

    assert [found.text[span.start : span.end] for span in found.spans] == words


def test_document__reads_text_from_a_column_called_sentences() -> None:
    row = {"sentences": "Gout came.", "ners": [[0, 4, "D"]]}

    found = document(row, text_column="sentences", mentions_column="ners")

    assert (found.text, found.spans) == ("Gout came.", (Span(0, 4, "D"),))


@pytest.mark.parametrize(
    "row",
    [
        {"words": ["Had", "gout"], "ner": ["O", "B-D"]},
        {"token": ["Had", "gout"], "label": ["O", "B-D"]},
        {"sentence": "Had gout", "word_labels": "O,B-D"},
        {"sentence": "Had gout", "pos": ["V", "N"], "tag": ["O", "B-D"]},
        {"tokens": "['Had', 'gout']", "ner_tag": ["0", "1"]},
        {"sentence": ["Had", "gout"], "ner": [{"index": [1], "type": "D"}]},
        {
            "tokens": ["Had", "gout"],
            "entity_mentions": [{"start": 1, "end": 2, "text": "gout", "entity_type": "D"}],
        },
    ],
)
def test_document__finds_words_and_tags_in_other_columns(row: Cells) -> None:
    written = find_written([row])
    found = document(
        row, first=[decode_written(row, written)], tag_names=("O", "B-D"), written=written
    )

    assert found.text == "Had gout"
    assert found.spans == (Span(4, 8, "D"),)


@pytest.mark.parametrize("index", [["a", "b", "c"], [0, 10**15, 3], [0, None, 2], [0, 2, 3]])
def test_document__sets_words_of_mentions_that_are_not_consecutive_aside(index: Any) -> None:
    first = {"sentence": ["Had", "gout"], "ner": [{"index": [1], "type": "D"}]}
    row = {"sentence": ["Had", "gout"], "ner": [{"index": index, "type": "D"}]}

    assert isinstance(read(row, first=[first]), SetAside)


def test_document__knows_the_column_of_tags_of_rows_without_mentions() -> None:
    first = [{"words": ["Gout"], "own": ["B-D"]}, {"words": ["Fine"], "own": ["O"]}]

    assert document(first[1], first=first).spans == ()


def test_document__numbers_rows_whose_ids_repeat() -> None:
    first = [{"doc_id": "a", "text": f"Gout {number}"} for number in range(20)]

    assert document(first[0], first=first).id == "rows:0"
    assert document(first[0], first=first[:5]).id == "a"
