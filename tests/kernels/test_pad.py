from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.ragged import Ragged
from mslm_data.kernels.pad import pad

some_rows = st.lists(st.lists(st.integers(0, 9), max_size=5), min_size=1, max_size=5)


@given(rows=some_rows, fill=st.integers(-100, 100), data=st.data())
def test_pad__equals_its_twin(rows: list[list[int]], fill: int, data: st.DataObject) -> None:
    picked = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=5))
    inner = data.draw(st.sets(st.integers(0, len(picked))))
    bounds = sorted({0, len(picked), *inner})
    lines = [
        [item for row in picked[first:past] for item in rows[row]]
        for first, past in itertools.pairwise(bounds)
    ]
    width = max(map(len, lines), default=0) + 1
    column = Ragged.from_rows(rows, np.int16)
    out = np.full((len(bounds) - 1, width), -7, np.int64)

    pad(np.array(picked, np.int64), np.array(bounds), column.offsets, column.values, fill, out)

    assert out.tolist() == [line + [fill] * (width - len(line)) for line in lines]
