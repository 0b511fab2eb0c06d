from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.document import Placeholder
from mslm_data.spacy_pipelines import pieces


@given(st.text("ab \n", max_size=60), st.integers(1, 20), st.sets(st.integers(0, 60), max_size=6))
def test_pieces__cover_the_text_and_cut_no_placeholder(
    text: str, limit: int, cuts: set[int]
) -> None:
    bounds = sorted(cut for cut in cuts if cut <= len(text))
    placeholders = [Placeholder(a, b) for a, b in list(pairwise(bounds))[::2]]
    found = list(pieces(text, placeholders, limit=limit))

    assert "".join(text[start:end] for start, end in found) == text
    assert all(start < end for start, end in found)
    for start, end in found:
        assert not any(a < end < b for a, b, _ in placeholders)
        assert end - start <= limit or any(a <= start and end == b for a, b, _ in placeholders)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("aaa aa\n\nbb\nb ccc", "aaa aa\n\n"),
        ("aaa aa bb\nb ccc", "aaa aa bb\n"),
        ("aaa aa bb b ccc", "aaa aa bb "),
        ("aaaaaabbbbbcccc", "aaaaaabbbb"),
        (
            "a\n\naaaaaabbbbbcccc",
            "a\n\naaaaaab",
        ),  # an empty line too far back would make small pieces
    ],
)
def test_pieces__end_where_text_does(text: str, first: str) -> None:
    start, end = next(pieces(text, (), limit=10))

    assert text[start:end] == first
