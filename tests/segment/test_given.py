from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.document import Document, Sentence
from mslm_data.segment import SEGMENTERS
from mslm_data.segment.given import GivenSentences, Whole
from mslm_data.testing import check_segmenter
from tests import made
from tests.made import sentences_of

TEXT = "One two.  Three four. Five"
THREE = (Sentence(0, 8), Sentence(10, 21), Sentence(22, 26))
NEED_NO_MODEL = sorted({*SEGMENTERS.names()} - {"spacy"})

some_documents = st.one_of(made.documents_of_text(), made.documents_of_words())


def test_sentences__equal_those_of_the_source_or_are_the_document() -> None:
    document = Document(id="d", text=TEXT, sentences=THREE)

    assert sentences_of(GivenSentences(), document) == list(THREE)
    assert sentences_of(Whole(), document) == [(0, 26)]
    assert sentences_of(GivenSentences(), Document(id="d", text=TEXT)) == [(0, 26)]


@pytest.mark.parametrize("name", NEED_NO_MODEL)
@given(documents=st.lists(some_documents, max_size=4))
def test_segmenter__passes_the_checks_of_all_segmenters(
    name: str, documents: list[Document]
) -> None:
    """Mentions are flat and sorted, as `annotate` returns them."""
    check_segmenter(SEGMENTERS.make(name, {}), documents)
