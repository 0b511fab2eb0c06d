from __future__ import annotations

from itertools import accumulate

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.annotate.terms.matcher import leftmost
from mslm_data.annotate.terms.texts import find_text_words
from tests import made
from tests.reference import terms as twin

some_texts = st.one_of(made.documents_of_text(), made.documents_of_words()).map(
    lambda document: document.text
)


def found_in(texts):
    """Split texts that are joined by line ends into words."""
    bounds = [0, *accumulate(len(text) + 1 for text in texts)]
    line = "\n".join(texts).encode("utf-32-le", "surrogatepass")
    return find_text_words(np.frombuffer(line, np.uint32), np.array(bounds[:-1], np.int64))


@given(some_texts)
def test_split_text__equals_twin(text):
    words = found_in([text]).words

    assert words.tolist() == [[word.start, word.end, word.gap] for word in twin.words_of(text)]


@given(st.lists(some_texts, max_size=4))
def test_split_text__a_text_is_its_own(texts):
    together = found_in(texts)
    starts = together.starts.tolist()

    words = [
        [start + word.start, start + word.end, word.gap]
        for start, text in zip(starts, texts, strict=True)
        for word in twin.words_of(text)
    ]
    assert together.words.tolist() == words


@given(st.lists(st.integers(0, 3), max_size=12))
def test_leftmost_terms__equals_twin(lengths):
    past = np.array([w + n if n else 0 for w, n in enumerate(lengths)], np.int32)

    expected, w = [], 0
    while w < len(lengths):
        expected += [w] * (lengths[w] > 0)
        w += max(lengths[w], 1)
    assert leftmost(past).tolist() == expected
