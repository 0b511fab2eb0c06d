from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.kernels.lines import NEWLINE, count_lines, is_blank, scan_lines
from tests.reference import lines as reference

WORDS = ["a", "bc", "\u00e9", "\U0001f9ec", "\u2028", "\u00a0", "x y", "\x0b", "\x1f", ""]
TAGS = ["O", "B-X", "I-X", " O", "O ", "\f", "", "NN"]
some_lines = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(WORDS), st.sampled_from(["\t", " ", "  "]), st.sampled_from(TAGS)
        ).map("".join),
        st.tuples(st.sampled_from(WORDS), st.sampled_from(TAGS), st.sampled_from(TAGS)).map(
            "\t".join
        ),
        st.text("a \t\r\v\u00e9", max_size=12),
    ),
    max_size=12,
)


def scanned(
    text: str, *, word: int, tag: int, room: int = 16, places: int = 32
) -> tuple[list[tuple[int, list[object]]], str, int]:
    """Return sentences in the form of the twin, the text `laid`, and the number of distinct tags."""
    data = np.frombuffer(text.encode() + b"\n", np.uint8)
    size = int((data == NEWLINE).sum())
    names, slots, laid = (
        np.zeros((room, 2), np.int64),
        np.full(places, -1),
        np.zeros(len(data), np.uint8),
    )
    words, sentences, sizes = (
        np.zeros((size, 3), np.int64),
        np.zeros((size + 1, 2), np.int64),
        np.zeros(4, np.int64),
    )

    columns, fields = np.array([word, tag]), np.zeros((max(word, tag) + 2, 2), np.int64)
    scan_lines(data, columns, names, slots, fields, laid, words, sentences, sizes)

    num_words, num_sentences, num_bytes, num_tags = sizes.tolist()
    out = laid[:num_bytes].tobytes().decode()
    tags = [data[start:stop].tobytes().decode() for start, stop in names[:num_tags].tolist()]
    assert len(set(tags)) == num_tags
    pairs = [
        None if tag < 0 else (out[start:stop], tags[tag])
        for start, stop, tag in words[:num_words].tolist()
    ]
    bounds = sentences[: num_sentences + 1].tolist()
    found = [(line, pairs[a:b]) for (a, line), (b, _) in pairwise(bounds)]
    return found, out, num_tags


@given(some_lines, st.sampled_from([(0, 1), (0, 2), (1, 0), (2, 1)]))
def test_scan_lines__equals_its_twin(lines: list[str], columns: tuple[int, int]) -> None:
    text = "\n".join(lines)

    found, laid, _ = scanned(text, word=columns[0], tag=columns[1])

    expected = reference.sentences(text, word=columns[0], tag=columns[1])
    assert found == expected
    rows = [" ".join("" if pair is None else pair[0] for pair in pairs) for _, pairs in expected]
    assert laid == "\n".join(rows) + " " * bool(rows)


def test_scan_lines__has_no_room_for_more_tags_than_there_is() -> None:
    text = "\n".join(f"w\tT{number}" for number in range(5))

    full, _, met = scanned(text, word=0, tag=1, room=4)

    assert met == 4
    assert full[0][1] == [("w", "T0"), ("w", "T1"), ("w", "T2"), ("w", "T3"), None]


@pytest.mark.parametrize("distinct", [3, 15])
def test_scan_lines__numbers_colliding_tags(distinct: int) -> None:
    """A table of 16 slots for 15 tags: each search passes slots of other tags."""
    tags = [f"B-T{number}" for number in range(distinct)]
    text = "\n".join(f"w\t{tag}" for tag in [*tags, *reversed(tags), *tags[::2]])

    found, _, met = scanned(text, word=0, tag=1, room=15, places=16)

    assert met == distinct
    assert [pair[1] for pair in found[0][1]] == [*tags, *reversed(tags), *tags[::2]]


@pytest.mark.parametrize("text", ["", "\n\n", " \n\t"])
def test_scan_lines__finds_nothing_in_blank_lines(text: str) -> None:
    assert scanned(text, word=0, tag=1) == ([], "", 0)


def test_is_blank__covers_the_bytes_of_blank_lines() -> None:
    assert {chr(byte) for byte in range(256) if byte != NEWLINE and is_blank(byte)} == set(
        reference.BLANKS
    )


@given(
    st.text(alphabet="a\n", max_size=40) | st.text(alphabet="a é\t\r\n\x0b\x0c\u2028", max_size=40)
)
def test_count_lines__equals_splitting(text: str) -> None:
    counts = np.zeros(3, np.int64)

    count_lines(np.frombuffer(text.encode(), np.uint8), counts)

    lines = text.split("\n")[:-1]
    filled = [bool(line.strip(reference.BLANKS)) for line in lines]
    blocks = sum(now and not before for before, now in pairwise([False, *filled]))
    assert counts.tolist() == [len(lines), sum(filled), blocks]
