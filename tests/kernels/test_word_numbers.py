"""Tests of `word_numbers.py` and `ngrams.py`. tests/lexicon compares their results with slow twins."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.ragged import Ragged
from mslm_data.kernels import ngrams, word_numbers
from mslm_data.kernels.hashing import EMPTY
from tests.generate import random_examples
from tests.reference import ngrams as reference

streams = st.lists(st.integers(-1, 4), max_size=30).map(
    lambda items: np.array([*items, -1], np.int32)
)


@given(random_examples())
def test_find_words__finds_runs_of_equal_numbers(examples) -> None:
    ids = examples.input_ids
    bounds, sizes = np.zeros((len(ids.values), 2), np.int64), np.zeros(len(ids), np.int64)

    word_numbers.find_words(ids.offsets, examples.word_ids.values, bounds, sizes)

    rows = reference.rows_of(examples)
    found = [tuple(ids.values[start:stop]) for start, stop in bounds[: sizes.sum()]]
    assert sizes.tolist() == [len(row) for row in rows]
    assert found == [word for row in rows for word in row]


def test_find_words__a_number_again_after_a_special_token_is_another_word() -> None:
    bounds, sizes = np.zeros((5, 2), np.int64), np.zeros(2, np.int64)

    word_numbers.find_words(
        np.array([0, 3, 5]), np.array([0, -1, 0, 0, 0], np.int32), bounds, sizes
    )

    assert sizes.tolist() == [2, 1]
    assert bounds[:3].tolist() == [[0, 1], [2, 3], [3, 5]]


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3), max_size=20), st.integers(0, 4)
)
def test_number_words__equal_words_get_equal_numbers_in_a_crowded_table(words, vocabulary) -> None:
    rows = Ragged.from_rows(words, np.int32)
    bounds = np.stack([rows.offsets[:-1], rows.offsets[1:]], axis=1)
    alone, table = np.full(vocabulary, -1, np.int32), np.full(32, -1, np.int32)
    offsets, values = np.zeros(len(words) + 1, np.int64), np.zeros(len(rows.values), np.int32)
    times, size, out = (
        np.zeros(len(words), np.int64),
        np.zeros(1, np.int64),
        np.empty(len(words), np.int32),
    )
    expected = Counter(map(tuple, words))
    rows.values.flags.writeable = False

    word_numbers.number_words(rows.values, bounds, alone, table, offsets, values, times, size, out)

    first = list(expected)
    assert out.tolist() == [first.index(tuple(word)) for word in words]
    assert times[: len(first)].tolist() == list(expected.values())
    assert alone.tolist() == [
        first.index((token,)) if (token,) in first else -1 for token in range(vocabulary)
    ]
    again = np.full(32, -1, np.int32)
    word_numbers.place_words(offsets[: size[0] + 1], values, alone, again)
    assert again.tolist() == table.tolist()


def pairs_of(stream) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in pairwise(stream) if a >= 0 and b >= 0]


def live(stream):
    places = np.empty(len(stream), np.int32)
    return places[: ngrams.find_live(stream, places)]


@given(streams)
def test_find_live__is_where_both_are(stream) -> None:
    assert live(stream).tolist() == [
        p for p, (a, b) in enumerate(pairwise(stream)) if a >= 0 and b >= 0
    ]


@given(streams, st.integers(1, 4), st.integers(0, 6))
def test_keep_frequent__keeps_every_frequent_pair(stream, least, bits) -> None:
    sieve, places = np.zeros(1 << bits, np.uint8), live(stream)
    ngrams.fill_sieve(stream, places, least, sieve)
    kept = places.copy()

    kept = kept[: ngrams.keep_frequent(stream, least, sieve, kept)].tolist()

    frequent = {pair for pair, count in Counter(pairs_of(stream)).items() if count >= least}
    assert (
        {p for p in places.tolist() if (stream[p], stream[p + 1]) in frequent}
        <= set(kept)
        <= set(places.tolist())
    )
    assert kept == sorted(kept)
    assert sieve.max() <= least


@pytest.mark.parametrize(("least", "kept"), [(3, [0, 1, 2]), (4, [])])
def test_keep_frequent__drops_rare_pairs(least, kept) -> None:
    stream, sieve = np.zeros(4, np.int32), np.zeros(4, np.uint8)
    places = live(stream)
    ngrams.fill_sieve(stream, places, least, sieve)

    assert places[: ngrams.keep_frequent(stream, least, sieve, places)].tolist() == kept


@given(streams)
def test_count_pairs__counts_and_numbers_in_order(stream) -> None:
    pairs, places = pairs_of(stream), live(stream)
    keys, numbers, tally = (
        np.full(64, EMPTY, np.uint64),
        np.full(64, -1, np.int32),
        np.zeros(32, np.int64),
    )
    state, out = np.zeros(2, np.int64), np.full(len(stream) - 1, -1, np.int32)
    expected = Counter(pairs)
    stream.flags.writeable = False

    ngrams.count_pairs(stream, places, keys, numbers, tally, state, out)

    assert state.tolist() == [len(places), len(expected)]
    assert tally[: len(expected)].tolist() == list(expected.values())
    assert [list(expected)[number] for number in out if number >= 0] == pairs
    found, listed = np.full_like(out, -1), np.empty(len(expected), np.uint64)
    ngrams.find_pairs(stream, places, keys, numbers, found)
    assert found.tolist() == out.tolist()
    ngrams.list_keys(keys, numbers, listed)
    assert listed.tolist() == [left << 32 | right for left, right in expected]


def test_count_pairs__stops_at_a_half_full_table_and_resumes() -> None:
    stream = np.arange(10, dtype=np.int32)
    places = live(stream)
    state, out = np.zeros(2, np.int64), np.full(9, -5, np.int32)

    def count(size):
        table = np.full(size, EMPTY, np.uint64), np.full(size, -1, np.int32)
        ngrams.count_pairs(stream, places, *table, np.zeros(size // 2, np.int64), state, out)

    count(8)

    assert state.tolist() == [4, 4]
    assert out.tolist() == [0, 1, 2, 3, -5, -5, -5, -5, -5]
    state[1] = 0
    count(16)
    assert state.tolist() == [9, 5]
    assert out.tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 4]


def test_find_pairs__unknown_pairs_are_minus_one() -> None:
    keys, numbers = np.full(4, EMPTY, np.uint64), np.full(4, -1, np.int32)
    ngrams.place_pairs(np.array([1 << 32 | 2], np.uint64), keys, numbers)
    stream, out = np.array([1, 2, 1, 2, 3], np.int32), np.full(4, -5, np.int32)

    ngrams.find_pairs(stream, live(stream), keys, numbers, out)

    assert out.tolist() == [0, -1, 0, -1]


def test_lower_needs__and_tokens_by_them() -> None:
    needs = np.full(6, 9)
    ngrams.lower_needs(np.array([0, 1, -1, -1], np.int32), 3, np.array([4, 2]), needs)
    counts = np.zeros(10, np.int64)

    ngrams.add_needs(np.array([0, 1, 0, -1], np.int32), np.array([1, 5]), needs, counts)

    assert needs.tolist() == [4, 2, 2, 2, 9, 9]
    assert counts.tolist() == [0, 0, 6, 0, 1, 0, 0, 0, 0, 0]
