from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.ragged import Ragged, make_offsets
from mslm_data.kernels.gather import gather, renumber

rows_of_numbers = st.lists(st.lists(st.integers(-5, 100), max_size=5), min_size=1, max_size=6)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
@given(rows=rows_of_numbers, data=st.data())
def test_gather__copies_rows_in_the_order_asked_for(
    dtype: type, rows: list[list[int]], data: st.DataObject
) -> None:
    picked = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8))
    source = Ragged.from_rows(rows, dtype)
    to = make_offsets(np.array([len(rows[p]) for p in picked], np.int64))
    out = np.empty(to[-1], dtype)

    gather(np.array(picked, np.int64), source.offsets, source.values, to, out)

    assert out.tolist() == [value for p in picked for value in rows[p]]


def test_gather__leaves_the_rest_of_out_alone() -> None:
    source = Ragged.from_rows([[1, 2], [3]], np.int32)
    out = np.full(6, 9, np.int32)

    gather(np.array([1, 0]), source.offsets.astype(np.int32), source.values, np.array([1, 3]), out)

    assert out.tolist() == [9, 3, 9, 1, 2, 9]


def test_gather__accepts_read_only_arrays() -> None:
    source = Ragged.from_rows([[1, 2]], np.int32)
    source.values.flags.writeable = False
    out = np.zeros(2, np.int32)

    gather(np.array([0]), source.offsets, source.values, np.array([0]), out)

    assert out.tolist() == [1, 2]


def test_renumber__reads_the_last_number_at_minus_one() -> None:
    stream = np.array([0, -1, 1, 2], np.int32)

    renumber(stream, np.array([5, -1, 0, -1], np.int32), stream)

    assert stream.tolist() == [5, -1, -1, 0]
