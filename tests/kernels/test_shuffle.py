from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.batches.blocks import shuffled_numbers
from mslm_data.kernels.shuffle import shuffle
from mslm_data.mask.rng import make_stream
from tests.kernels.fairness import is_fair
from tests.reference import order as reference


@given(st.integers(0, 300), st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_shuffle__equals_its_twin(size: int, seed: int, epoch: int) -> None:
    found = shuffled_numbers(size, seed, epoch).tolist()

    assert found == reference.shuffled(range(size), seed, epoch)
    assert sorted(found) == list(range(size))


def test_shuffle__keeps_columns_aligned() -> None:
    rows = np.arange(1000, dtype=np.uint32)
    column = rows.astype(np.int64) * 7

    shuffle(make_stream(5), rows)
    shuffle(make_stream(5), column)

    assert (column == rows.astype(np.int64) * 7).all()


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
def test_shuffle__gives_every_order_alike(size: int) -> None:
    orders = list(permutations(range(size)))

    found = [tuple(shuffled_numbers(size, 1, n).tolist()) for n in range(40 * len(orders))]

    assert is_fair(found, orders)


@pytest.mark.parametrize("size", [12, 40])
def test_shuffle__puts_every_pair_first_alike(size: int) -> None:
    found = [tuple(shuffled_numbers(size, 1, n)[:2].tolist()) for n in range(20 * size * size)]

    assert is_fair(found, permutations(range(size), 2))


def test_shuffle__moves_neighbours_apart() -> None:
    """As in a random permutation, few adjacent positions have adjacent rows."""
    order = shuffled_numbers(4096, 3).astype(np.int64)

    near = np.abs(np.diff(order)) <= 4

    assert near.mean() < 0.006  # 8 / 4096 expected, 0.002


def test_shuffle__never_changes() -> None:
    assert shuffled_numbers(10, 1, 2).tolist() == [0, 3, 7, 5, 8, 1, 4, 2, 6, 9]
