from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.ragged import Ragged
from mslm_data.kernels.hashing import EMPTY
from mslm_data.kernels.token_trie import add_entries, exact_values, match_entries
from tests.generate import Row
from tests.reference import grams as twins

TOKENS = st.integers(0, 3)
ENTRIES = st.lists(st.lists(TOKENS, min_size=1, max_size=4).map(tuple), max_size=12)


@st.composite
def rows(draw):
    """Generate rows of 4 distinct ids, so that matches are frequent, and special tokens."""
    made = []
    for _ in range(draw(st.integers(0, 4))):
        sizes = draw(st.lists(st.integers(-1, 3).filter(bool), max_size=8))
        words = [
            number if size > 0 else -1
            for number, size in enumerate(sizes)
            for _ in range(abs(size))
        ]
        ids = draw(st.lists(TOKENS, min_size=len(words), max_size=len(words)))
        made.append(Row(key=0, ids=ids, word_ids=words))
    return made


def trie_of(entries):
    """Return the arrays of a trie: edges and ending."""
    tokens = Ragged.from_rows(entries, np.int32)
    places = 1 << (2 * len(tokens.values) + 1).bit_length()
    edges, ending = np.full(places, EMPTY, np.uint64), np.full(5 + places, -1, np.int32)
    add_entries(tokens.offsets, tokens.values, edges, ending)
    return edges, ending


def match(made, trie, capacity):
    ids, words = (
        Ragged.from_rows([getattr(row, name) for row in made], np.int32)
        for name in ("ids", "word_ids")
    )
    out, of_rows = np.full((capacity, 3), -7, np.int32), np.empty(len(made) + 1, np.int64)
    match_entries(ids.offsets, ids.values, words.values, *trie, out, of_rows)
    return out, of_rows


@given(rows(), ENTRIES)
def test_match_entries__equals_twin(made, entries):
    out, of_rows = match(made, trie_of(entries), 1000)

    for i, row in enumerate(made):
        assert [
            tuple(found) for found in out[of_rows[i] : of_rows[i + 1]].tolist()
        ] == twins.matches(row, entries)


@given(rows(), ENTRIES, st.integers(0, 6))
def test_match_entries__writes_no_more_than_there_is_room_for_and_counts_all(
    made, entries, capacity
):
    whole, of_all = match(made, trie_of(entries), 1000)
    out, of_rows = match(made, trie_of(entries), capacity)

    assert of_rows.tolist() == of_all.tolist()
    assert out[: of_rows[-1]].tolist() == whole[: min(capacity, of_rows[-1])].tolist()


def look_up(units, entries):
    """Return the entry of each unit, -1 for none. Each unit is a row."""
    edges, ending = trie_of(entries)
    ids, out = Ragged.from_rows(units, np.int32), np.empty(len(units), np.int64)
    starts, ends = np.zeros(len(units), np.int32), ids.lengths.astype(np.int32)
    values = np.append(ending, np.int32(-1))
    exact_values(
        ids.offsets, ids.values, np.arange(len(units) + 1), starts, ends, edges, values, out
    )
    return out.tolist()


@given(ENTRIES, st.lists(st.lists(TOKENS, min_size=1, max_size=5), max_size=6))
def test_exact_values__equals_twin(entries, units):
    numbers = look_up(units, entries)

    assert numbers == [
        entries.index(tuple(unit)) if tuple(unit) in entries else -1 for unit in units
    ]


@pytest.mark.parametrize("token", [4, 2**31 - 1, -1, -(2**31)])
def test_exact_values__invalid_token_ids(token):
    """Damaged shards may have any ids."""
    assert look_up([[token], [1, token], [token, 1], [1, 2]], [(1,), (1, 2), (3,)]) == [
        -1,
        -1,
        -1,
        1,
    ]


@pytest.mark.parametrize("token", [4, 2**31 - 1, -1, -(2**31)])
def test_match_entries__invalid_token_ids(token):
    """Damaged shards may have any ids."""
    out, of_rows = match(
        [Row(key=0, ids=[token, 1, token], word_ids=[0, 1, 2])], trie_of([(1,), (1, 2)]), 9
    )

    assert out[: of_rows[-1]].tolist() == [[1, 2, 0]]
