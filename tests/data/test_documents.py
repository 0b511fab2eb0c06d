"""Documents in columns, against single documents, in any batch and selection."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data import documents as module
from mslm_data.data.document import Document, NotChosen, Placeholder, SetAside, Span
from mslm_data.data.documents import (
    Documents,
    Ints,
    Mentions,
    Ranges,
    count_by_reason,
    in_batches,
    split_documents,
    spread_counts,
)
from mslm_data.data.reason import Reason
from tests import made

reasons = st.dictionaries(st.sampled_from(["late", "without offsets"]), st.integers(1, 3))
any_text = st.text(st.characters(exclude_categories=[]), max_size=8)
"""Any characters, including lone surrogates."""


@st.composite
def some_documents(draw: st.DrawFn) -> Document:
    """Documents of words, of running text and of any characters, with any optional fields."""
    of_any_text = any_text.map(lambda text: Document(id="", text=text))
    document = draw(st.one_of(made.documents_of_words(), made.documents_of_text(), of_any_text))
    cuts = sorted(draw(st.sets(st.integers(0, len(document.text)), max_size=6)))
    placeholders = [
        Placeholder(start, end, draw(st.sampled_from([None, "", "word"])))
        for start, end in pairwise(cuts)
        if draw(st.booleans())
    ]
    return replace(
        document,
        id=draw(any_text),
        spans=tuple(draw(mentions_in(len(document.text)))),
        placeholders=tuple(placeholders),
        unplaced=draw(reasons),
        adjusted=draw(reasons),
        place=draw(st.sampled_from(["train.tsv:1", "train.tsv:2", "x"])),
    )


@st.composite
def mentions_in(draw: st.DrawFn, length: int) -> list[Span]:
    """Mentions of a text in any order, which may overlap. Some have concepts or scores."""
    places = st.tuples(st.integers(0, length), st.integers(0, length)).map(sorted)
    labels = st.sampled_from(["X", "Y", "Z"])
    concepts = draw(st.sampled_from([st.just(""), st.sampled_from(["", "C1", "C2"])]))
    scores = draw(st.sampled_from([st.just(1.0), st.sampled_from([1.0, 0.5, 0.0])]))
    return [
        Span(*place, draw(labels), draw(concepts), draw(scores))
        for place in draw(st.lists(places, max_size=4))
    ]


def plain(document: Document) -> tuple[Any, ...]:
    """Return all fields of a document, to compare. An empty list of sentences equals None."""
    words = None if document.words is None else document.words.tolist()
    return (
        document.id,
        document.text,
        document.spans,
        document.sentences or None,
        words,
        document.placeholders,
        dict(document.unplaced),
        dict(document.adjusted),
        document.place,
    )


several = st.lists(some_documents(), max_size=4)


@given(several)
def test_documents__round_trip(given: list[Document]) -> None:
    documents = Documents.from_documents(given)

    found = list(documents)

    assert len(documents) == len(given)
    assert [plain(document) for document in found] == [plain(document) for document in given]
    assert all(document.words is None or document.words.dtype == np.int32 for document in found)


@given(several)
def test_documents__have_offsets_of_all_values(given: list[Document]) -> None:
    documents = Documents.from_documents(given)

    bounds = [*zip(documents.starts.tolist(), documents.ends.tolist(), strict=True)]
    texts = [document.text for document in given]
    assert [documents.line[start:end] for start, end in bounds] == texts
    assert documents.codes().tolist() == [ord(character) for character in documents.line]
    assert [*documents.texts()] == [
        (document.text, list(document.placeholders)) for document in given
    ]


@given(several, st.data())
def test_take__returns_the_documents_at_indices(given: list[Document], data: st.DataObject) -> None:
    kept = [number for number in range(len(given)) if data.draw(st.booleans())]
    documents = Documents.from_documents(given)

    some = documents.take(np.array(kept, np.int64))

    assert some.line == documents.line
    assert [plain(document) for document in some] == [plain(given[number]) for number in kept]
    of_some = data.draw(st.sets(st.integers(0, len(kept) - 1))) if kept else set()
    again = some.take(np.array(sorted(of_some), np.int64))
    assert [plain(document) for document in again] == [
        plain(given[kept[number]]) for number in sorted(of_some)
    ]


@given(several)
def test_one_by_one__returns_each_document_separately(given: list[Document]) -> None:
    singly = list(split_documents(Documents.from_documents(given)))

    assert [plain(document) for of_one in singly for document in of_one] == list(map(plain, given))
    assert [of_one.line for of_one in singly] == [document.text for document in given]


@given(several)
def test_with_mentions__changes_nothing_else(given: list[Document]) -> None:
    documents = Documents.from_documents(given)
    spans = [[Span(0, 0, "new")] for _ in given]

    changed = documents.with_mentions(Mentions.from_rows(spans, documents.starts))

    assert [plain(document) for document in changed] == [
        plain(document.with_spans(of_one)) for document, of_one in zip(given, spans, strict=True)
    ]


ASIDE = SetAside("d", "f:1", Reason("expected a text, got none"))
NOT_CHOSEN = NotChosen("another category")


@pytest.mark.parametrize(("at_once", "characters"), [(1, 1000), (2, 1000), (100, 1), (100, 5)])
@given(st.lists(st.one_of(some_documents(), st.sampled_from([ASIDE, NOT_CHOSEN])), max_size=6))
def test_in_batches__returns_each_record_once(
    at_once: int, characters: int, records: list[Document | SetAside | NotChosen]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "DOCUMENTS_AT_ONCE", at_once)
        patch.setattr(module, "CHARACTERS_AT_ONCE", characters)
        given = list(in_batches(records))

    batches = [record for record in given if isinstance(record, Documents)]
    others = [record for record in given if not isinstance(record, Documents)]
    assert others == [record for record in records if not isinstance(record, Document)]
    assert [plain(document) for batch in batches for document in batch] == [
        plain(record) for record in records if isinstance(record, Document)
    ]
    for batch in batches:
        lengths = [len(document.text) for document in batch]
        assert 0 < len(batch) <= at_once
        assert sum(lengths[:-1]) < characters


@pytest.mark.parametrize("few", [1, 1000])
@given(st.lists(st.lists(some_documents(), min_size=1, max_size=3), min_size=1, max_size=4))
def test_in_batches__keeps_the_order_of_arrays_and_single_documents(
    few: int, runs: list[list[Document]]
) -> None:
    """Every other run is given as a batch of arrays, as by formats that are read into arrays."""
    records: list[Document | Documents] = []
    for number, run in enumerate(runs):
        records += run if number % 2 else [Documents.from_documents(run)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FEW_CHARACTERS", few)
        batches = list(in_batches(records))

    documents = [plain(document) for batch in batches for document in batch]
    assert documents == [plain(document) for run in runs for document in run]
    if few == 1000:
        assert len(batches) == 1


def test_in_batches__reads_lazily() -> None:
    def records() -> Any:
        yield Document(id="a", text="x" * module.CHARACTERS_AT_ONCE)
        raise OSError

    (document,) = next(in_batches(records()))

    assert document.id == "a"


# Mentions -----------------------------------------------------------------------------------------

rows_of_mentions = st.lists(mentions_in(20), max_size=4)


def of_rows(rows: list[list[Span]]) -> tuple[Mentions, Ints]:
    """Return mentions of documents of 20 characters, and the starts of the documents."""
    bases = 21 * np.arange(len(rows))
    return Mentions.from_rows(rows, bases), bases


@given(rows_of_mentions)
def test_mentions__round_trip(rows: list[list[Span]]) -> None:
    mentions, bases = of_rows(rows)

    every = [span for of_one in rows for span in of_one]
    assert mentions.spans(bases) == rows
    assert len(mentions) == len(every)
    assert mentions.documents.tolist() == [
        number for number, of_one in enumerate(rows) for _ in of_one
    ]
    assert mentions.used_labels() == list(dict.fromkeys(span.label for span in every))
    assert (mentions.concepts is None) == all(not span.concept for span in every)
    assert (mentions.scores is None) == all(span.score == 1 for span in every)


@given(rows_of_mentions, st.data())
def test_choose__keeps_mentions_of_each_document_in_any_order(
    rows: list[list[Span]], data: st.DataObject
) -> None:
    mentions, bases = of_rows(rows)
    chosen = [
        data.draw(st.lists(st.sampled_from(range(len(row))), unique=True)) if row else []
        for row in rows
    ]
    kept = [
        int(mentions.offsets[number]) + place
        for number, of_one in enumerate(chosen)
        for place in of_one
    ]

    some = mentions.choose(np.array(kept, np.int64))

    assert some.spans(bases) == [
        [row[place] for place in of_one] for row, of_one in zip(rows, chosen, strict=True)
    ]


@given(rows_of_mentions, st.data())
def test_take__returns_the_mentions_of_documents(
    rows: list[list[Span]], data: st.DataObject
) -> None:
    mentions, bases = of_rows(rows)
    kept = [number for number in range(len(rows)) if data.draw(st.booleans())]

    some = mentions.take(np.array(kept, np.int64))

    assert some.spans(bases[kept]) == [rows[number] for number in kept]


def test_used_labels__exclude_unused_labels() -> None:
    mentions, _ = of_rows([[Span(0, 1, "X"), Span(1, 2, "Y")], [Span(0, 1, "Z")]])

    assert mentions.take(np.array([1])).used_labels() == ["Z"]
    assert mentions.choose(np.array([0, 2])).used_labels() == ["X", "Z"]
    assert Mentions.from_rows([], np.empty(0, np.int64)).used_labels() == []


# Ranges and counts --------------------------------------------------------------------------------


@given(st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=3), max_size=4))
def test_ranges__are_offsets_into_all_values(rows: list[list[tuple[int, int]]]) -> None:
    bases = 10 * np.arange(len(rows))

    ranges = Ranges.from_rows(rows, bases)

    assert ranges.counts.tolist() == list(map(len, rows))
    assert [*zip(ranges.starts.tolist(), ranges.ends.tolist(), strict=True)] == [
        (base + start, base + end)
        for base, of_one in zip(bases.tolist(), rows, strict=True)
        for start, end in of_one
    ]


def test_ranges__of_documents_without_ranges() -> None:
    assert Ranges.none(2).counts.tolist() == [0, 0]
    assert Ranges.none(0).offsets.tolist() == [0]


def test_counts__sum_over_documents() -> None:
    counts = spread_counts([{"a": 1}, {}, {"a": 2, "b": 3}])

    assert {reason: of.tolist() for reason, of in counts.items()} == {
        "a": [1, 0, 2],
        "b": [0, 0, 3],
    }
    assert count_by_reason(counts) == {"a": 3, "b": 3}
    assert count_by_reason({"a": np.zeros(2, np.int64)}) == {}
