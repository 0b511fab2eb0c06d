"""Fused kernels equal their slow twins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.ragged import make_offsets
from mslm_data.kernels.mask_units import mask_tokens, mask_units, mask_weighted
from tests.generate import IDS, random_examples, rows_of
from tests.kernels.fairness import is_fair, subsets_possible
from tests.reference import fill as weights_twin
from tests.reference import rng

TABLES = st.lists(st.integers(0, 40), min_size=40, max_size=40)


def streams_for(data, rows):
    return np.array(
        data.draw(st.lists(st.integers(0, 2**64 - 1), min_size=rows, max_size=rows)), np.uint64
    )


def scratch(lengths):
    longest = max([0, *lengths])
    return np.full(longest, 9, np.uint8), np.full(longest, 9, np.int32)


def numbers(data, size, least, most, dtype):
    return np.array(
        data.draw(st.lists(st.integers(least, most), min_size=size, max_size=size)), dtype
    )


@given(random_examples(), st.data(), TABLES, st.sampled_from([-1, IDS.unk]))
def test_mask_tokens__equals_twin(examples, data, table, unk):
    ids, words = examples.input_ids, examples.word_ids
    before = numbers(data, len(ids.values), 0, 2, np.uint8)
    kinds, unspent, streams = (
        before.copy(),
        np.full(len(examples), 5),
        streams_for(data, len(examples)),
    )
    mask_tokens(
        ids.offsets,
        words.values,
        ids.values,
        unk,
        np.array(table),
        streams,
        3,
        *scratch(ids.lengths),
        kinds,
        unspent,
    )

    for i, row in enumerate(rows_of(examples)):
        own = before[ids.offsets[i] : ids.offsets[i + 1]].tolist()
        real = [t for t, word in enumerate(row.word_ids) if word >= 0]
        pool = [t for t in real if row.ids[t] != unk and own[t] == 0]
        count = min(table[len(real)], len(pool))
        for t in rng.choose(int(streams[i]), pool, count):
            own[t] = 3
        assert kinds[ids.offsets[i] : ids.offsets[i + 1]].tolist() == own
        assert unspent[i] == 5 + table[len(real)] - count


@given(random_examples(), st.data(), st.lists(st.floats(0, 1), min_size=9, max_size=9))
def test_mask_units__equals_twin(examples, data, rates):
    offsets, starts, ends = examples.input_ids.offsets, examples.span_starts, examples.span_ends
    table = [round(rate * n) for n, rate in enumerate(rates)]
    kinds, streams = (
        np.full(len(examples.input_ids.values), 7, np.uint8),
        streams_for(data, len(examples)),
    )
    mask_units(
        offsets,
        starts.offsets,
        starts.values,
        ends.values,
        np.array(table),
        streams,
        3,
        scratch(starts.lengths)[1],
        kinds,
    )

    for i, row in enumerate(rows_of(examples)):
        units = list(range(len(row.mentions)))
        chosen = rng.choose(int(streams[i]), units, table[len(units)])
        masked = {t for u in chosen for t in range(*row.mentions[u][:2])}
        assert kinds[offsets[i] : offsets[i + 1]].tolist() == [
            3 if t in masked else 7 for t in range(len(row.ids))
        ]


@given(random_examples(), st.data())
def test_mask_weighted__equals_twin(examples, data):
    offsets, starts, ends = examples.input_ids.offsets, examples.span_starts, examples.span_ends
    size = len(starts.values)
    pool, quota = numbers(data, size, 0, 1, np.uint8), numbers(data, len(examples), 0, 5, np.int64)
    weights = np.array(data.draw(st.lists(st.floats(-1, 1), min_size=size, max_size=size)))
    kinds, streams = (
        np.full(len(examples.input_ids.values), 7, np.uint8),
        streams_for(data, len(examples)),
    )
    left = quota.copy()
    mask_weighted(
        offsets, starts.offsets, starts.values, ends.values, pool, weights, left, streams, 3, kinds
    )

    for i, row in enumerate(rows_of(examples)):
        first, stop = starts.offsets[i], starts.offsets[i + 1]
        own = [
            weight if open_ else 0.0
            for weight, open_ in zip(weights[first:stop], pool[first:stop], strict=True)
        ]
        taken, unspent = weights_twin.weighted(
            int(streams[i]), own, [1] * len(own), int(quota[i]), "skip"
        )
        masked = {
            t
            for (start, end, _), some in zip(row.mentions, taken, strict=True)
            if some
            for t in range(start, end)
        }
        assert kinds[offsets[i] : offsets[i + 1]].tolist() == [
            3 if t in masked else 7 for t in range(len(row.ids))
        ]
        assert left[i] == unspent


@pytest.mark.parametrize("count", [1, 2, 3])
def test_mask_tokens__every_subset_is_as_likely(count):
    rows, words = 4000, np.array([-1, 0, 1, 2, 2, 3, -1], np.int32)
    kinds, table = np.zeros((rows, len(words)), np.uint8), np.full(8, count)
    streams, offsets = np.arange(rows, dtype=np.uint64), make_offsets(np.full(rows, len(words)))
    ids = np.full(rows * len(words), 9, np.int32)
    mask_tokens(
        offsets,
        np.tile(words, rows),
        ids,
        -1,
        table,
        streams,
        1,
        *scratch([len(words)]),
        kinds.reshape(-1),
        np.zeros(rows, np.int64),
    )

    chosen = [tuple(np.flatnonzero(row).tolist()) for row in kinds]
    assert is_fair(chosen, subsets_possible((words >= 0).tolist(), count))
