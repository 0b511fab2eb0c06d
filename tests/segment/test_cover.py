from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.document import Document, Sentence, Span
from mslm_data.segment.given import GivenSentences
from tests import made

some_documents = st.one_of(made.documents_of_text(), made.documents_of_words())


def covered(document: Document) -> list[Sentence]:
    """Cover a document from the starts of its own sentences."""
    return made.sentences_of(GivenSentences(), document)


@given(some_documents)
def test_cover__starts_sentences_where_the_source_does(document: Document) -> None:
    sentences = covered(document)

    begins = {sentence.start for sentence in document.sentences or ()}
    blank = "".join("_" if c.isspace() else "x" for c in document.text)
    for sentence in sentences[1:]:
        before = blank[: sentence.start].rstrip("_")
        assert any(len(before) <= begin <= sentence.start for begin in begins)


@given(made.documents_of_words())
def test_cover__keeps_every_given_word_complete(document: Document) -> None:
    sentences = covered(document)

    assert document.words is not None
    for start, end in document.words.tolist():
        assert sum(s.start <= start and end <= s.end for s in sentences) == 1


TEXT = "One two.  Three four. Five"


STARTS = (0, 10, 22)


@pytest.mark.parametrize(
    ("starts", "spans", "expected"),
    [
        (STARTS, (), [(0, 8), (10, 21), (22, 26)]),
        ((), (), [(0, 26)]),
        (STARTS[:1], (), [(0, 26)]),
        (STARTS[1:], (), [(0, 21), (22, 26)]),  # Text before all sentences joins the first.
        ((0, 22), (), [(0, 21), (22, 26)]),  # Text between two sentences joins the previous one.
        (STARTS, (Span(4, 15, "X"),), [(0, 21), (22, 26)]),
        (STARTS, (Span(4, 15, "X"), Span(16, 24, "X")), [(0, 26)]),
        (STARTS, (Span(4, 24, "X"),), [(0, 26)]),
        (
            STARTS,
            (Span(0, 8, "X"), Span(10, 21, "X"), Span(22, 26, "X")),
            [(0, 8), (10, 21), (22, 26)],
        ),
        # A mention that ends at the start of the next sentence.
        (STARTS, (Span(7, 10, "X"),), [(0, 8), (10, 21), (22, 26)]),
    ],
)
def test_cover__worked_examples(
    starts: tuple[int, ...], spans: tuple[Span, ...], expected: list[tuple[int, int]]
) -> None:
    sentences = tuple(Sentence(start, start + 1) for start in starts)

    assert covered(Document(id="d", text=TEXT, sentences=sentences, spans=spans)) == expected


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_cover__has_no_sentence_of_white_space(text: str) -> None:
    assert covered(Document(id="d", text=text)) == []


def test_cover__never_trims_a_given_word() -> None:
    document = made.of_words(["\u00a0", "a", "\u2003"])

    assert covered(document) == [(0, 5)]
