"""BIO tags and mentions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data import bio
from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged
from mslm_data.torch.model.ranges import decode_spans
from tests.generate import random_examples
from tests.reference.mentions import mentions_of

some_tags = st.lists(
    st.lists(st.integers(0, 6) | st.sampled_from([-100, -1]), max_size=8), max_size=4
)


def test_tag_names__have_the_order_of_tags() -> None:
    labels = ["Gene", "Drug"]

    names = bio.tag_names(labels)

    assert names == ["O", "B-Gene", "I-Gene", "B-Drug", "I-Drug"]
    assert len(names) == bio.count_tags(len(labels))
    assert names[bio.OUTSIDE] == "O"
    for number, label in enumerate(labels):
        assert names[bio.begin(number)] == f"B-{label}"
        assert names[bio.inside(number)] == f"I-{label}"


@pytest.mark.parametrize("of", [np.array, torch.tensor], ids=["numpy", "torch"])
def test_tags__mean_the_same_in_numpy_and_torch(of: type) -> None:
    tags = of([0, 1, 2, 3, 4, 2 * 16_382 + 2])

    assert bio.tag_label(tags).tolist() == [-1, 0, 0, 1, 1, 16_382]
    assert bio.begins(tags).tolist() == [False, True, False, True, False, False]
    assert bio.continues(tags).tolist() == [False, False, True, False, True, True]
    assert bio.continued(tags).tolist() == [0, 2, 2, 4, 4, 2 * 16_382 + 2]


def test_max_labels__fill_an_int16() -> None:
    most = np.iinfo(np.int16).max

    assert bio.count_tags(bio.MAX_LABELS) - 1 <= most < bio.count_tags(bio.MAX_LABELS + 1) - 1


@given(random_examples(labels=3))
def test_paint__inverts_mentions(examples: Examples) -> None:
    spans = examples.span_starts, examples.span_ends, examples.span_labels
    offsets = examples.input_ids.offsets

    tags = bio.paint(*spans, offsets)
    found = bio.mentions(Ragged(tags, offsets))

    assert tags.dtype == np.int16
    assert [column.tolist() for column in found] == [column.tolist() for column in spans]
    assert [column.values.dtype for column in found] == [np.int32, np.int32, np.int16]


@given(some_tags)
def test_mentions__equals_its_twin(rows: list[list[int]]) -> None:
    found = bio.mentions(Ragged.from_rows(rows, np.int64))

    triples = [
        set(zip(*(column.tolist()[row] for column in found), strict=True))
        for row in range(len(rows))
    ]
    assert triples == [mentions_of([max(tag, 0) for tag in row]) for row in rows]


@given(some_tags.filter(len))
def test_mentions__equals_decode_spans(rows: list[list[int]]) -> None:
    longest = max(map(len, rows))
    padded = torch.tensor([row + [-100] * (longest - len(row)) for row in rows], dtype=torch.int64)

    decoded = decode_spans(padded)

    for ours, theirs in zip(bio.mentions(Ragged.from_rows(rows, np.int64)), decoded, strict=True):
        assert ours.tolist() == [[value for value in row if value >= 0] for row in theirs.tolist()]


def test_mentions__of_the_last_label() -> None:
    last = bio.MAX_LABELS - 1

    tags = Ragged.from_rows([[bio.begin(last), bio.inside(last)]], np.int16)

    assert [column.tolist() for column in bio.mentions(tags)] == [[[0]], [[2]], [[last]]]
