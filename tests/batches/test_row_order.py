from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.batches.batch_options import BatchOptions
from mslm_data.batches.row_order import (
    ByShards,
    Shuffled,
    Stored,
    row_order,
    shuffle_rounds,
    shuffle_rows,
)
from tests.kernels.fairness import is_fair
from tests.reference import order as reference

SIZES = [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1000, 4096, 4097]


def whole(size: int, *, seed: int = 0, epoch: int = 0) -> list[int]:
    return shuffle_rows(0, size, size=size, seed=seed, epoch=epoch).tolist()


@pytest.mark.parametrize("size", SIZES)
def test_shuffle_rows__gives_each_row_one_place(size: int) -> None:
    assert sorted(whole(size)) == list(range(size))


@given(st.integers(0, 300), st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
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


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
def test_shuffle_rows__has_every_order_alike(size: int) -> None:
    """A Feistel network of few bits would give some orders 2.5 times as often as others."""
    orders = list(permutations(range(size)))
    rounds = np.repeat(np.arange(40 * len(orders)), size)
    places = np.tile(np.arange(size), 40 * len(orders))

    found = shuffle_rounds(places, rounds, size=size, seed=1, first_round=0)

    assert is_fair(map(tuple, found.reshape(-1, size).tolist()), orders)


@pytest.mark.parametrize("size", [12, 40])
def test_shuffle_rows__has_every_pair_first_alike(size: int) -> None:
    rounds = np.repeat(np.arange(20 * size * size), 2)
    places = np.tile(np.arange(2), 20 * size * size)

    found = shuffle_rounds(places, rounds, size=size, seed=1, first_round=0)

    assert is_fair(map(tuple, found.reshape(-1, 2).tolist()), permutations(range(size), 2))


@pytest.mark.parametrize("size", [5, 8, 13])
def test_shuffle_rows__puts_every_row_everywhere_alike(size: int) -> None:
    """Chi-square test of row against position over 4,000 epochs, within 5 standard deviations."""
    epochs = 4000
    counts = np.zeros((size, size))
    for epoch in range(epochs):
        counts[np.arange(size), shuffle_rows(0, size, size=size, seed=1, epoch=epoch)] += 1

    expected = epochs / size
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    freedom = (size - 1) ** 2
    assert abs(chi_square - freedom) < 5 * (2 * freedom) ** 0.5


def test_shuffle_rows__moves_neighbours_apart() -> None:
    """As in a random permutation, few adjacent positions have adjacent rows."""
    order = np.array(whole(4096, seed=3))

    near = np.abs(np.diff(order)) <= 4

    assert near.mean() < 0.006  # 8 / 4096 expected, 0.002


def test_shuffle_rows__never_changes() -> None:
    assert whole(10, seed=1, epoch=2) == [8, 5, 2, 7, 1, 9, 3, 0, 4, 6]
    assert whole(1000, seed=1, epoch=2)[:10] == [108, 29, 319, 904, 305, 457, 884, 156, 845, 118]


def test_row_order__is_stored_or_shuffled() -> None:
    rows = range(30)

    assert row_order(rows, BatchOptions(shuffle=False)) == Stored(30)
    assert row_order(rows, BatchOptions(shuffle=True)) == Shuffled(30)


class Sharded(list[int]):
    """Ten rows of three shards."""

    shard_rows = (3, 3, 4)


def test_row_order__mixes_shards_of_what_has_some() -> None:
    rows = Sharded(range(10))

    assert row_order(rows, BatchOptions(shuffle="shards", open_shards=2)) == ByShards((3, 3, 4), 2)
    with pytest.raises(ValueError, match="these rows have no `shard_rows`"):
        row_order(range(10), BatchOptions(shuffle="shards"))


# Shards --------------------------------------------------------------------------------------------------------------

shard_rows = st.lists(st.integers(0, 12), max_size=9).map(tuple)


@given(shard_rows, st.integers(1, 11), st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_by_shards__equals_its_twin(
    sizes: tuple[int, ...], open_shards: int, seed: int, epoch: int
) -> None:
    order = ByShards(sizes, open_shards)

    found = order.rows(0, order.size, seed=seed, epoch=epoch).tolist()

    assert found == reference.order_by_shards(list(sizes), open_shards, seed, epoch)
    assert sorted(found) == list(range(sum(sizes)))


@given(shard_rows, st.integers(1, 11), st.data())
def test_by_shards__is_the_same_in_pieces(
    sizes: tuple[int, ...], open_shards: int, data: st.DataObject
) -> None:
    order = ByShards(sizes, open_shards)
    start = data.draw(st.integers(0, order.size))
    stop = data.draw(st.integers(start, order.size))

    piece = order.rows(start, stop, seed=5, epoch=2)

    assert piece.tolist() == order.rows(0, order.size, seed=5, epoch=2)[start:stop].tolist()


@pytest.mark.parametrize("open_shards", [1, 4, 16])
def test_by_shards__has_no_more_shards_open_than_it_says(open_shards: int) -> None:
    order = ByShards((50,) * 40, open_shards)
    shards = order.rows(0, 2000, seed=1, epoch=0) // 50
    first = {shard: int(np.flatnonzero(shards == shard)[0]) for shard in range(40)}
    last = {shard: int(np.flatnonzero(shards == shard)[-1]) for shard in range(40)}

    at_once = [sum(first[s] <= place <= last[s] for s in range(40)) for place in range(2000)]

    assert open_shards <= max(at_once) <= open_shards + 1  # a place where one ends and one begins
    assert set(shards[: 50 // open_shards].tolist()) == {shards[0]}  # a single shard begins


def test_by_shards__mixes_all_shards_that_are_open() -> None:
    """Each of four shards has about a quarter of the rows of any part of a block."""
    shards = ByShards((400,) * 9, 4).rows(0, 3600, seed=3, epoch=1) // 400
    block = shards[1000:1400]  # after the blocks of one, two, and three shards, 600 rows: the fifth

    counts = [np.bincount(part, minlength=9) for part in (block[:200], block[200:])]

    assert [sorted(part[part > 0].tolist())[0] > 30 for part in counts] == [True, True]
    assert [int((part > 0).sum()) for part in counts] == [4, 4]


def test_by_shards__has_an_order_for_each_seed_and_epoch() -> None:
    order = ByShards((5, 6, 7), 2)

    orders = {
        tuple(order.rows(0, 18, seed=seed, epoch=epoch)) for seed in range(6) for epoch in range(6)
    }

    assert len(orders) == 36


def test_by_shards__takes_each_shard_first_alike() -> None:
    order = ByShards((4, 4, 4, 4), 2)

    firsts = [int(order.rows(0, 1, seed=1, epoch=epoch)[0]) // 4 for epoch in range(2000)]

    counts = np.bincount(firsts, minlength=4)
    assert np.all(np.abs(counts - 500) < 5 * (500 * 0.75) ** 0.5)  # five deviations


def test_by_shards__never_changes() -> None:
    rows = ByShards((4, 2, 5), 2).rows(0, 11, seed=1, epoch=2)

    assert rows.tolist() == [0, 3, 10, 1, 2, 8, 7, 6, 5, 4, 9]


def test_by_shards__is_described_by_its_shards() -> None:
    orders = [ByShards((5, 6), 2), ByShards((6, 5), 2), ByShards((5, 6), 1), ByShards((11,), 2)]

    assert len({str(order.describe()) for order in orders}) == 4
