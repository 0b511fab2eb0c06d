from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.mask.budget import Budget, ceil_exact, floor_float, quotas
from mslm_data.mask.rng import RowRng


@pytest.mark.parametrize(
    ("rate", "n", "count"),
    [
        (0.25, 4, 1),
        (0.25, 3, 1),
        (0.25, 5, 2),
        (0.25, 0, 0),
        (0, 9, 0),
        (1, 9, 9),
        (0.14, 50, 7),
        (0.15, 10, 2),
    ],
)
def test_ceil_exact__examples_of_the_paper(rate, n, count):
    assert ceil_exact(rate, n) == count


def test_ceil_exact__not_as_in_floats():
    assert math.ceil(0.14 * 50) == 8
    assert ceil_exact(0.14, 50) == 7


@pytest.mark.parametrize("rate", [3 * 0.05, 0.1 + 0.05, np.arange(0, 0.3, 0.05)[3]])
def test_ceil_exact__of_a_rate_that_was_computed(rate):
    assert ceil_exact(rate, 20) == 3


@pytest.mark.parametrize(
    ("rate", "n", "count"), [(0.25, 3, 0), (0.5, 3, 1), (0.75, 5, 3), (1.0, 5, 5), (0.29, 100, 28)]
)
def test_floor_float__examples_of_the_released_code(rate, n, count):
    assert floor_float(rate, n) == count


@given(st.decimals(0, 1, places=4), st.lists(st.integers(0, 600), max_size=5))
def test_quotas__exact(rate, sizes):
    rng = RowRng(keys=np.zeros(len(sizes), np.uint64), seed=0, epoch=0)
    counts = quotas(float(rate), np.array(sizes, np.int64), "up", rng)

    assert counts.tolist() == [math.ceil(Fraction(rate) * n) for n in sizes]


@given(
    st.sampled_from([0.0, 0.07, 0.5, 1.0]),
    st.integers(0, 70),
    st.integers(0, 3),
    st.sampled_from([None, 0, 2]),
)
def test_table__holds_the_quotas_within_limits(rate, largest, min_masked, max_masked):
    table = Budget(rate, min_masked=min_masked, max_masked=max_masked).table(rate, largest).tolist()

    assert len(table) > largest
    counts = [
        ceil_exact(rate, n) if max_masked is None else min(ceil_exact(rate, n), max_masked)
        for n in range(len(table))
    ]
    assert table == [max(count, min_masked) if n else 0 for n, count in enumerate(counts)]
