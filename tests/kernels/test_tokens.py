from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.kernels.tokens import (
    count_numbered,
    count_words,
    find_open_units,
    open_pool,
    paint_units,
    reduce_units,
)
from tests.generate import IDS, random_examples, rows_of


@given(random_examples(), st.data())
def test_open_pool__equals_twin(examples, data):
    size = len(examples.input_ids.values)
    kinds = np.array(data.draw(st.lists(st.integers(0, 2), min_size=size, max_size=size)), np.uint8)
    pool, sizes = np.full(size, 9, np.uint8), np.empty(len(examples), np.int64)
    ids, words = examples.input_ids, examples.word_ids
    open_pool(ids.offsets, words.values, ids.values, IDS.unk, kinds, pool, sizes)

    triples = zip(words.values.tolist(), ids.values.tolist(), kinds.tolist(), strict=True)
    assert pool.tolist() == [
        int(word >= 0 and id_ != IDS.unk and kind == 0) for word, id_, kind in triples
    ]
    assert sizes.tolist() == [sum(word >= 0 for word in row) for row in words.tolist()]


@given(random_examples())
def test_counts__equal_twin(examples):
    words = examples.word_ids
    counts, distinct = np.empty(len(examples), np.int64), np.empty(len(examples), np.int64)
    count_numbered(words.offsets, words.values, counts)
    count_words(words.offsets, words.values, distinct)

    assert counts.tolist() == [sum(word >= 0 for word in row) for row in words.tolist()]
    assert distinct.tolist() == [len(set(row) - {-1}) for row in words.tolist()]


@given(random_examples(), st.data())
def test_paint_units__equals_twin(examples, data):
    starts, ends, offsets = examples.span_starts, examples.span_ends, examples.input_ids.offsets
    taken = [data.draw(st.integers(0, int(length))) for length in ends.values - starts.values]
    out = np.zeros(len(examples.input_ids.values), np.uint8)
    paint_units(offsets, starts.offsets, starts.values, np.array(taken, np.int64), 2, out)

    picks = iter(taken)
    for i, row in enumerate(rows_of(examples)):
        painted = {t for start, _, _ in row.mentions for t in range(start, start + next(picks))}
        assert out[offsets[i] : offsets[i + 1]].tolist() == [
            2 * (t in painted) for t in range(len(row.ids))
        ]


@given(random_examples(), st.data(), st.sampled_from(["max", "mean", "sum", "first"]))
def test_reduce_units__equals_twin(examples, data, how):
    starts, ends, offsets = examples.span_starts, examples.span_ends, examples.input_ids.offsets
    size = len(examples.input_ids.values)
    values = np.array(
        data.draw(st.lists(st.integers(-9, 9), min_size=size, max_size=size)), np.float64
    )
    out = np.empty(len(starts.values), np.float64)
    number = ["max", "mean", "sum", "first"].index(how)
    reduce_units(offsets, starts.offsets, starts.values, ends.values, values, number, out)

    reduce = {"max": max, "mean": lambda x: sum(x) / len(x), "sum": sum, "first": lambda x: x[0]}[
        how
    ]
    spans = [
        (offsets[i] + start, offsets[i] + end)
        for i, row in enumerate(rows_of(examples))
        for start, end, _ in row.mentions
    ]
    assert out.tolist() == [reduce(values[start:end].tolist()) for start, end in spans]


@given(random_examples(), st.data())
def test_find_open_units__equals_twin(examples, data):
    starts, ends, offsets = examples.span_starts, examples.span_ends, examples.input_ids.offsets
    size = len(examples.input_ids.values)
    pool = np.array(data.draw(st.lists(st.integers(0, 1), min_size=size, max_size=size)), np.uint8)
    out = np.full(len(starts.values), 9, np.uint8)
    find_open_units(offsets, starts.offsets, starts.values, ends.values, pool, out)

    expected = [
        int(all(pool[offsets[i] + start : offsets[i] + end]))
        for i, row in enumerate(rows_of(examples))
        for start, end, _ in row.mentions
    ]
    assert out.tolist() == expected
