"""Tests of helpers. Tests of strategies compare the kernels with `tests/reference/grams.py`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.ragged import make_offsets
from mslm_data.kernels.grams import sort_matches, take_in_order


@given(st.lists(st.integers(0, 2**31 - 1), max_size=80))
def test_sort_matches__by_entry_then_from_the_left(entries):
    keys = np.empty(80, np.int64)
    sort_matches(np.array(entries, np.int32), keys)

    expected = sorted((entry, match) for match, entry in enumerate(entries))
    assert [(key >> 32, key & (2**32 - 1)) for key in keys[: len(entries)].tolist()] == expected


@pytest.mark.parametrize(
    ("quota", "taken"), [(0, [0, 0, 0]), (1, [0, 0, 1]), (3, [1, 0, 2]), (9, [2, 0, 2])]
)
def test_take_in_order__each_row_has_its_own_budget_and_pool(quota, taken):
    """Both rows hold entry 1 at [0, 2), 9 at [1, 3) and 0 at [3, 5); the first has no budget."""
    starts, ends, entries = (
        np.array(column * 2, np.int32) for column in ([0, 1, 3], [2, 3, 5], [1, 9, 0])
    )
    pool, left, out = np.ones(10, np.uint8), np.array([0, quota], np.int64), np.zeros(6, np.int64)
    take_in_order(
        make_offsets(np.array([5, 5])),
        make_offsets(np.array([3, 3])),
        starts,
        ends,
        entries,
        pool,
        left,
        out,
    )

    assert out.tolist() == [0, 0, 0, *taken]
    assert left.tolist() == [0, quota - sum(taken)]
    assert pool[:5].all()
    assert (pool[5:] == 0).sum() == sum(taken)
