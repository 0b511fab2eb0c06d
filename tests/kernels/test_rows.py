from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.ragged import make_offsets
from mslm_data.kernels.rows import begins_word, draw_next, list_open, longest_row
from tests.kernels.fairness import is_fair
from tests.reference import rng


@given(st.lists(st.integers(0, 9), max_size=5))
def test_longest_row__is_at_least_one(lengths: list[int]) -> None:
    assert longest_row(make_offsets(np.array(lengths, np.int64))) == max([1, *lengths])


@given(st.lists(st.integers(0, 1), max_size=9))
def test_list_open__equals_its_twin(pool: list[int]) -> None:
    places = np.full(len(pool), 77, np.int32)

    size = list_open(np.array(pool, np.uint8), places)

    assert places[:size].tolist() == [t for t, is_open in enumerate(pool) if is_open]


@given(st.integers(0, 2**64 - 1), st.integers(1, 9), st.data())
def test_draw_next__equals_the_steps_of_a_whole_shuffle(
    stream: int, size: int, data: st.DataObject
) -> None:
    steps = data.draw(st.integers(0, size))
    places, expected = np.arange(10, 10 + size), list(range(10, 10 + size))

    drawn = [draw_next(places, np.uint64(stream), k, size) for k in range(steps)]

    for k in range(steps):
        j = k + rng.below(stream, k, size - k)
        expected[k], expected[j] = expected[j], expected[k]
    assert drawn == expected[:steps]
    assert places[steps:].tolist() == expected[steps:]


def test_draw_next__every_order_is_as_likely() -> None:
    orders = []
    for stream in range(3000):
        places = np.arange(3)
        orders.append(tuple(int(draw_next(places, np.uint64(stream), k, 3)) for k in range(3)))

    possible = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    assert is_fair(orders, possible)


def test_begins_word__where_the_number_changes() -> None:
    row = [-1, 0, 0, 1, -1, 1, -1]

    found = [begins_word(word, before) for before, word in zip([-1, *row], row, strict=False)]

    assert [bool(begins) for begins in found] == [False, True, False, True, False, True, False]
