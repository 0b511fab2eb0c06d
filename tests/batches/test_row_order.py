from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.batches.row_order import Shuffled, Stored, row_order, shuffle_rows
from tests.reference import order as reference

SIZES = [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1000, 4096, 4097]


def whole(size: int, *, seed: int = 0, epoch: int = 0) -> list[int]:
    return shuffle_rows(0, size, size=size, seed=seed, epoch=epoch).tolist()


@pytest.mark.parametrize("size", SIZES)
def test_shuffle_rows__gives_each_row_one_place(size: int) -> None:
    assert sorted(whole(size)) == list(range(size))


@given(st.integers(0, 200), st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_shuffle_rows__equals_its_twin(size: int, seed: int, epoch: int) -> None:
    assert whole(size, seed=seed, epoch=epoch) == reference.epoch_order(size, seed, epoch)


@given(st.integers(1, 300), st.data())
def test_shuffle_rows__is_the_same_in_pieces(size: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, size))
    stop = data.draw(st.integers(start, size))

    piece = shuffle_rows(start, stop, size=size, seed=5, epoch=2)

    assert piece.tolist() == whole(size, seed=5, epoch=2)[start:stop]


def test_shuffle_rows__has_an_order_for_each_seed_and_epoch() -> None:
    orders = {tuple(whole(50, seed=seed, epoch=epoch)) for seed in range(10) for epoch in range(10)}

    assert len(orders) == 100


@pytest.mark.parametrize("size", [5, 8, 13])
def test_shuffle_rows__puts_every_row_everywhere_alike(size: int) -> None:
    """Chi-square of row against place over 4,000 epochs; with so many cells 5 sigma is beyond any chance."""
    epochs = 4000
    counts = np.zeros((size, size))
    for epoch in range(epochs):
        counts[np.arange(size), shuffle_rows(0, size, size=size, seed=1, epoch=epoch)] += 1

    expected = epochs / size
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    freedom = (size - 1) ** 2
    assert abs(chi_square - freedom) < 5 * (2 * freedom) ** 0.5


def test_shuffle_rows__moves_neighbours_apart() -> None:
    """The differences of rows at neighbouring places are as those of a random permutation: few are small."""
    order = np.array(whole(4096, seed=3))

    near = np.abs(np.diff(order)) <= 4

    assert near.mean() < 0.006  # 8 / 4096 expected, 0.002


def test_shuffle_rows__never_changes() -> None:
    assert whole(10, seed=1, epoch=2) == [8, 0, 6, 3, 1, 5, 4, 2, 7, 9]


def test_row_order__is_stored_or_shuffled() -> None:
    rows = range(30)

    assert row_order(rows, shuffle=False) == Stored(30)
    assert row_order(rows, shuffle=True) == Shuffled(30)


def test_row_order__refuses_what_is_no_choice() -> None:
    wrong: Any = "yes"

    with pytest.raises(ValueError, match="shuffle: expected True or False, got 'yes'"):
        row_order(range(3), shuffle=wrong)


def test_stored__gives_places_as_rows() -> None:
    assert Stored(9).rows(2, 5, seed=7, epoch=3).tolist() == [2, 3, 4]


def test_shuffled__is_the_order_of_the_seed_and_the_epoch() -> None:
    assert Shuffled(50).rows(0, 50, seed=7, epoch=3).tolist() == whole(50, seed=7, epoch=3)


def test_described__tells_orders_apart() -> None:
    assert Stored(9).described() != Shuffled(9).described() != Shuffled(8).described()
