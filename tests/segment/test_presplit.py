from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.document import Document, Sentence
from mslm_data.data.documents import Documents
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


@pytest.mark.parametrize("name", SEGMENTERS.names())
@given(given=st.lists(some_documents, max_size=4), data=st.data())
def test_sentences__of_a_document_are_its_own(
    name: str, given: list[Document], data: st.DataObject
) -> None:
    """The same whatever its neighbours are, and whatever stands on the line between them."""
    segmenter = SEGMENTERS.make(name, {})
    kept = [number for number in range(len(given)) if data.draw(st.booleans())]
    documents = Documents.of(given).take(np.array(kept, np.int64))

    found = segmenter.sentences(documents)

    shifts = np.repeat(documents.starts, found.counts)
    bounds = zip((found.starts - shifts).tolist(), (found.ends - shifts).tolist(), strict=True)
    alone = [sentences_of(segmenter, given[number]) for number in kept]
    assert [*bounds] == [sentence for of_one in alone for sentence in of_one]
    assert found.counts.tolist() == list(map(len, alone))
