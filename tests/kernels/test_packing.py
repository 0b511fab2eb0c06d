from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.kernels.packing import cut_to_budget
from tests.reference import packing as reference


@given(
    st.lists(st.integers(1, 20), max_size=40),
    st.integers(20, 90),
    st.sampled_from([1, 4, 10]),
    st.booleans(),
)
def test_cut_to_budget__equals_its_twin(
    lengths: list[int], budget: int, multiple_of: int, is_flat: bool
) -> None:
    firsts = np.empty(len(lengths), np.int64)

    count = cut_to_budget(np.array(lengths, np.uint32), budget, multiple_of, is_flat, firsts)

    batches = reference.cut_to_budget(lengths, budget, multiple_of, is_flat)
    assert firsts[:count].tolist() == [batch[0] for batch in batches]
