from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.ragged import Ragged
from mslm_data.kernels.corrupt import (
    KEEP,
    MASK,
    RANDOM,
    choose_actions,
    put_mask,
    put_random,
    put_unigram,
    spread_actions,
)
from tests.kernels.fairness import critical_value, is_fair
from tests.reference import rng as twin

ROWS = st.lists(st.lists(st.integers(0, 2), max_size=10), max_size=4)


@given(ROWS, st.floats(0, 1), st.floats(0, 1), st.integers(0, 2**64 - 4))
def test_choose_actions__equals_twin(rows, mask_share, share_of_rest, stream):
    kinds = Ragged.from_rows(rows, np.uint8)
    random_share = (1 - mask_share) * share_of_rest
    actions = np.full(len(kinds.values), 9, np.uint8)
    streams = np.array([stream + i for i in range(len(rows))], np.uint64)
    choose_actions(kinds.offsets, kinds.values, mask_share, random_share, streams, actions)

    def action(i, t, kind):
        draw = twin.uniform(stream + i, t)
        return (
            KEEP
            if kind == 0
            else MASK
            if draw < mask_share
            else RANDOM
            if draw < mask_share + random_share
            else KEEP
        )

    assert actions.tolist() == [
        action(i, t, kind) for i, row in enumerate(rows) for t, kind in enumerate(row)
    ]


@given(ROWS, st.sets(st.integers(0, 19), max_size=19), st.integers(0, 2**64 - 4))
def test_put__equals_twin(rows, special, stream):
    actions = Ragged.from_rows(rows, np.uint8)
    allowed = [id_ for id_ in range(20) if id_ not in special]
    ids = np.arange(100, 100 + len(actions.values), dtype=np.int32)
    out = np.empty_like(ids)
    streams = np.array([stream + i for i in range(len(rows))], np.uint64)
    put_mask((actions.values == MASK).astype(np.uint8), ids, 50, out)
    put_random(
        actions.offsets, actions.values, 20, np.array(sorted(special), np.int64), streams, out
    )

    before = iter(range(100, 200))
    assert out.tolist() == [
        {KEEP: old, MASK: 50, RANDOM: allowed[twin.below(stream + i, t, len(allowed))]}[action]
        for i, row in enumerate(rows)
        # `before` continues with the next row.
        for t, (action, old) in enumerate(zip(row, before, strict=False))
    ]


def test_put_random__draws_ordinary_ids_uniformly():
    rows = 3000
    out = np.zeros(rows, np.int32)
    offsets = np.arange(rows + 1, dtype=np.int64)
    actions = np.full(rows, RANDOM, np.uint8)
    put_random(offsets, actions, 12, np.array([0, 1, 5, 11]), np.arange(rows, dtype=np.uint64), out)

    assert is_fair(out.tolist(), [2, 3, 4, 6, 7, 8, 9, 10])


@given(ROWS, st.data())
def test_spread_actions__equals_twin(rows, data):
    actions = Ragged.from_rows(rows, np.uint8)
    size = len(actions.values)
    kinds = np.array(data.draw(st.lists(st.integers(0, 2), min_size=size, max_size=size)), np.uint8)
    joins = np.array(data.draw(st.lists(st.integers(0, 1), min_size=size, max_size=size)), np.uint8)
    out = actions.values.copy()
    spread_actions(actions.offsets, kinds, joins, out)

    assert out.tolist() == [
        actions.values[first_of_group(actions.offsets, kinds, joins, t)] for t in range(size)
    ]


def first_of_group(offsets, kinds, joins, t):
    """Go back while a token is joined to the one before it, in its own row, and both are masked."""
    while t not in offsets and joins[t] and kinds[t] and kinds[t - 1]:
        t -= 1
    return t


@given(
    ROWS, st.lists(st.integers(0, 5), min_size=1, max_size=6).filter(any), st.integers(0, 2**64 - 4)
)
def test_put_unigram__equals_twin(rows, counts, stream):
    actions = Ragged.from_rows(rows, np.uint8)
    tokens = np.arange(30, 30 + len(counts), dtype=np.int32)
    out = np.arange(100, 100 + len(actions.values), dtype=np.int32)
    streams = np.array([stream + i for i in range(len(rows))], np.uint64)
    put_unigram(actions.offsets, actions.values, tokens, np.cumsum(counts), streams, out)

    bag = [
        token for token, count in zip(tokens.tolist(), counts, strict=True) for _ in range(count)
    ]
    places = [(i, t, action) for i, row in enumerate(rows) for t, action in enumerate(row)]
    assert out.tolist() == [
        bag[int(twin.uniform(stream + i, t) * len(bag))] if action == RANDOM else 100 + place
        for place, (i, t, action) in enumerate(places)
    ]


def test_put_unigram__as_likely_as_frequent():
    counts = [1, 0, 3, 2, 0]
    out = np.zeros(6000, np.int32)
    offsets, actions = np.arange(6001, dtype=np.int64), np.full(6000, RANDOM, np.uint8)
    put_unigram(
        offsets,
        actions,
        np.arange(5, dtype=np.int32),
        np.cumsum(counts),
        np.arange(6000, dtype=np.uint64),
        out,
    )

    expected = {token: 1000 * count for token, count in enumerate(counts) if count}
    seen = Counter(out.tolist())
    assert set(seen) == set(expected)
    assert sum((seen[token] - due) ** 2 / due for token, due in expected.items()) < critical_value(
        2
    )


def test_put_unigram__handles_large_counts():
    """The last id of a very large table can be drawn, and nothing beyond it."""
    out = np.zeros(2000, np.int32)
    offsets, actions = np.arange(2001, dtype=np.int64), np.full(2000, RANDOM, np.uint8)
    sums = np.array([2**52, 2**53 - 1])
    put_unigram(
        offsets, actions, np.array([7, 9], np.int32), sums, np.arange(2000, dtype=np.uint64), out
    )

    assert is_fair(out.tolist(), [7, 9])
