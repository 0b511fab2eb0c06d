from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.batches.order import batches_of_window, rows_at
from tests.reference import order as reference

SIZES = [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1000, 4096, 4097]


def whole(size: int, *, seed: int = 0, epoch: int = 0) -> list[int]:
    return rows_at(0, size, size=size, seed=seed, epoch=epoch).tolist()


@pytest.mark.parametrize("size", SIZES)
def test_rows_at__gives_each_row_one_place(size: int) -> None:
    assert sorted(whole(size)) == list(range(size))


@given(st.integers(0, 200), st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_rows_at__equals_its_twin(size: int, seed: int, epoch: int) -> None:
    assert whole(size, seed=seed, epoch=epoch) == reference.epoch_order(size, seed, epoch)


@given(st.integers(1, 300), st.data())
def test_rows_at__is_the_same_in_pieces(size: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, size))
    stop = data.draw(st.integers(start, size))

    piece = rows_at(start, stop, size=size, seed=5, epoch=2)

    assert piece.tolist() == whole(size, seed=5, epoch=2)[start:stop]


def test_rows_at__has_an_order_for_each_seed_and_epoch() -> None:
    orders = {tuple(whole(50, seed=seed, epoch=epoch)) for seed in range(10) for epoch in range(10)}

    assert len(orders) == 100


@pytest.mark.parametrize("size", [5, 8, 13])
def test_rows_at__puts_every_row_everywhere_alike(size: int) -> None:
    """Chi-square of row against place over 4,000 epochs; with so many cells 5 sigma is beyond any chance."""
    epochs = 4000
    counts = np.zeros((size, size))
    for epoch in range(epochs):
        counts[np.arange(size), rows_at(0, size, size=size, seed=1, epoch=epoch)] += 1

    expected = epochs / size
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    freedom = (size - 1) ** 2
    assert abs(chi_square - freedom) < 5 * (2 * freedom) ** 0.5


def test_rows_at__moves_neighbours_apart() -> None:
    """The differences of rows at neighbouring places are as those of a random permutation: few are small."""
    order = np.array(whole(4096, seed=3))

    near = np.abs(np.diff(order)) <= 4

    assert near.mean() < 0.006  # 8 / 4096 expected, 0.002


def test_rows_at__never_changes() -> None:
    assert whole(10, seed=1, epoch=2) == [8, 0, 6, 3, 1, 5, 4, 2, 7, 9]


@given(
    st.lists(st.integers(0, 9), max_size=40),
    st.integers(1, 7),
    st.integers(0, 5),
    st.integers(0, 5),
)
def test_batches_of_window__equals_its_twin(
    lengths: list[int], batch_size: int, epoch: int, window: int
) -> None:
    batches = batches_of_window(
        np.array(lengths, np.int64), batch_size, seed=9, epoch=epoch, window=window
    )

    assert [batch.tolist() for batch in batches] == reference.window_batches(
        lengths, batch_size, 9, epoch, window
    )


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 7))
def test_batches_of_window__has_each_row_once_beside_rows_of_like_length(
    lengths: list[int], batch_size: int
) -> None:
    batches = batches_of_window(np.array(lengths, np.int64), batch_size, seed=0, epoch=0, window=0)

    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    bounds = sorted(
        (min(lengths[row] for row in batch), max(lengths[row] for row in batch))
        for batch in batches
    )
    assert all(a[1] <= b[0] for a, b in zip(bounds, bounds[1:], strict=False))  # noqa: RUF007 - reads better
