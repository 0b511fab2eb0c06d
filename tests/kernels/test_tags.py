from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import make_offsets
from mslm_data.kernels.tags import find_mentions, paint_bio
from tests.generate import random_examples, rows_of
from tests.reference import conll as reference

MEANINGS = {
    "O": (-1, 0, 0, 0),
    **{f"{prefix}-X": (0, prefix in "IE", prefix in "ES", prefix in "IE") for prefix in "BIES"},
    **{f"{prefix}-Y": (1, prefix in "IE", prefix in "ES", prefix in "IE") for prefix in "BIES"},
}


@given(random_examples(labels=3))
def test_paint_bio__equals_its_twin(examples: Examples) -> None:
    bio = np.zeros(len(examples.input_ids.values), np.int16)

    paint_bio(
        examples.span_starts.offsets,
        examples.span_starts.values,
        examples.span_ends.values,
        examples.span_labels.values,
        examples.input_ids.offsets,
        bio,
    )

    assert bio.tolist() == [tag for row in rows_of(examples) for tag in row.bio]


def test_paint_bio__holds_the_last_of_all_labels() -> None:
    bio = np.zeros(3, np.int16)

    paint_bio(
        np.array([0, 1]),
        np.array([1]),
        np.array([3]),
        np.array([16_382], np.int16),
        np.array([0, 3]),
        bio,
    )

    assert bio.tolist() == [0, 32_765, 32_766]


@given(st.lists(st.lists(st.sampled_from(sorted(MEANINGS)), max_size=6), max_size=4))
def test_find_mentions__equals_its_twin(sentences: list[list[str]]) -> None:
    names = sorted(MEANINGS)
    tags = np.array([names.index(tag) for sentence in sentences for tag in sentence], np.int64)
    offsets = make_offsets(np.array([len(sentence) for sentence in sentences], np.int64))
    spans, counts = (
        np.full((len(tags), 3), -7, np.int64),
        np.full((2, len(sentences)), -7, np.int64),
    )

    find_mentions(
        offsets, tags, np.array([MEANINGS[name] for name in names], np.int64), spans, counts
    )

    expected = [reference.mentions(sentence, untyped="") for sentence in sentences]
    assert counts[0].tolist() == [len(mentions) for mentions in expected]
    assert spans[: counts[0].sum()].tolist() == [
        [base + start, base + stop, "XY".index(label)]
        for base, mentions in zip(offsets.tolist(), expected, strict=False)
        for start, stop, label in mentions
    ]
    late = [
        sum(sentence[start][0] in "IE" for start, _, _ in mentions)
        for sentence, mentions in zip(sentences, expected, strict=True)
    ]
    assert counts[1].tolist() == late


def test_find_mentions__takes_a_word_without_a_tag_for_the_last_meaning() -> None:
    spans, counts = np.empty((3, 3), np.int64), np.empty((2, 1), np.int64)

    find_mentions(
        np.array([0, 3]),
        np.array([0, -1, 0]),
        np.array([(0, 1, 0, 0), (-1, 0, 0, 0)]),
        spans,
        counts,
    )

    assert spans[:2].tolist() == [[0, 1, 0], [2, 3, 0]]
    assert counts.tolist() == [[2], [0]]
