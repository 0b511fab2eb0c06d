from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.document import Document, Sentence
from mslm_data.segment import SEGMENTERS
from mslm_data.segment.presplit import Presplit, Whole
from tests import made
from tests.made import sentences_of

TEXT = "One two.  Three four. Five"
THREE = (Sentence(0, 8), Sentence(10, 21), Sentence(22, 26))


some_documents = st.one_of(made.documents_of_text(), made.documents_of_words())


def test_sentences__are_the_sources_or_the_whole() -> None:
    document = Document(id="d", text=TEXT, sentences=THREE)

    assert sentences_of(Presplit(), document) == list(THREE)
    assert sentences_of(Whole(), document) == [(0, 26)]
    assert sentences_of(Presplit(), Document(id="d", text=TEXT)) == [(0, 26)]


@pytest.mark.parametrize("name", SEGMENTERS.names())
@given(document=some_documents)
def test_sentences__hold_all_text_and_whole_mentions(name: str, document: Document) -> None:
    """The contract of every segmenter; spans are flat and sorted, as `annotate` makes them."""
    sentences = sentences_of(SEGMENTERS.make(name, {}), document)

    inside = [c for start, end in sentences for c in range(start, end)]
    assert inside == sorted(set(inside))
    assert all(document.text[c].isspace() for c in set(range(len(document.text))) - set(inside))
    for start, end, *_ in document.spans:
        assert sum(s.start < end and start < s.end for s in sentences) <= 1
