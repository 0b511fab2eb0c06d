from __future__ import annotations

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.kernels.pieces import find_stretches, is_space
from tests import made

SPACES = re.compile(r"[ \t\n\r\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
some_documents = st.lists(
    st.one_of(made.documents_of_text(), made.documents_of_words()), max_size=4
)


def code_points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def test_is_space__equals_berts_normalizer() -> None:
    found = {c for c in range(0x11000) if is_space(c)}

    assert found == {c for c in range(0x11000) if SPACES.fullmatch(chr(c))}


@given(some_documents, st.data())
def test_find_stretches__equals_its_twin(
    documents: list[made.Document], data: st.DataObject
) -> None:
    line, sentences, given_, words, expected = "", [], [], [], []
    for document in documents:
        base, size = len(line), len(document.text)
        cuts = sorted(data.draw(st.sets(st.integers(0, size), max_size=4)))
        for start, end in zip(cuts[::2], cuts[1::2], strict=False):
            sentences.append((base + start, base + end))
            given_.append(document.words is not None)
            if document.words is None:
                found = [
                    match.span()
                    for match in re.finditer(
                        rf"(?:(?!{SPACES.pattern}).)+", document.text[start:end], re.S
                    )
                ]
                expected.append([(base + start + a, base + start + b) for a, b in found])
            else:
                expected.append(
                    [(base + a, base + b) for a, b in document.words.tolist() if start <= a < end]
                )
        words += (
            []
            if document.words is None
            else [(base + a, base + b) for a, b in document.words.tolist()]
        )
        line += document.text + "\n"
    bounds, counts = np.empty((len(line) + 1, 2), np.int64), np.empty(len(sentences), np.int64)

    find_stretches(
        code_points(line),
        np.array(sentences, np.int64).reshape(-1, 2),
        np.array(given_, np.bool_),
        np.array(words, np.int64).reshape(-1, 2),
        bounds,
        counts,
    )

    assert counts.tolist() == [len(of) for of in expected]
    assert [tuple(pair) for pair in bounds[: counts.sum()].tolist()] == [
        pair for of in expected for pair in of
    ]
