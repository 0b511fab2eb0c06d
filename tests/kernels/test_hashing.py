"""Hash tables that are so small that most searches have collisions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.kernels.hashing import (
    EMPTY,
    enter_words,
    find_key,
    find_slot,
    hash_beginnings,
    hash_item,
    hash_ngrams,
    is_same,
    look_up_words,
    pair,
)

words = st.text("ab\U0001f9ec", max_size=3)


def code_points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def bounds_of(items: list[str]) -> np.ndarray:
    lengths = np.array([len(item) for item in items], np.int64)
    return np.stack([np.cumsum(lengths) - lengths, np.cumsum(lengths)], axis=1)


@given(st.lists(words, max_size=30), st.lists(words))
def test_look_up_words__finds_exactly_the_added_words(known: list[str], asked: list[str]) -> None:
    slots = np.full(32, -1, np.int64)
    hashes = np.empty(len(known), np.uint64)
    numbers = np.empty(len(known), np.int64)
    found = np.empty(len(asked), np.int64)
    chars, bounds = code_points("".join(known)), bounds_of(known)

    enter_words(chars, bounds, 0, slots, hashes, numbers)
    look_up_words(
        code_points("".join(asked)), bounds_of(asked), slots, chars, bounds, hashes, found
    )

    assert numbers.tolist() == [known.index(word) for word in known]
    assert found.tolist() == [known.index(word) if word in known else -1 for word in asked]


@given(st.lists(words, min_size=1, max_size=30), st.data())
def test_enter_words__in_two_parts_is_as_in_one(known: list[str], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(known)))
    chars, bounds = code_points("".join(known)), bounds_of(known)
    hashes = np.empty(len(known), np.uint64)
    numbers, expected = np.empty(len(known), np.int64), np.empty(len(known), np.int64)
    slots, once = np.full(32, -1, np.int64), np.full(32, -1, np.int64)

    enter_words(chars, bounds[:first], 0, slots, hashes, numbers)
    enter_words(chars, bounds, first, slots, hashes, numbers)

    enter_words(chars, bounds, 0, once, hashes, expected)
    assert numbers.tolist() == expected.tolist()
    assert slots.tolist() == once.tolist()


@pytest.mark.parametrize("with_hashes", [True, False])
def test_find_slot__distinguishes_items_with_equal_hashes(with_hashes: bool) -> None:
    """Three items with hash 3, the last slot of a table of 4."""
    items, starts, ends = np.array([7, 8, 7, 8]), np.array([0, 1, 2]), np.array([1, 2, 4])
    slots, hashed = np.full(4, -1), np.uint64(3)
    hashes = np.full(3, 3, np.uint64) if with_hashes else None

    places = []
    for n in range(3):
        place = find_slot(slots, hashed, items, starts[n], ends[n], items, starts, ends, hashes)
        slots[place] = n
        places.append(int(place))

    assert places == [3, 0, 1]
    for n in range(3):
        found = find_slot(slots, hashed, items, starts[n], ends[n], items, starts, ends, hashes)
        assert slots[found] == n


@given(st.lists(st.integers(0, 9), max_size=6), st.data())
def test_hash_item__is_fnv_1a_of_the_range_alone(items: list[int], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(items)))
    stop = data.draw(st.integers(start, len(items)))

    hashed = hash_item(np.array(items, np.int32), start, stop)

    state = 14695981039346656037
    for item in items[start:stop]:
        state = (state ^ item) * 1099511628211 % 2**64
    assert int(hashed) == state ^ state >> 32


@given(st.lists(st.integers(0, 1), max_size=5), st.lists(st.integers(0, 1), max_size=5), st.data())
def test_is_same__equals_the_comparison_of_slices(
    left: list[int], right: list[int], data: st.DataObject
) -> None:
    start, first = data.draw(st.integers(0, len(left))), data.draw(st.integers(0, len(right)))
    stop, last = data.draw(st.integers(start, len(left))), data.draw(st.integers(first, len(right)))

    same = is_same(np.array(left, int), start, stop, np.array(right, int), first, last)

    assert same == (left[start:stop] == right[first:last])


@given(st.sets(st.integers(0, 2**64 - 2), max_size=15), st.integers(0, 2**64 - 2))
def test_find_key__finds_exactly_the_added_keys(entered: set[int], asked: int) -> None:
    keys = np.full(16, EMPTY, np.uint64)

    for key in sorted(entered):
        keys[find_key(keys, np.uint64(key))] = key

    assert sorted(key for key in keys.tolist() if key != EMPTY) == sorted(entered)
    assert all(keys[find_key(keys, np.uint64(key))] == key for key in entered)
    assert (keys[find_key(keys, np.uint64(asked))] == np.uint64(asked)) == (asked in entered)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_pair__holds_both_numbers(left: int, right: int) -> None:
    assert int(pair(left, right)) == left << 32 | right


@given(st.lists(st.lists(st.integers(0, 3), max_size=8), max_size=6), st.integers(1, 4))
def test_hash_ngrams__hashes_every_run_of_n_items_of_each_row(
    rows: list[list[int]], n: int
) -> None:
    items = np.array([item for row in rows for item in row], np.uint64)
    offsets = np.cumsum([0, *map(len, rows)])
    grams = [row[first : first + n] for row in rows for first in range(len(row) - n + 1)]
    out = np.empty(len(grams), np.uint64)

    hash_ngrams(items, offsets, n, out)

    expected = [hash_item(np.array(gram, np.uint64), 0, n) for gram in grams]
    assert out.tolist() == [int(hashed) for hashed in expected]


@given(word=st.text(min_size=1, max_size=9), start=st.integers(0, 3))
def test_hash_beginnings__has_the_hash_of_each(word: str, start: int) -> None:
    items = code_points("x" * start + word)
    hashes = np.empty(len(word), np.uint64)

    hash_beginnings(items, start, len(word), hashes)

    assert hashes.tolist() == [
        hash_item(items, start, start + length) for length in range(1, len(word) + 1)
    ]
