"""Takers equal their slow twins, and have the right distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import config

from mslm_data.data.ragged import Ragged, make_offsets
from mslm_data.kernels.take import (
    CUT,
    SKIP,
    STOP,
    choose_each,
    count_distinct,
    draw_keys,
    exponential,
    fill_ranked,
    fill_uniform,
)
from tests.kernels.fairness import (
    critical_value,
    is_fair,
    is_near,
    subsets_chosen,
    subsets_possible,
)
from tests.reference import fill as twin
from tests.reference import rng

EXPONENTIALS = [
    "0x1.e4273693ccbe2p-6",
    "0x1.9f4b61ddbe53ep-1",
    "0x1.11bf6570302e7p-2",
    "0x1.4f3f6c669c4e2p+1",
]
OVERRUNS = {"cut": CUT, "skip": SKIP, "stop": STOP}
WEIGHTS = st.one_of(
    st.sampled_from([0.0, -1.0, 1.0, 2.0, 1e-300, 1e-12, 1e300, 5e-324]),
    st.floats(0, 1),
    st.integers(0, 9).map(float),
)
EIGHT_WEIGHTS = [5, 1, 1, 2, 0, 3, 0.5, 4]
INCLUSION = [0.7564, 0.2272, 0.2272, 0.4198, 0, 0.5718, 0.1176, 0.6800]


@st.composite
def rows_of(draw, values):
    """Generate rows of units, and an overrun.

    A unit is a value, a length and whether it may be taken. A row has a budget and a stream.
    """
    units = st.lists(st.tuples(values, st.integers(1, 5), st.integers(0, 1)), max_size=12)
    row = st.tuples(units, st.integers(0, 20), st.integers(0, 2**64 - 1))
    return draw(st.lists(row, max_size=5)), draw(st.sampled_from(list(OVERRUNS)))


def arrays_of(rows):
    values, lengths, pool = (Ragged.from_rows([[unit[n] for unit in units] for units, _, _ in rows], t)
                             for n, t in enumerate((np.float64, np.int32, np.uint8)))  # fmt: skip
    quota = np.array([budget for _, budget, _ in rows], np.int64)
    streams = np.array([stream for _, _, stream in rows], np.uint64)
    return (
        values.offsets,
        values.values,
        lengths.values,
        pool.values,
        quota,
        streams,
        np.zeros(len(values.values), np.int32),
    )


def expect(rows, offsets, quota, taken, slow):
    """Compare the tokens taken and the remaining budget of each row with the twin."""
    for i, (units, budget, stream) in enumerate(rows):
        columns = [list(column) for column in zip(*units, strict=True)] if units else [[], [], []]
        expected, left = slow(stream, *columns, budget)
        assert (taken[offsets[i] : offsets[i + 1]].tolist(), quota[i]) == (expected, left)


def weights_in(pool, weights):
    return [weight if open_ else 0.0 for open_, weight in zip(pool, weights, strict=True)]


@given(rows_of(st.just(1.0)))
def test_fill_uniform__equals_twin(made):
    rows, overrun = made
    offsets, _, lengths, pool, quota, streams, taken = arrays_of(rows)
    fill_uniform(offsets, pool, lengths, quota, OVERRUNS[overrun], streams, taken)

    expect(
        rows,
        offsets,
        quota,
        taken,
        lambda stream, _, sizes, open_, n: twin.uniform(stream, open_, sizes, n, overrun),
    )


@given(rows_of(WEIGHTS))
def test_draw_keys__equals_twin(made):
    rows, overrun = made
    offsets, weights, lengths, pool, quota, streams, taken = arrays_of(rows)
    keys = np.empty(len(weights))
    draw_keys(offsets, weights, streams, keys)
    is_drawn = pool & (weights > 0)
    fill_ranked(offsets, is_drawn, keys, lengths, quota, OVERRUNS[overrun], taken)

    expect(
        rows,
        offsets,
        quota,
        taken,
        lambda stream, own, sizes, open_, n: twin.weighted(
            stream, weights_in(open_, own), sizes, n, overrun
        ),
    )


@given(st.integers(0, 2**64 - 1), st.integers(0, 99))
def test_exponential__is_a_logarithm(stream, k):
    expected = -math.log((rng.bits(stream, k) // 2**11 + 1) / 2**53)

    assert exponential(np.uint64(stream), k) == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_exponential__is_the_same_on_all_machines():
    """The exact bits: no library's logarithm."""
    drawn = [exponential(np.uint64(stream), 3).hex() for stream in range(4)]

    assert drawn == EXPONENTIALS


@given(rows_of(st.one_of(st.sampled_from([0.0, -1.0, 0.5]), st.floats(-9, 9))))
def test_fill_ranked__equals_twin(made):
    rows, overrun = made
    offsets, ranks, lengths, pool, quota, _, taken = arrays_of(rows)
    fill_ranked(offsets, pool, ranks, lengths, quota, OVERRUNS[overrun], taken)

    expect(
        rows,
        offsets,
        quota,
        taken,
        lambda _, own, sizes, open_, n: twin.ranked(open_, own, sizes, n, overrun),
    )


@pytest.mark.parametrize(
    ("overrun", "taken", "left"),
    [(CUT, [2, 3, 0], 0), (SKIP, [2, 0, 3], 0), (STOP, [2, 0, 0], 3)],
)
def test_fill_ranked__unit_longer_than_the_budget(overrun, taken, left):
    """Units of 2, 4 and 3 tokens in this order, and a budget of 5."""
    out, quota = np.zeros(3, np.int32), np.array([5])
    fill_ranked(
        np.array([0, 3]),
        np.ones(3, np.uint8),
        np.arange(3.0),
        np.array([2, 4, 3], np.int32),
        quota,
        overrun,
        out,
    )

    assert (out.tolist(), quota.tolist()) == (taken, [left])


def taken_of_equal_rows(weights, k, rows, first=0):
    """Return which units are taken in each of many rows of the same weights, bool `[rows, units]`."""
    size, streams = (
        len(weights),
        np.array([rng.mix(first + key) for key in range(rows)], np.uint64),
    )
    out, ones = np.zeros(rows * size, np.int32), np.ones(rows * size, np.int32)
    offsets, pool = np.arange(rows + 1, dtype=np.int64) * size, np.ones(rows * size, np.uint8)
    own = np.tile(np.array(weights, np.float64), rows)
    keys = np.empty(rows * size)
    draw_keys(offsets, own, streams, keys)
    fill_ranked(offsets, pool & (own > 0), keys, ones, np.full(rows, k), SKIP, out)
    return out.reshape(rows, size) > 0


def test_draw_keys__inclusion_is_the_golden_vector():
    """Compare 200,000 rows with the exact probabilities of three draws from eight weights."""
    exact = np.array(twin.inclusion(EIGHT_WEIGHTS, 3))
    rows = 200_000 if not config.DISABLE_JIT else 10_000
    seen = taken_of_equal_rows(EIGHT_WEIGHTS, 3, rows)

    assert np.abs(exact - INCLUSION).max() < 6e-5
    assert (seen.sum(axis=1) == 3).all()
    spread = np.sqrt(np.maximum(exact * (1 - exact), 1e-9) / rows)
    assert (np.abs(seen.mean(axis=0) - exact) < 4 * spread).all()
    assert seen[:, 4].sum() == 0


def test_draw_keys__every_set_has_its_chance():
    law, rows = twin.law(EIGHT_WEIGHTS, 3), 60_000
    seen = taken_of_equal_rows(EIGHT_WEIGHTS, 3, rows, first=10**6)
    codes, counts = np.unique(seen @ (1 << np.arange(8)), return_counts=True)
    counted = dict(zip(codes.tolist(), counts.tolist(), strict=True))
    expected = {sum(1 << u for u in units): chance * rows for units, chance in law.items()}

    assert set(counted) <= set(expected)
    assert min(expected.values()) > 5
    statistic = sum((counted.get(code, 0) - mean) ** 2 / mean for code, mean in expected.items())
    assert statistic < critical_value(len(expected) - 1)


def test_draw_keys__same_law_as_numpy():
    """Pearson's test of two samples, ours and `numpy.random.choice(replace=False, p)`."""
    rows, weights = 8_000, np.array(EIGHT_WEIGHTS)
    ours = taken_of_equal_rows(EIGHT_WEIGHTS, 3, rows, first=2 * 10**6) @ (1 << np.arange(8))
    random = np.random.RandomState(0)
    p = weights / weights.sum()
    theirs = np.array([(1 << random.choice(8, 3, replace=False, p=p)).sum() for _ in range(rows)])
    sets = np.unique(np.concatenate([ours, theirs]))
    counts = np.array(
        [[np.count_nonzero(sample == code) for code in sets] for sample in (ours, theirs)]
    )
    common = counts.sum(axis=0) >= 10

    statistic = ((counts[0] - counts[1]) ** 2 / counts.sum(axis=0))[common].sum()
    assert common.sum() > 25
    assert statistic < critical_value(int(common.sum()) - 1)


def test_draw_keys__equal_weights_are_uniform():
    seen = taken_of_equal_rows([0.3] * 5, 2, 6_000)

    assert is_fair(
        (seen @ (1 << np.arange(5))).tolist(),
        [a | b for a in (1, 2, 4, 8, 16) for b in (1, 2, 4, 8) if b < a],
    )


# In random order ----------------------------------------------------------------------------------


def uniform_subsets(offsets, pool, quota, streams, mark, out):
    """Mark the candidates that `fill_uniform` takes."""
    taken = np.zeros(len(pool), np.int32)
    fill_uniform(offsets, pool, np.ones(len(pool), np.int32), quota, SKIP, streams, taken)
    out[taken > 0] = mark


def test_fill_uniform__rows_longer_than_a_byte_counts():
    streams = np.arange(2, dtype=np.uint64)
    out = np.zeros(1000, np.uint8)
    pool = np.ones(1000, np.uint8)
    offsets = make_offsets(np.array([700, 300]))
    uniform_subsets(offsets, pool, np.array([650, 9]), streams, 1, out)

    assert (out[:700].sum(), out[700:].sum()) == (650, 9)


@pytest.mark.parametrize(
    ("pool", "quota"),
    [([1] * 5, 1), ([0, 1, 1, 1, 0, 1, 1, 1, 0], 3), ([1, 1, 1, 1], 2), ([1] * 7 + [0], 6)],
)
def test_fill_uniform__every_subset_is_as_likely(pool, quota):
    chosen = subsets_chosen(uniform_subsets, pool, quota, np.arange(4000, dtype=np.uint64))

    assert is_fair(chosen, subsets_possible(pool, quota))


def swaps_with_any(offsets, pool, quota, streams, mark, out):
    """Shuffle with the usual error: step k swaps with any place, not with a remaining one."""
    for i, stream in enumerate(streams.tolist()):
        places = [t for t in range(offsets[i], offsets[i + 1]) if pool[t]]
        for k in range(len(places)):
            j = rng.below(stream, k, len(places))
            places[k], places[j] = places[j], places[k]
        out[places[: quota[i]]] = mark


def takes_neighbours(offsets, pool, quota, streams, mark, out):
    """Choose all places equally often, but only sets of adjacent places."""
    for i, stream in enumerate(streams.tolist()):
        places = [t for t in range(offsets[i], offsets[i + 1]) if pool[t]]
        first = rng.below(stream, 0, len(places))
        out[[places[(first + k) % len(places)] for k in range(quota[i])]] = mark


@pytest.mark.parametrize("biased", [swaps_with_any, takes_neighbours])
def test_is_fair__refuses_a_biased_sampler(biased):
    pool, quota = [0, 1, 1, 1, 0, 1, 1, 1, 0], 3
    chosen = subsets_chosen(biased, pool, quota, np.arange(4000, dtype=np.uint64))

    assert not is_fair(chosen, subsets_possible(pool, quota))


# Draws with replacement ---------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 1), max_size=12), max_size=5), st.data())
def test_count_distinct__keeps_draws_of_rows_without_candidates(rows, data):
    pool = Ragged.from_rows(rows, np.uint8)
    draws = data.draw(st.lists(st.integers(0, 14), min_size=len(rows), max_size=len(rows)))
    quota = np.array(draws, np.int64)
    count_distinct(pool.offsets, pool.values, quota, np.arange(len(rows), dtype=np.uint64))

    for row, count, drawn in zip(rows, quota.tolist(), draws, strict=True):
        assert count == drawn if sum(row) == 0 else min(drawn, 1) <= count <= min(drawn, sum(row))


def test_count_distinct__counts_a_repeated_draw_once():
    """Of 4 places and 3 draws, 1, 2 or 3 are chosen with chances 4, 36 and 24 of 64."""
    rows = 4000
    quota = np.full(rows, 3)
    offsets = np.arange(rows + 1, dtype=np.int64) * 4
    count_distinct(offsets, np.ones(rows * 4, np.uint8), quota, np.arange(rows, dtype=np.uint64))
    sizes = np.bincount(quota, minlength=5).tolist()

    assert all(is_near(sizes[n], rows, chance / 64) for n, chance in ((1, 4), (2, 36), (3, 24)))
    assert sizes[0] == sizes[4] == 0


# Each with a probability --------------------------------------------------------------------------


@given(
    st.data(),
    st.lists(
        st.lists(st.one_of(st.sampled_from([-1.0, 0.0, 1.0, 2.0]), st.floats(0, 1)), max_size=9)
    ),
    st.sampled_from([np.float64, np.uint8]),
)
def test_choose_each__equals_twin(data, rows, dtype):
    weights = Ragged.from_rows([[max(w, 0.0) for w in row] for row in rows], dtype)
    numbers = st.lists(st.floats(0, 1), min_size=len(rows), max_size=len(rows))
    chances = np.array(data.draw(numbers), np.float64)
    streams = np.arange(len(rows), dtype=np.uint64)
    out = np.full(len(weights.values), 7, np.uint8)
    choose_each(weights.offsets, weights.values, chances, streams, out)

    for i, row in enumerate(weights.tolist()):
        expected = [int(rng.uniform(i, c) < chances[i] * weight) for c, weight in enumerate(row)]
        assert out[weights.offsets[i] : weights.offsets[i + 1]].tolist() == expected


def test_choose_each__every_pattern_of_a_fair_coin_is_as_likely():
    rows = 4000
    out = np.zeros(rows * 5, np.uint8)
    offsets = np.arange(rows + 1, dtype=np.int64) * 5
    streams = np.arange(rows, dtype=np.uint64)
    choose_each(offsets, np.ones_like(out), np.full(rows, 0.5), streams, out)

    assert is_fair((out.reshape(rows, 5) @ [16, 8, 4, 2, 1]).tolist(), range(32))


def test_choose_each__keeps_each_rate():
    rows, weights = 4000, np.array([0.0, 0.02, 0.5, 1.8, 2.0])
    out = np.zeros(rows * 5, np.uint8)
    streams = np.arange(rows, dtype=np.uint64)
    offsets = np.arange(rows + 1, dtype=np.int64) * 5
    choose_each(offsets, np.tile(weights, rows), np.full(rows, 0.5), streams, out)
    hits = out.reshape(rows, 5).sum(axis=0).tolist()

    assert all(is_near(hit, rows, weight / 2) for hit, weight in zip(hits, weights, strict=True))
