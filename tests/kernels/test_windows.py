from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.ragged import Ragged
from mslm_data.kernels.windows import cut_windows, join_windows

costs_of_rows = st.lists(st.lists(st.integers(0, 3), max_size=12), max_size=5)


def cut(costs: list[list[int]], limit: int) -> list[list[int]]:
    """Return the first token of each window, within its sequence."""
    rows = Ragged.from_rows(costs, np.uint8)
    cuts, counts = np.empty(len(rows.values), np.int64), np.empty(len(rows), np.int64)
    cut_windows(rows.offsets, rows.values.astype(np.uint8), limit, cuts, counts)
    ends = np.cumsum(counts)
    return [
        (cuts[end - count : end] - rows.offsets[i]).tolist()
        for i, (end, count) in enumerate(zip(ends, counts, strict=True))
    ]


def slow_cut(cost: list[int], limit: int, begin: int = 0) -> list[int]:
    if begin == len(cost):
        return []
    if len(cost) - begin <= limit:
        return [begin]
    reach = range(begin + 1, begin + limit + 1)
    return [begin, *slow_cut(cost, limit, max(reach, key=lambda t: (-cost[t], t)))]


@given(costs_of_rows, st.integers(1, 6))
def test_cut_windows__equals_its_twin(costs: list[list[int]], limit: int) -> None:
    assert cut(costs, limit) == [slow_cut(cost, limit) for cost in costs]


@given(costs_of_rows, st.integers(1, 6))
def test_cut_windows__covers_each_sequence_within_the_limit(
    costs: list[list[int]], limit: int
) -> None:
    for cost, cuts in zip(costs, cut(costs, limit), strict=True):
        lengths = np.diff([*cuts, len(cost)]) if cost else np.empty(0, int)
        assert lengths.sum() == len(cost)
        assert all(0 < length <= limit for length in lengths)


def test_cut_windows__prefers_cheap_to_late_and_late_to_early() -> None:
    assert cut([[0, 0, 0, 1, 2, 2]], 4) == [[0, 2]]
    assert cut([[0, 2, 1, 3, 2, 2]], 4) == [[0, 2]]
    assert cut([[3, 3, 3, 3, 3]], 2) == [[0, 2, 4]]


windows_of_documents = st.lists(
    st.tuples(st.integers(1, 6), st.integers(0, 2), st.booleans()), max_size=12
)


@given(windows_of_documents, st.integers(6, 14))
def test_join_windows__equals_its_twin(windows: list[tuple[int, int, bool]], limit: int) -> None:
    lengths, documents, whole = np.array(windows, np.int64).reshape(-1, 3).T
    firsts = np.empty(len(windows), np.int64)

    rows = join_windows(lengths, documents, whole.astype(np.bool_), limit, firsts)

    expected: list[list[int]] = []
    for w, (length, document, is_whole) in enumerate(windows):
        last = expected[-1] if expected else []
        alike = all(windows[v][1] == document and windows[v][2] for v in last)
        fits = sum(windows[v][0] for v in last) + length <= limit
        if last and is_whole and alike and fits:
            last.append(w)
        else:
            expected.append([w])
    assert firsts[:rows].tolist() == [row[0] for row in expected]
