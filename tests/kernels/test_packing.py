from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.kernels.packing import WORD, best_fit, cut_to_budget
from tests.reference import packing as reference

capacities = st.sampled_from([1, 5, WORD - 1, WORD, WORD + 1, 2 * WORD, 300])


@given(capacities, st.data())
def test_best_fit__equals_its_twin(capacity: int, data: st.DataObject) -> None:
    lengths = data.draw(st.lists(st.integers(1, capacity), max_size=40))
    order = data.draw(st.permutations(range(len(lengths))))
    tops = np.full(capacity + 1, -1, np.int64)
    bits = np.zeros(capacity // WORD + 1, np.uint64)
    below = np.empty(len(lengths), np.int64)
    packs = np.empty(len(lengths), np.int64)

    count = best_fit(
        np.array(lengths, np.int64),
        np.array(order, np.int64),
        capacity,
        tops,
        below,
        bits,
        packs,
    )

    found = [[row for row in order if packs[row] == pack] for pack in range(count)]
    assert found == reference.best_fit(lengths, order, capacity)


@given(st.lists(st.integers(1, 20), max_size=40), st.integers(20, 90), st.sampled_from([1, 4, 10]))
def test_cut_to_budget__equals_its_twin(lengths: list[int], budget: int, multiple_of: int) -> None:
    firsts = np.empty(len(lengths), np.int64)

    count = cut_to_budget(np.array(lengths, np.int64), budget, multiple_of, firsts)

    batches = reference.cut_to_budget(lengths, budget, multiple_of)
    assert firsts[:count].tolist() == [batch[0] for batch in batches]
