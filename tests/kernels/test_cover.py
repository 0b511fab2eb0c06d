from __future__ import annotations

import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.document import Document, Span
from mslm_data.data.documents import Documents
from mslm_data.kernels.cover import is_white, trim_white
from mslm_data.segment.cover import cover, on_line
from tests import made
from tests.reference import cover as twin

some_documents = st.one_of(made.documents_of_text(), made.documents_of_words())


@pytest.mark.long
def test_is_white__equals_isspace() -> None:
    found = {code for code in range(sys.maxunicode + 1) if is_white(code)}

    assert found == {code for code in range(sys.maxunicode + 1) if chr(code).isspace()}


@given(st.text("a \n\u2028", max_size=6), st.data())
def test_trim_white__equals_strip(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    chars = np.array([ord(character) for character in text], np.uint32)

    left, right = trim_white(chars, start, end)

    assert start <= left <= right <= end
    assert text[left:right] == text[start:end].strip()


@st.composite
def begun(draw: st.DrawFn) -> tuple[Document, list[int]]:
    """A document, and beginnings of sentences, often within its mentions."""
    document = draw(some_documents)
    edges = [place for start, end, *_ in document.spans for place in (start, start + 1, end)]
    inside = [place for place in edges if place <= len(document.text)]
    places = st.one_of(
        st.integers(0, len(document.text)), *([st.sampled_from(inside)] if inside else [])
    )
    return document, sorted(draw(st.sets(places, max_size=6)))


@given(st.lists(begun(), max_size=5), st.data())
def test_cover_documents__equals_its_twin(
    given: list[tuple[Document, list[int]]], data: st.DataObject
) -> None:
    """Also with text of dropped documents between the others."""
    kept = [number for number in range(len(given)) if data.draw(st.booleans())]
    of_all = Documents.from_documents([document for document, _ in given])
    documents = of_all.take(np.array(kept, np.int64))
    begins = [given[number][1] for number in kept]

    found = cover(documents, on_line(documents, begins))

    shifts = np.repeat(documents.starts, found.counts)
    bounds = [*zip((found.starts - shifts).tolist(), (found.ends - shifts).tolist(), strict=True)]
    offsets = found.offsets.tolist()
    assert [bounds[start:stop] for start, stop in pairwise(offsets)] == [
        twin.sentences(
            document.text,
            of_document,
            [span[:2] for span in document.spans],
            None if document.words is None else [(a, b) for a, b in document.words.tolist()],
        )
        for document, of_document in (given[number] for number in kept)
    ]


def test_cover_documents__looks_at_no_mention_of_another_document() -> None:
    first = Document(id="a", text="One. Two.")
    second = replace(first, spans=(Span(3, 6, "X"),))
    documents = Documents.from_documents([first, second, first])

    found = cover(documents, on_line(documents, [[0, 5]] * 3))

    assert found.counts.tolist() == [2, 1, 2]
