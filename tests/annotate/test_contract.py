"""The contract of annotators, tested with a small model of each.

A new annotator needs a row in FIXTURES only.
"""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.annotate import ANNOTATORS, Annotator, LoadedAnnotator
from mslm_data.annotate.cached import FoundMentions
from mslm_data.data.document import Document, Placeholder, Span
from mslm_data.testing import check_annotator
from tests.annotate.fixtures import FIXTURES, NAMES, Fixture
from tests.made import ODD_WORDS, annotated
from tests.support.properties import with_fixtures

GAPS = (" ", "  ", "\n", "\r\n", "\n\n", "\t", "\u00a0", "\u2028", "", ". ", ", ", "; ")
PLACEHOLDERS = (
    "[**Last Name (un) 12**]",
    "[**2101-3-4**]",
    "[** **]",
    "[**heart failure**]",
    "[**Last\nName**]",
)


@st.composite
def notes(draw: st.DrawFn) -> Document:
    """Documents with names, odd words, any white space, and placeholders.

    Names in placeholders must not be found.
    """
    text, placeholders = "", []
    pieces = st.one_of(map(st.sampled_from, (NAMES, PLACEHOLDERS, ODD_WORDS)))
    for piece in draw(st.lists(pieces, max_size=8)):
        if piece in PLACEHOLDERS:
            placeholders.append(Placeholder(len(text), len(text) + len(piece)))
        between = draw(st.sampled_from([" ", "\n", "\r\n"])) if piece in NAMES else " "
        text += piece.replace(" ", between) + draw(st.sampled_from(GAPS))
    return Document(
        id="d", text=text, placeholders=tuple(placeholders), spans=given_spans(text, placeholders)
    )


def given_spans(text: str, placeholders: list[Placeholder]) -> tuple[Span, ...]:
    """Return a mention of the source, for the annotator that keeps given mentions."""
    at = text.find("asthma")
    return (
        (Span(at, at + 6, "X"),)
        if at >= 0 and not any(a < at + 6 and at < b for a, b, _ in placeholders)
        else ()
    )


class Subject:
    """An annotator that is started once for all tests, as in a process."""

    def __init__(self, name: str, fixture: Fixture) -> None:
        self.name, self.fixture = name, fixture
        self.annotator: Annotator = ANNOTATORS.make(name, fixture.options)

    @functools.cached_property
    def running(self) -> LoadedAnnotator:
        return self.annotator.start()


@pytest.fixture(scope="module", params=ANNOTATORS.names())
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    assert request.param in FIXTURES, (
        f"tests/annotate/fixtures.py: annotator '{request.param}' has no fixture"
    )
    folder: Path = tmp_path_factory.mktemp(request.param)
    return Subject(request.param, FIXTURES[request.param](folder))


def test_annotators__each_has_a_fixture() -> None:
    assert sorted(FIXTURES) == ANNOTATORS.names()


@with_fixtures(0.25)
@given(given=st.lists(notes(), min_size=1, max_size=4), order=st.randoms(use_true_random=False))
def test_annotate__mentions_are_words_outside_placeholders_in_any_batch(
    subject: Subject, given: list[Document], order
) -> None:
    """Neighbours, their order and repetitions do not change the mentions."""
    alone = [annotated(subject.running, [document])[0] for document in given]
    numbers = list(range(len(given)))
    order.shuffle(numbers)

    for document, found in zip(given, alone, strict=True):
        for start, end, label, concept, score in found.spans:
            assert 0 <= start < end <= len(document.text)
            assert document.text[start:end] == document.text[start:end].strip() != ""
            assert label
            assert [type(value) for value in (label, concept, score)] == [str, str, float]
            assert 0 <= score <= 1
            assert not any(a < end and start < b for a, b, _ in document.placeholders)
        assert all(reason.text and count > 0 for reason, count in found.left_out.items())
    assert annotated(subject.running, given) == alone
    shuffled = annotated(subject.running, [given[number] for number in numbers])
    assert shuffled == [alone[number] for number in numbers]


def test_annotate__accepts_texts_without_mentions(subject: Subject) -> None:
    texts = ["", " ", "\n\r\n", "\x00", "🧬", "\u2028", "é" * 3000, "a " * 3000]
    documents = [Document(id="d", text=text) for text in texts]

    assert annotated(subject.running, documents) == [FoundMentions((), {})] * len(texts)
    assert annotated(subject.running, []) == []


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_annotate__offsets_are_characters_of_the_unchanged_text(
    subject: Subject, line_end: str
) -> None:
    text = f"腫瘍 🧬 e\u0301{line_end}Hx: heart{line_end}failure.{line_end}{line_end}On aspirin"
    expected = [f"heart{line_end}failure", "aspirin"]
    given = tuple(Span(text.index(name), text.index(name) + len(name), "X") for name in expected)
    [found] = annotated(subject.running, [Document(id="d", text=text, spans=given)])

    if subject.name == "none":
        expected = []
    assert sorted(text[span.start : span.end] for span in found.spans) == sorted(expected)


def test_annotator__passes_the_checks_of_all_annotators(subject: Subject) -> None:
    fixture = subject.fixture
    other = None if fixture.other is None else ANNOTATORS.make(subject.name, fixture.other)
    assert (other is None) == (subject.annotator.digest() == "")
    if subject.name == "none":
        with pytest.raises(AssertionError, match="expected mentions, got none"):
            check_annotator(subject.annotator, NAMES)
        return

    documents: list[Document | str] = [f"{name}, {' '.join(NAMES)}" for name in NAMES]
    documents.append(Document(id="d", text="asthma", spans=(Span(0, 6, "X"),)))
    check_annotator(subject.annotator, documents, other=other)
