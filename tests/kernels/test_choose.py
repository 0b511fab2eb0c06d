from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.ragged import Ragged, make_offsets
from mslm_data.kernels.choose import choose_again, choose_bernoulli, choose_each, choose_uniform
from tests.kernels.fairness import is_fair, is_near, subsets_chosen, subsets_possible
from tests.reference import rng as twin

POOLS = st.lists(st.lists(st.integers(0, 1), max_size=12), max_size=5)
STREAMS = st.integers(0, 2**64 - 1)


@given(st.data(), POOLS)
def test_choose_uniform__equals_twin(data, rows):
    pool = Ragged.from_rows(rows, np.uint8)
    quota = data.draw(st.lists(st.integers(0, 14), min_size=len(rows), max_size=len(rows)))
    streams = data.draw(st.lists(STREAMS, min_size=len(rows), max_size=len(rows)))
    out = np.full(len(pool.values), 7, np.uint8)
    choose_uniform(
        pool.offsets, pool.values, np.array(quota, np.int64), np.array(streams, np.uint64), 3, out
    )

    for i, row in enumerate(rows):
        places = [t for t, open_ in enumerate(row) if open_]
        chosen = twin.choose(streams[i], places, min(quota[i], len(places)))
        assert out[pool.offsets[i] : pool.offsets[i + 1]].tolist() == [
            3 if t in chosen else 7 for t in range(len(row))
        ]


@given(st.data(), POOLS, st.one_of(st.sampled_from([0.0, 0.075, 0.5, 1.0]), st.floats(0, 1)))
def test_choose_bernoulli__equals_twin(data, rows, rate):
    pool = Ragged.from_rows(rows, np.uint8)
    streams = data.draw(st.lists(STREAMS, min_size=len(rows), max_size=len(rows)))
    out = np.full(len(pool.values), 7, np.uint8)
    choose_bernoulli(pool.offsets, pool.values, rate, np.array(streams, np.uint64), 3, out)

    for i, row in enumerate(rows):
        expected = [
            3 if open_ and twin.uniform(streams[i], t) < rate else 7 for t, open_ in enumerate(row)
        ]
        assert out[pool.offsets[i] : pool.offsets[i + 1]].tolist() == expected


def test_choose_uniform__rows_longer_than_a_byte_counts():
    streams = np.arange(2, dtype=np.uint64)
    out = np.zeros(1000, np.uint8)
    choose_uniform(
        make_offsets(np.array([700, 300])),
        np.ones(1000, np.uint8),
        np.array([650, 9]),
        streams,
        1,
        out,
    )

    assert (out[:700].sum(), out[700:].sum()) == (650, 9)


@pytest.mark.parametrize(
    ("pool", "quota"),
    [([1] * 5, 1), ([0, 1, 1, 1, 0, 1, 1, 1, 0], 3), ([1, 1, 1, 1], 2), ([1] * 7 + [0], 6)],
)
def test_choose_uniform__every_subset_is_as_likely(pool, quota):
    chosen = subsets_chosen(choose_uniform, pool, quota, np.arange(4000, dtype=np.uint64))

    assert is_fair(chosen, subsets_possible(pool, quota))


def swaps_with_any(offsets, pool, quota, streams, mark, out):
    """Shuffle with the usual error: step k swaps with any place, not with a remaining one."""
    for i, stream in enumerate(streams.tolist()):
        places = [t for t in range(offsets[i], offsets[i + 1]) if pool[t]]
        for k in range(len(places)):
            j = twin.below(stream, k, len(places))
            places[k], places[j] = places[j], places[k]
        out[places[: quota[i]]] = mark


def takes_neighbours(offsets, pool, quota, streams, mark, out):
    """Choose all places equally often, but only sets of adjacent places."""
    for i, stream in enumerate(streams.tolist()):
        places = [t for t in range(offsets[i], offsets[i + 1]) if pool[t]]
        first = twin.below(stream, 0, len(places))
        out[[places[(first + k) % len(places)] for k in range(quota[i])]] = mark


@pytest.mark.parametrize("biased", [swaps_with_any, takes_neighbours])
def test_is_fair__refuses_a_biased_sampler(biased):
    pool, quota = [0, 1, 1, 1, 0, 1, 1, 1, 0], 3
    chosen = subsets_chosen(biased, pool, quota, np.arange(4000, dtype=np.uint64))

    assert not is_fair(chosen, subsets_possible(pool, quota))


def test_choose_bernoulli__every_pattern_of_a_fair_coin_is_as_likely():
    rows = 4000
    out = np.zeros(rows * 5, np.uint8)
    offsets = np.arange(rows + 1, dtype=np.int64) * 5
    choose_bernoulli(offsets, np.ones_like(out), 0.5, np.arange(rows, dtype=np.uint64), 1, out)

    assert is_fair((out.reshape(rows, 5) @ [16, 8, 4, 2, 1]).tolist(), range(32))


def test_choose_bernoulli__keeps_the_rate():
    out = np.zeros(40_000, np.uint8)
    choose_bernoulli(
        np.array([0, 40_000]), np.ones_like(out), 0.075, np.array([5], np.uint64), 1, out
    )

    assert abs(out.mean() - 0.075) < 4 * np.sqrt(0.075 * 0.925 / 40_000)


@given(st.data(), POOLS)
def test_choose_again__equals_twin(data, rows):
    pool = Ragged.from_rows(rows, np.uint8)
    quota = np.array(
        data.draw(st.lists(st.integers(0, 14), min_size=len(rows), max_size=len(rows))), np.int64
    )
    streams = data.draw(st.lists(STREAMS, min_size=len(rows), max_size=len(rows)))
    out, left = np.full(len(pool.values), 7, np.uint8), quota.copy()
    choose_again(pool.offsets, pool.values, left, np.array(streams, np.uint64), 3, out)

    for i, row in enumerate(rows):
        places = [t for t, open_ in enumerate(row) if open_]
        chosen = {places[twin.below(streams[i], k, len(places))] for k in range(quota[i]) if places}
        assert out[pool.offsets[i] : pool.offsets[i + 1]].tolist() == [
            3 if t in chosen else 7 for t in range(len(row))
        ]
        assert left[i] == (0 if places else quota[i])


def test_choose_again__chooses_a_repeated_draw_once():
    """Of 4 places and 3 draws, 1, 2 or 3 are chosen with chances 4, 36 and 24 of 64."""
    rows = 4000
    out = np.zeros(rows * 4, np.uint8)
    streams = np.arange(rows, dtype=np.uint64)
    choose_again(
        np.arange(rows + 1, dtype=np.int64) * 4,
        np.ones_like(out),
        np.full(rows, 3),
        streams,
        1,
        out,
    )
    sizes = np.bincount(out.reshape(rows, 4).sum(axis=1), minlength=5).tolist()

    assert all(is_near(sizes[n], rows, chance / 64) for n, chance in ((1, 4), (2, 36), (3, 24)))
    assert sizes[0] == sizes[4] == 0


@given(
    st.data(),
    st.lists(
        st.lists(st.one_of(st.sampled_from([-1.0, 0.0, 1.0, 2.0]), st.floats(0, 1)), max_size=9)
    ),
)
def test_choose_each__equals_twin(data, rows):
    chances = Ragged.from_rows(rows, np.float64)
    streams = data.draw(st.lists(STREAMS, min_size=len(rows), max_size=len(rows)))
    out = np.full(len(chances.values), 7, np.uint8)
    choose_each(chances.offsets, chances.values, np.array(streams, np.uint64), 3, out)

    for i, row in enumerate(rows):
        expected = [
            3 if twin.uniform(streams[i], t) < chance else 7 for t, chance in enumerate(row)
        ]
        assert out[chances.offsets[i] : chances.offsets[i + 1]].tolist() == expected


def test_choose_each__keeps_each_rate():
    rows, chances = 4000, np.array([0.0, 0.01, 0.25, 0.9, 1.0])
    out = np.zeros(rows * 5, np.uint8)
    streams = np.arange(rows, dtype=np.uint64)
    choose_each(np.arange(rows + 1, dtype=np.int64) * 5, np.tile(chances, rows), streams, 1, out)
    hits = out.reshape(rows, 5).sum(axis=0).tolist()

    assert all(is_near(hit, rows, chance) for hit, chance in zip(hits, chances, strict=True))
