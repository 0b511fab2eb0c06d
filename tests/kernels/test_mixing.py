from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.bio import paint
from mslm_data.data.ragged import Ragged, make_offsets
from mslm_data.kernels.mixing import name_repeats, renumber_labels
from tests.reference import mix as reference

LABELS = 4

mentions = st.lists(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, LABELS - 1)), max_size=4), max_size=5
)
"""Mentions of each row: so many tokens, and a label; a token lies between two."""


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 9)), max_size=9))
def test_name_repeats__equals_its_twin(rows: list[tuple[int, int]]) -> None:
    keys = np.array([key for key, _ in rows], np.uint64)

    name_repeats(np.array([number for _, number in rows], np.uint32), keys)

    assert keys.tolist() == [reference.key(key, number) for key, number in rows]


@given(mentions, st.permutations(range(LABELS)), st.data())
def test_renumber_labels__is_as_if_painted_with_other_labels(
    rows: list[list[tuple[int, int]]], numbers: list[int], data: st.DataObject
) -> None:
    changed = data.draw(st.lists(st.sampled_from(range(len(rows))), unique=True)) if rows else []
    sizes = [[size for size, _ in row] for row in rows]
    ends = [(np.cumsum(np.array(row, np.int64) + 1) - 1).tolist() for row in sizes]
    starts = [[e - s for e, s in zip(*of, strict=True)] for of in zip(ends, sizes, strict=True)]
    offsets = make_offsets(np.array([sum(row) + len(row) for row in sizes], np.int64))
    spans = Ragged.from_rows(starts, np.int32), Ragged.from_rows(ends, np.int32)
    labels = Ragged.from_rows([[label for _, label in row] for row in rows], np.int16)
    others = Ragged.from_rows(
        [
            [numbers[label] if number in changed else label for _, label in row]
            for number, row in enumerate(rows)
        ],
        np.int16,
    )
    bio = paint(*spans, labels, offsets)

    renumber_labels(
        np.array(changed, np.int64),
        np.array(numbers, np.int16),
        labels.offsets,
        spans[0].values,
        spans[1].values,
        labels.values,
        offsets,
        bio,
    )

    assert labels.tolist() == others.tolist()
    assert bio.tolist() == paint(*spans, others, offsets).tolist()
