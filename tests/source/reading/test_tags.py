from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.source.reading.tags import (
    TaggedMentions,
    WordSpan,
    decode,
    decode_sentences,
    decode_tags,
    is_tag,
    make_label_meanings,
    meanings,
    runs,
)
from tests.reference import conll as reference

TAGS = [
    "O",
    "B-X",
    "I-X",
    "E-X",
    "S-X",
    "L-X",
    "U-X",
    "M-X",
    "W-X",
    "B-Y",
    "I-Y",
    "E-Y",
    "B",
    "I",
    "E",
    "B_Z",
    "I_Z",
]


@pytest.mark.parametrize(
    "tag",
    [
        "O",
        "B",
        "I",
        "S",
        "B-Disease",
        "I_GENE",
        "B-a b",
        "E-X-Y",
        "U-1",
        "B--",
        "o",
        "b-X",
        "B X",
        "I:X",
    ],
)
def test_is_tag__takes_all_schemes(tag: str) -> None:
    assert is_tag(tag)


@pytest.mark.parametrize(
    "tag",
    ["", "b", "i", "OO", "O-X", "B-", "b-", "BX", "NN", "X-B", " B-X", "B-X\n", "['D003000']"],
)
def test_is_tag__refuses_others(tag: str) -> None:
    assert not is_tag(tag)


def test_decode__reads_prefixes_in_lower_case() -> None:
    assert decode(["o", "b-X", "i-X"], untyped="") == ([WordSpan(1, 3, "X")], 0)


@pytest.mark.parametrize(
    ("tags", "spans", "opened_late"),
    [
        ("", [], 0),
        ("O O", [], 0),
        ("B-X I-X O", [(0, 2, "X")], 0),
        ("B-X B-X I-X", [(0, 1, "X"), (1, 3, "X")], 0),
        ("I-X I-X O I-X", [(0, 2, "X"), (3, 4, "X")], 2),
        ("I-X B-X I-X", [(0, 1, "X"), (1, 3, "X")], 1),
        ("B-X I-Y", [(0, 1, "X"), (1, 2, "Y")], 1),
        ("B-X I-X E-X S-X", [(0, 3, "X"), (3, 4, "X")], 0),
        ("B-X L-X U-X I-X", [(0, 2, "X"), (2, 3, "X"), (3, 4, "X")], 1),
        ("E-X E-X", [(0, 1, "X"), (1, 2, "X")], 2),
        ("B-X M-X E-X", [(0, 3, "X")], 0),
        ("B I O I", [(0, 2, "Entity"), (3, 4, "Entity")], 1),
        ("B I-Entity", [(0, 2, "Entity")], 0),
        ("O B_X I_X", [(1, 3, "X")], 0),
        ("B-X I I-X I O I", [(0, 4, "X"), (5, 6, "Entity")], 1),
        ("B-X E I", [(0, 2, "X"), (2, 3, "Entity")], 1),
        ("B-X,B-Y I-X,I-Y", [(0, 2, "X"), (0, 2, "Y")], 0),
        ("B-X|B-Y I-Y O B-Y", [(0, 1, "X"), (0, 2, "Y"), (3, 4, "Y")], 0),
        ("B-X I-X,B-Y O", [(0, 2, "X"), (1, 2, "Y")], 0),
        ("B-a,b I-a,b", [(0, 2, "a,b")], 0),
        ("B-a,I I-a,I", [(0, 2, "a,I")], 0),
    ],
)
def test_decode__reads_every_scheme(tags: str, spans: list[WordSpan], opened_late: int) -> None:
    assert decode(tags.split(), untyped="Entity") == (spans, opened_late)


def test_decode__names_the_position_and_not_the_field() -> None:
    with pytest.raises(ValueError, match=r"^position 1: expected a tag such as O, B-X or I-X$"):
        decode(["O", "secret"], untyped="Entity")


@given(st.lists(st.sampled_from(TAGS), max_size=12))
def test_decode__agrees_with_the_slow_twin(tags: list[str]) -> None:
    spans, _ = decode(tags, untyped="Entity")

    assert spans == reference.mentions(tags, untyped="Entity")


def in_sentence(found: TaggedMentions, sentence: int) -> list[tuple[int, int, str]]:
    """Return the mentions of a sentence, in words counted over all sentences."""
    spans = found.spans[found.offsets[sentence] : found.offsets[sentence + 1]].tolist()
    return [(start, end, found.labels[label]) for start, end, label in spans]


TYPED = [*(tag for tag in TAGS if len(tag) != 1), "O", "B-X,B-Y", "I-X|I-Y"]


@given(
    st.one_of(
        st.lists(st.lists(st.sampled_from(names), max_size=8), max_size=4)
        for names in (TAGS, TYPED)
    ),
    st.booleans(),
)
def test_decode_tags__equals_decode_of_each_sentence(
    sentences: list[list[str]], i_opens: bool
) -> None:
    words = [tag for tags in sentences for tag in tags]
    names = [*dict.fromkeys(words)]
    numbers = np.array([names.index(tag) for tag in words], np.int64)
    offsets = np.cumsum([0, *map(len, sentences)])

    found = decode_tags(numbers, offsets, names, untyped="Entity", i_opens=i_opens)

    for number, sentence in enumerate(sentences):
        base = offsets[number]
        spans, late = decode(sentence, untyped="Entity", i_opens=i_opens)
        expected = [(base + start, base + end, label) for start, end, label in spans]
        assert sorted(in_sentence(found, number)) == sorted(expected)
        assert found.late[number] == late


@given(st.lists(st.sampled_from(TAGS), max_size=12))
def test_decode__covers_each_tagged_word_once(tags: list[str]) -> None:
    spans, opened_late = decode(tags, untyped="Entity")

    covered = [i for span in spans for i in range(span.start, span.end)]
    assert covered == [i for i, tag in enumerate(tags) if tag != "O"]
    assert opened_late <= len(spans)


def test_runs__joins_equal_neighbours() -> None:
    assert runs(["N", "P", "P", "I", "N", "O", "O"], outside="N") == [
        (1, 3, "P"),
        (3, 4, "I"),
        (5, 7, "O"),
    ]
    assert runs([], outside="N") == []
    assert runs(["P"], outside="N") == [(0, 1, "P")]


@given(st.lists(st.lists(st.sampled_from(["N", "P", "I"]), max_size=5), max_size=4))
def test_decode_sentences__equals_runs_for_labels(sentences: list[list[str]]) -> None:
    names = ["N", "P", "I"]
    numbers = np.array(
        [names.index(label) for sentence in sentences for label in sentence], np.int64
    )
    offsets = np.cumsum([0, *map(len, sentences)])

    found = decode_sentences(numbers, offsets, make_label_meanings(names, outside="N"))

    for number, sentence in enumerate(sentences):
        base = offsets[number]
        expected = [
            (base + start, base + end, label) for start, end, label in runs(sentence, outside="N")
        ]
        assert in_sentence(found, number) == expected
    assert not found.late.any()


def test_meanings__reads_invalid_tags_as_outside() -> None:
    means = meanings(("B-X", "secret", "I-Y"), untyped="Entity")

    assert means.labels == ["X", "Y"]
    assert means.table[:, 0].tolist() == [0, -1, 1, -1]
