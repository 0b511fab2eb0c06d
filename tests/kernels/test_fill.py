"""Samplers with a budget equal their slow twins; weighted draws have the right distribution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import config

from mslm_data.data.ragged import Ragged
from mslm_data.kernels.fill import (
    CUT,
    GROUP,
    SKIP,
    STOP,
    draw_part,
    drop_unit,
    fill_ranked,
    fill_uniform,
    fill_weighted,
    find_unit,
    sum_weights,
)
from tests.kernels.fairness import critical_value, is_fair
from tests.reference import fill as twin
from tests.reference import rng

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
                             for n, t in enumerate((np.float64, np.int64, np.uint8)))  # fmt: skip
    quota = np.array([budget for _, budget, _ in rows], np.int64)
    streams = np.array([stream for _, _, stream in rows], np.uint64)
    return (
        values.offsets,
        values.values,
        lengths.values,
        pool.values,
        quota,
        streams,
        np.zeros(len(values.values), int),
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
def test_fill_weighted__equals_twin(made):
    rows, overrun = made
    offsets, weights, lengths, pool, quota, streams, taken = arrays_of(rows)
    fill_weighted(offsets, pool, weights, lengths, quota, OVERRUNS[overrun], streams, taken)

    expect(
        rows,
        offsets,
        quota,
        taken,
        lambda stream, own, sizes, open_, n: twin.weighted(
            stream, weights_in(open_, own), sizes, n, overrun
        ),
    )


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
    out, quota = np.zeros(3, np.int64), np.array([5])
    fill_ranked(
        np.array([0, 3]),
        np.ones(3, np.uint8),
        np.arange(3.0),
        np.array([2, 4, 3]),
        quota,
        overrun,
        out,
    )

    assert (out.tolist(), quota.tolist()) == (taken, [left])


@given(st.lists(WEIGHTS, max_size=3 * GROUP + 2), st.data())
def test_find_unit__is_where_the_running_sum_passes(weights, data):
    size = len(weights)
    parts, sums = np.zeros(size, np.int64), np.zeros(size // GROUP + 1, np.int64)
    total = sum_weights(np.ones(size, np.uint8), np.array(weights, np.float64), parts, sums)
    gone = data.draw(st.sets(st.integers(0, size - 1)) if weights else st.just(set()))
    for u in sorted(gone) if total else ():
        total -= drop_unit(parts, sums, u)
    drawn = data.draw(st.integers(0, max(total - 1, 0)))

    assert total == (parts.sum() if max(weights, default=0) > 0 else 0)
    if total:
        assert find_unit(parts, sums, drawn) == np.searchsorted(
            np.cumsum(parts), drawn, side="right"
        )


@pytest.mark.parametrize("total", [1, 7, 2**31 + 5, 2**53 + 1])
def test_draw_part__is_within_the_total(total):
    drawn = [draw_part(np.uint64(stream), 3, total) for stream in range(200)]

    assert min(drawn) >= 0
    assert max(drawn) < total
    assert max(drawn) >= 0.9 * total - 1


def taken_of_equal_rows(weights, k, rows, first=0):
    """Return which units are taken in each of many rows of the same weights, bool `[rows, units]`."""
    size, streams = (
        len(weights),
        np.array([rng.mix(first + key) for key in range(rows)], np.uint64),
    )
    out, ones = np.zeros(rows * size, np.int64), np.ones(rows * size, np.int64)
    offsets, pool = np.arange(rows + 1, dtype=np.int64) * size, np.ones(rows * size, np.uint8)
    own = np.tile(np.array(weights, np.float64), rows)
    fill_weighted(offsets, pool, own, ones, np.full(rows, k), SKIP, streams, out)
    return out.reshape(rows, size) > 0


def test_fill_weighted__inclusion_is_the_golden_vector():
    """Compare 200,000 rows with the exact probabilities of three draws from eight weights."""
    exact = np.array(twin.inclusion(EIGHT_WEIGHTS, 3))
    rows = 200_000 if not config.DISABLE_JIT else 10_000
    seen = taken_of_equal_rows(EIGHT_WEIGHTS, 3, rows)

    assert np.abs(exact - INCLUSION).max() < 6e-5
    assert (seen.sum(axis=1) == 3).all()
    spread = np.sqrt(np.maximum(exact * (1 - exact), 1e-9) / rows)
    assert (np.abs(seen.mean(axis=0) - exact) < 4 * spread).all()
    assert seen[:, 4].sum() == 0


def test_fill_weighted__every_set_has_its_chance():
    law, rows = twin.law(EIGHT_WEIGHTS, 3), 60_000
    seen = taken_of_equal_rows(EIGHT_WEIGHTS, 3, rows, first=10**6)
    codes, counts = np.unique(seen @ (1 << np.arange(8)), return_counts=True)
    counted = dict(zip(codes.tolist(), counts.tolist(), strict=True))
    expected = {sum(1 << u for u in units): chance * rows for units, chance in law.items()}

    assert set(counted) <= set(expected)
    assert min(expected.values()) > 5
    statistic = sum((counted.get(code, 0) - mean) ** 2 / mean for code, mean in expected.items())
    assert statistic < critical_value(len(expected) - 1)


def test_fill_weighted__same_law_as_numpy():
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


def test_fill_weighted__equal_weights_are_uniform():
    seen = taken_of_equal_rows([0.3] * 5, 2, 6_000)

    assert is_fair(
        (seen @ (1 << np.arange(5))).tolist(),
        [a | b for a in (1, 2, 4, 8, 16) for b in (1, 2, 4, 8) if b < a],
    )


def test_fill_weighted__fewer_than_are_due():
    """All units with a positive weight are taken, however small, and some budget remains."""
    weights, quota, taken = np.array([0.0, 1e-300, 1.0, -2.0]), np.array([3]), np.zeros(4, np.int64)
    offsets, pool, ones = np.array([0, 4]), np.ones(4, np.uint8), np.ones(4, np.int64)
    fill_weighted(offsets, pool, weights, ones, quota, SKIP, np.array([7], np.uint64), taken)

    assert (taken.tolist(), quota.tolist()) == ([0, 1, 1, 0], [1])
