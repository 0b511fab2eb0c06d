from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.ragged import Ragged
from mslm_data.kernels.user_rows import continue_words, find_misplaced


@given(st.lists(st.lists(st.integers(-1, 3), max_size=8), max_size=4))
def test_continue_words__equals_its_twin(words: list[list[int]]) -> None:
    rows = Ragged.from_rows(words, np.int32)
    changed = rows.values.copy()

    continue_words(rows.offsets, changed)

    assert Ragged(changed, rows.offsets).tolist() == [counted_on(row) for row in words]


def counted_on(row: list[int]) -> list[int]:
    """Shift each nondecreasing part of the numbers by the words of the parts before it."""
    out, base, real = [], 0, [t for t, word in enumerate(row) if word >= 0]
    for before, t in zip([None, *real], real, strict=False):
        if before is not None:
            fell = row[t] < row[before]
            again = row[t] == row[before] and t > before + 1
            base += (row[before] + 1) * (fell or again)
        out.append(row[t] + base)
    counted = iter(out)
    return [next(counted) if word >= 0 else word for word in row]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 6),
            st.lists(st.tuples(st.integers(-1, 6), st.integers(-1, 7)), max_size=3),
        ),
        max_size=4,
    )
)
def test_find_misplaced__equals_its_twin(rows: list[tuple[int, list[tuple[int, int]]]]) -> None:
    starts = Ragged.from_rows([[start for start, _ in spans] for _, spans in rows], np.int32)
    ends = Ragged.from_rows([[end for _, end in spans] for _, spans in rows], np.int32)

    found = find_misplaced(
        starts.offsets,
        starts.values,
        ends.values,
        np.array([size for size, _ in rows], np.int64),
    )

    wrong = [i for i, (size, spans) in enumerate(rows) if not fits(size, spans)]
    assert found == (wrong[0] if wrong else -1)


def fits(size: int, spans: list[tuple[int, int]]) -> bool:
    places = [place for span in spans for place in range(*span)]
    within = all(0 <= start < end <= size for start, end in spans)
    return within and places == sorted(set(places))
