from __future__ import annotations

from typing import Any

import pytest

from mslm_data.data.document import Document, Sentence, SetAside, Span
from mslm_data.errors import SourceError
from mslm_data.source.reading.shapes import RowReader
from mslm_data.source.reading.standoff import Discontinuous, OffsetOptions

NAMES = ("O", "B-Disease", "I-Disease")


def read(row: object, **options: Any) -> Document | SetAside:
    return RowReader(**options).document(row, numbered="rows:0", place="rows.jsonl:1")


def document(row: object, **options: Any) -> Document:
    found = read(row, **options)
    assert isinstance(found, Document), found
    return found


@pytest.mark.parametrize("column", ["ner_tags", "tags", "labels"])
@pytest.mark.parametrize("tags", [["O", "B-Disease", "I-Disease"], [0, 1, 2]])
def test_document__reads_words_with_tags(column: str, tags: list[Any]) -> None:
    found = document({"tokens": ["Had", "kidney", "stones"], column: tags}, names={"": NAMES})

    assert (found.text, found.spans) == ("Had kidney stones", (Span(4, 17, "Disease"),))
    assert found.sentences == (Sentence(0, 17),)
    assert found.words is not None
    assert found.words.tolist() == [[0, 3], [4, 10], [11, 17]]


def test_document__prefers_the_names_of_the_column_itself() -> None:
    names = {"": ("B-Wrong",), "tags": ("B-Right",)}

    assert document({"tokens": ["Gout"], "tags": [0]}, names=names).spans == (Span(0, 4, "Right"),)


def test_document__says_what_to_pass_for_integers_without_names() -> None:
    with pytest.raises(
        SourceError, match=r"rows\.jsonl:1: .* column 'ner_tags', got integers .* tag_names = \["
    ):
        read({"tokens": ["Gout"], "ner_tags": [0]})


def test_document__gives_tags_without_type_the_label_named() -> None:
    assert document({"tokens": ["Gout"], "tags": ["B"]}, untyped="Disease").spans == (
        Span(0, 4, "Disease"),
    )


def test_document__counts_mentions_that_begin_with_i_by_accident() -> None:
    late: dict[str, Any] = {"tokens": ["Gout", "and", "fever"], "tags": ["I-X", "O", "B-X"]}
    rows = [late, "no row", {"tokens": []}, {"tokens": ["Gout"], "tags": ["B-X"]}]

    assert document(late, beginning=lambda: rows).adjusted == {"begins with I": 1}
    assert document(late).adjusted == {"begins with I": 1}


def test_document__knows_files_whose_mentions_begin_with_i() -> None:
    late: dict[str, Any] = {"tokens": ["Gout", "and", "fever"], "tags": ["I-X", "O", "I-X"]}
    asked = []

    reader = RowReader(beginning=lambda: asked.append(1) or [late])  # type: ignore[func-returns-value]
    found = [reader.document(late, numbered="f:0", place="f:1") for _ in range(2)]

    assert [len(one.spans) for one in found if isinstance(one, Document)] == [2, 2]
    assert [one.adjusted for one in found if isinstance(one, Document)] == [{}, {}]
    assert asked == [1]


@pytest.mark.parametrize(
    "entities",
    [
        [{"start": 4, "end": 8, "label": "Disease"}],
        [{"start": 4, "end": 8, "label": 1}],
        [{"start_offset": 4, "end_offset": 8, "type": "Disease", "text": "gout"}],
        [{"offsets": [[4, 8]], "type": "Disease", "text": ["gout"]}],
        [[4, 8, "Disease"]],
        {"start": [4], "end": [8], "label": ["Disease"]},
    ],
)
@pytest.mark.parametrize("column", ["entities", "spans", "labels", "label"])
def test_document__reads_text_with_mentions(column: str, entities: Any) -> None:
    found = document({"text": "Had gout.", column: entities}, names={column: ("Other", "Disease")})

    assert found.spans == (Span(4, 8, "Disease"),)
    assert found.sentences is None
    assert found.words is None


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


def test_document__counts_mentions_that_do_not_fit() -> None:
    entities = [
        [4, 99, "Disease"],
        {"start": 0, "end": 3, "label": "Disease", "text": "gout"},
        {"start": 0, "end": 3},
    ]

    found = document({"text": "Had gout.", "entities": entities})

    assert found.spans == ()
    assert found.unplaced == {"offsets do not match the text": 2, "without a label": 1}


@pytest.mark.parametrize(
    ("discontinuous", "spans", "unplaced"),
    [("hull", (Span(0, 13, "Sign"),), {}), ("set_aside", (), {"discontinuous": 1})],
)
def test_document__treats_discontinuous_mentions_as_told(
    discontinuous: Discontinuous, spans: tuple[Span, ...], unplaced: dict[str, int]
) -> None:
    entity = {"type": "Sign", "text": ["Red", "skin"], "offsets": [[0, 3], [9, 13]]}

    found = document(
        {"text": "Red sore skin", "entities": [entity]},
        placing=OffsetOptions(discontinuous=discontinuous),
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
        ({"tokens": "Gout", "tags": ["O"]}, "expected a list in column 'tokens'"),
        ({"text": ""}, "got none of them"),
        ({"title": "Gout"}, "got none of them"),
        ({"text": "Gout", "label": 1}, "expected a list of mentions"),
        ({"text": "Gout", "entities": ["Gout"]}, "expected a list of objects"),
        ({"text": "Gout", "entities": [[0, 4]]}, "got 2 value(s)"),
        ({"text": "Gout", "entities": [[0, "4", "Gout"]]}, "two integers"),
        ({"text": "Gout", "entities": [{"start": 0.0, "end": 4, "label": "Gout"}]}, "two integers"),
        ({"text": "Gout", "entities": {"start": [0], "end": [4, 5]}}, "lists of equal length"),
        ({"text": "Gout", "sentences": [[0, 4], [2, 4]]}, "sentences within the text"),
        ({"text": "Gout", "sentences": [[0, 5]]}, "sentences within the text"),
        ({"passages": [{"text": ["Gout"], "offsets": []}]}, "expected offsets, got none"),
        ({"passages": []}, "expected passages with text"),
        (["Gout"], "expected an object of named columns"),
    ],
)
def test_document__sets_a_wrong_row_aside(row: object, reason: str) -> None:
    found = read(row, names={"": NAMES})

    assert isinstance(found, SetAside)
    assert (found.id, found.place) == ("rows:0", "rows.jsonl:1")
    assert reason in found.reason
    assert "Gout" not in found.reason


def test_document__sets_a_row_without_the_named_id_aside() -> None:
    found = read({"text": "Gout."}, id_column="note")

    assert isinstance(found, SetAside)
    assert found.reason == "expected an id in column 'note', got none"
