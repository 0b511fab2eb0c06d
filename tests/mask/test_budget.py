from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.mask.budget import Budget, ceil_exact, quotas
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
def test_quotas__down_as_in_the_released_code(rate, n, count):
    rng = RowRng(keys=np.zeros(1, np.uint64), seed=0, epoch=0)

    assert quotas(rate, np.array([n]), "down", rng).tolist() == [count]


@given(st.decimals(0, 1, places=4), st.lists(st.integers(0, 2**23 - 1), max_size=5))
def test_quotas__exact(rate, sizes):
    rng = RowRng(keys=np.zeros(len(sizes), np.uint64), seed=0, epoch=0)
    counts = quotas(float(rate), np.array(sizes, np.int64), "up", rng)

    assert counts.tolist() == [math.ceil(Fraction(rate) * n) for n in sizes]


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        ({}, [0, 2, 5]),
        ({"max_masked": 3}, [0, 2, 3]),
        ({"min_masked": 3}, [0, 3, 5]),
        ({"min_masked": 1, "max_masked": 1}, [0, 1, 1]),
        ({"gate": 0.0}, [0, 0, 0]),
    ],
)
def test_quota__is_within_its_limits(options, counts):
    rng = RowRng(keys=np.zeros(3, np.uint64), seed=0, epoch=0)
    sizes = np.array([0, 4, 10])

    assert Budget(0.5, **options).quota(sizes, sizes, rng).tolist() == counts
