from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.ragged import Ragged, make_offsets
from mslm_data.kernels.rank import give_tokens, rank_rows, smooth_rows
from tests.generate import random_examples

ROWS = st.lists(
    st.lists(st.one_of(st.sampled_from([0.0, -1.0, 2.0]), st.floats(-9, 9)), max_size=12),
    max_size=5,
)


def slow_ranks(row):
    order = sorted(range(len(row)), key=lambda e: (row[e], -e))
    return [1.0 + order.index(e) for e in range(len(row))]


@given(ROWS)
def test_rank_rows__equals_twin(rows):
    values = Ragged.from_rows(rows, np.float64)
    out = np.empty(len(values.values))
    rank_rows(values.offsets, values.values, out)

    assert Ragged(out, values.offsets).tolist() == [slow_ranks(row) for row in rows]


def test_rank_rows__of_equal_values_the_first_is_higher():
    out = np.empty(5)
    rank_rows(np.array([0, 3, 5]), np.array([0.5, 0.7, 0.5, -np.inf, -1.0]), out)

    assert out.tolist() == [2, 3, 1, 1, 2]


@given(ROWS, st.data(), st.sampled_from([0.0, 0.3, 0.7, 1.0]))
def test_smooth_rows__equals_twin(rows, data, alpha):
    values = Ragged.from_rows(rows, np.float64)
    counted = [[data.draw(st.booleans()) for _ in row] for row in rows]
    flat, out = Ragged.from_rows(counted, np.bool_).values, values.values.copy()
    smooth_rows(values.offsets, out, flat, alpha, out)

    for i, (row, open_) in enumerate(zip(rows, counted, strict=True)):
        own = [max(value, 0.0) for value, known in zip(row, open_, strict=True) if known]
        total = 0.0
        for value in own:
            total += value
        expected = [
            alpha * max(value, 0.0) + (1 - alpha) * (total / len(own)) if known else 0.0
            for value, known in zip(row, open_, strict=True)
        ]
        assert out[values.offsets[i] : values.offsets[i + 1]].tolist() == expected


@given(random_examples())
def test_give_tokens__equals_twin(examples):
    words = examples.word_ids
    numbers = [sorted({word for word in row if word >= 0}) for row in words.tolist()]
    values = np.arange(1.0, 1 + sum(len(row) for row in numbers))
    word_offsets = make_offsets(np.array([len(row) for row in numbers], np.int64))
    out = np.empty(len(words.values))
    give_tokens(words.offsets, words.values, word_offsets, values, out)

    for i, row in enumerate(words.tolist()):
        own = dict(
            zip(numbers[i], values[word_offsets[i] : word_offsets[i + 1]].tolist(), strict=True)
        )
        assert out[words.offsets[i] : words.offsets[i + 1]].tolist() == [
            own.get(word, 0.0) for word in row
        ]
