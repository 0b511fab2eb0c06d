from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.ragged import Ragged
from mslm_data.kernels import word_numbers
from tests.generate import random_examples
from tests.reference import ngrams as reference


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
