"""Plans of epochs: rows, blocks and batches."""

from __future__ import annotations

import hashlib
import itertools
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.batches import epoch_plan as plan_module
from mslm_data.batches.batch_options import BatchOptions
from mslm_data.batches.blocks import EpochPart, block_bounds, block_rows
from mslm_data.batches.epoch_plan import WINDOW, EpochPlan, plan_epoch, window_rows
from mslm_data.batches.order import EpochOrder
from tests.reference import mix as reference_mix
from tests.reference import order as reference
from tests.support.row_lengths import RowLengths

SHAPES: list[dict[str, Any]] = [
    {"batch_size": 1, "bucketed": True},
    {"batch_size": 3, "bucketed": True},
    {"batch_size": 3, "bucketed": False},
    {"batch_size": 3, "drop_last": True, "bucketed": True},
    {"batch_size": 3, "drop_last": True, "bucketed": False},
    {"batch_size": 3, "flat": True, "bucketed": False},
    {"batch_tokens": 60, "bucketed": True},
    {"batch_tokens": 60, "multiple_of": 8, "bucketed": False},
    {"batch_tokens": 60, "multiple_of": 8, "flat": True, "bucketed": False},
]
SHUFFLES: list[dict[str, Any]] = [
    {"shuffle": True},
    {"shuffle": False},
    {"shuffle": "shards", "open_shards": 3},
]

splits_of_a_mix = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 20)), min_size=1, max_size=4)
"""Rows that each split has, and rows that an epoch takes of it."""


def plans(rows: RowLengths, options: BatchOptions, epoch: int) -> list[EpochPlan]:
    count = len(EpochOrder(rows, options).bounds(epoch)) - 1
    return [plan_epoch(rows, options, epoch, block=block) for block in range(count)]


def batches_of(plan: EpochPlan) -> list[list[int]]:
    return [rows.tolist() for rows in np.split(plan.rows, plan.bounds[1:-1])][: plan.num_batches]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("shuffle", SHUFFLES, ids=str)
@given(
    shards=st.lists(st.lists(st.integers(1, 50), max_size=12), max_size=7),
    seed=st.integers(0, 2**63 - 1),
    epoch=st.integers(0, 2**63 - 1),
)
def test_plan_epoch__equals_its_twin(
    shape: dict[str, Any],
    shuffle: dict[str, Any],
    shards: list[list[int]],
    seed: int,
    epoch: int,
) -> None:
    lengths = list(itertools.chain(*shards))
    rows = RowLengths(lengths, [len(shard) for shard in shards])
    options = BatchOptions(seed=seed, **shape, **shuffle)

    with patch.object(plan_module, "WINDOW", 2):
        window = window_rows(rows, options)
        found = plans(rows, options, epoch)

    blocks = reference.blocks(
        len(rows),
        window=window,
        seed=seed,
        epoch=epoch,
        shard_rows=rows.shard_rows,
        **shuffle,
    )
    assert len(found) == len(blocks)
    for number, (plan, block) in enumerate(zip(found, blocks, strict=True)):
        expected = reference.block_batches(
            block,
            lambda row: lengths[row],
            window=window,
            seed=seed,
            epoch=epoch,
            block=number,
            shuffle=shuffle["shuffle"],
            **shape,
        )
        assert batches_of(plan) == expected
        assert plan.tokens.tolist() == [sum(lengths[row] for row in batch) for batch in expected]
        assert plan.rounds is None


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("shuffle", SHUFFLES, ids=str)
def test_plan_epoch__has_each_row_once_in_batches_that_fit(
    shape: dict[str, Any], shuffle: dict[str, Any]
) -> None:
    rows = RowLengths.made(3000, [500] * 6)
    options = BatchOptions(**shape, **shuffle)

    batches = [batch for plan in plans(rows, options, 1) for batch in batches_of(plan)]

    seen = sorted(itertools.chain(*batches))
    dropped = len(rows) % 3 if options.drop_last else 0
    assert len(set(seen)) == len(seen) == len(rows) - dropped
    for batch in batches:
        lengths = rows.lengths(np.array(batch))
        if options.batch_size:
            assert len(batch) <= options.batch_size
        else:
            lines = 1 if options.flat else len(batch)
            longest = lengths.sum() if options.flat else lengths.max()
            assert lines * options.width(int(longest)) <= 60
    if options.batch_size:
        assert sum(len(batch) < options.batch_size for batch in batches) <= 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "9231a68a43652d56"),
        ({"bucketed": False}, "5005369c7a570fc4"),
        ({"shuffle": "shards", "open_shards": 2}, "0c188a3748a44711"),
        ({"batch_tokens": 500}, "4a2f6190729dddab"),
        ({"batch_tokens": 500, "flat": True}, "6beea9a78a501acd"),
        ({"shuffle": False}, "c9bb78dffc40aa83"),
    ],
    ids=str,
)
def test_plan_epoch__keeps_its_digest(options: dict[str, Any], expected: str) -> None:
    """If a digest changes, a seed gives other batches, and `STATE_VERSION` must be raised."""
    rows = RowLengths.made(20_000, [2500] * 8)
    digest = hashlib.sha256()
    for seed, epoch in ((0, 0), (5, 2)):
        for plan in plans(rows, BatchOptions(seed=seed, **options), epoch):
            digest.update(plan.rows.astype("<u8").tobytes() + plan.bounds.astype("<i8").tobytes())

    assert digest.hexdigest()[:16] == expected


def test_plan_epoch__brings_rows_of_like_length_together() -> None:
    rows = RowLengths.made(20_000)

    def padding(bucketed: bool) -> float:
        plan = plan_epoch(rows, BatchOptions(bucketed=bucketed), 0)
        lengths = rows.lengths(plan.rows)
        longest = np.maximum.reduceat(lengths, plan.bounds[:-1])
        return 1 - rows.tokens / float((longest * np.diff(plan.bounds)).sum())

    assert padding(True) < 0.03
    assert padding(False) > 0.4


def test_plan_epoch__mixes_lengths_over_the_epoch() -> None:
    """Batches of a window are shuffled, so that the mean length does not fall."""
    rows = RowLengths.made(200_000)

    plan = plan_epoch(rows, BatchOptions(), 0)

    means = np.add.reduceat(rows.lengths(plan.rows), plan.bounds[:-1]) / np.diff(plan.bounds)
    first, second = np.array_split(means, 2)
    assert abs(first.mean() - second.mean()) < 1


def test_plan_epoch__fills_flat_rows() -> None:
    rows = RowLengths.made(50_000)

    plan = plan_epoch(rows, BatchOptions(batch_tokens=1200, flat=True), 0)

    assert rows.tokens / (1200 * plan.num_batches) > 0.97


def test_plan_epoch__differs_between_seeds_and_epochs() -> None:
    rows = RowLengths.made(50)

    orders = {
        tuple(plan_epoch(rows, BatchOptions(seed=seed, bucketed=False), epoch).rows.tolist())
        for seed in range(5)
        for epoch in range(5)
    }

    assert len(orders) == 25


@pytest.mark.parametrize(
    "options",
    [{}, {"bucketed": False}, {"batch_tokens": 800}, {"batch_tokens": 800, "flat": True}],
    ids=str,
)
def test_plan_epoch__costs_no_more_than_12_bytes_a_row(options: dict[str, Any]) -> None:
    rows = RowLengths.made(1_500_000)
    plan_epoch(RowLengths.made(100), BatchOptions(**options), 0)  # compiles the kernels
    chunk = 1 << 16

    with patch.object(plan_module, "_ROWS_AT_ONCE", chunk):
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        plan = plan_epoch(rows, BatchOptions(**options), 0)
        rows.asked.clear()
        after, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    batches = 12 * plan.num_batches
    assert plan.rows.dtype == np.uint32
    assert after - before - batches < 4.1 * len(rows)
    assert peak - before < 12 * len(rows)


def test_plan_epoch__by_shards_costs_its_largest_block() -> None:
    rows = RowLengths.made(400_000, [10_000] * 40)
    options = BatchOptions(shuffle="shards", open_shards=4)

    sizes = [len(plan.rows) for plan in plans(rows, options, 0)]

    assert max(sizes) <= 4 * 10_000 + window_rows(rows, options)


def test_plan_epoch__rejects_a_row_longer_than_a_batch() -> None:
    rows = RowLengths([3, 10])
    for options, room in (
        ({"batch_tokens": 9}, 9),
        ({"batch_tokens": 10, "multiple_of": 8}, 8),
        ({"batch_tokens": 9, "flat": True}, 9),
    ):
        message = rf"batch_tokens: .* a row of 10 tokens, got {room}; pass the encode.max_tokens"
        with pytest.raises(ValueError, match=message):
            plan_epoch(rows, BatchOptions(**options), 0)


# Blocks --------------------------------------------------------------------------------------------


def shards_of(rows: RowLengths, options: BatchOptions, epoch: int = 0) -> list[list[int]]:
    """Return the shards of each block."""
    firsts = np.cumsum(rows.shard_rows)
    return [
        np.unique(np.searchsorted(firsts, plan.rows, side="right")).tolist()
        for plan in plans(rows, options, epoch)
    ]


@pytest.mark.parametrize("open_shards", [1, 3, 16])
def test_blocks__by_shards_have_some_shards_each(open_shards: int) -> None:
    size = WINDOW * 2
    rows = RowLengths.made(40 * size, [size] * 40)
    options = BatchOptions(batch_size=2, shuffle="shards", open_shards=open_shards)

    shards = shards_of(rows, options)

    assert sorted(itertools.chain(*shards)) == list(range(40))
    assert len(shards[0]) == 1
    assert max(map(len, shards)) == min(open_shards, 16)
    assert all(len(after) <= 4 * len(before) for before, after in itertools.pairwise(shards))


def test_blocks__end_at_whole_windows() -> None:
    rows = RowLengths.made(10_000, [777, 0, 1234, 999, 3000, 3990])
    options = BatchOptions(batch_size=4, shuffle="shards", open_shards=2)

    counts = [np.diff(plan.bounds) for plan in plans(rows, options, 3)]

    assert all(len(count) % WINDOW == 0 for count in counts[:-1])
    assert set(np.concatenate(counts).tolist()) == {4}


def test_blocks__take_each_shard_first_alike() -> None:
    part = EpochPart(16, 16, 0, (4, 4, 4, 4))
    options = BatchOptions(batch_size=1, shuffle="shards", open_shards=2)

    firsts = [
        int(block_rows([part], options, epoch=epoch, start=0, stop=1)[0][0]) // 4
        for epoch in range(2000)
    ]

    counts = np.bincount(firsts, minlength=4)
    assert np.all(np.abs(counts - 500) < 5 * (500 * 0.75) ** 0.5)  # five deviations


def test_blocks__of_rows_that_are_not_shuffled_do_not_depend_on_shards() -> None:
    options = BatchOptions(batch_tokens=80, shuffle=False)

    one, many = (
        [batches_of(plan) for plan in plans(RowLengths.made(4000, shards), options, 0)]
        for shards in ([4000], [500] * 8)
    )

    assert one == many
    assert len(one) > 2
    flat = [row for block in one for batch in block for row in batch]
    assert flat == list(range(4000))


# Parts of a mix ------------------------------------------------------------------------------------


def parts_of(sizes: Sequence[tuple[int, int]], shards: int = 1) -> list[EpochPart]:
    """Return parts of some rows, and rows that an epoch takes."""
    firsts = itertools.accumulate((size for size, _ in sizes), initial=0)
    return [
        EpochPart(
            size, taken, first, tuple(len(rows) for rows in np.array_split(range(size), shards))
        )
        for (size, taken), first in zip(sizes, firsts, strict=False)
    ]


@given(splits_of_a_mix, st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_block_rows__of_a_mix_equal_their_twin(
    sizes: list[tuple[int, int]], seed: int, epoch: int
) -> None:
    parts = parts_of(sizes)
    stop = sum(taken for _, taken in sizes)

    numbers, rounds = block_rows(parts, BatchOptions(seed=seed), epoch=epoch, start=0, stop=stop)

    expected = reference_mix.epoch_rows([s for s, _ in sizes], [t for _, t in sizes], seed, epoch)
    assert numbers.tolist() == [parts[split].first + row for split, _, row in expected]
    repeated = [number for _, number, _ in expected]
    assert (rounds.tolist() if rounds is not None else [0] * stop) == repeated


@pytest.mark.parametrize("shuffle", [True, False, "shards"])
@given(sizes=splits_of_a_mix, epochs=st.integers(1, 5), window=st.integers(1, 9))
def test_block_rows__pass_over_no_row(
    shuffle: Any, sizes: list[tuple[int, int]], epochs: int, window: int
) -> None:
    parts = parts_of(sizes, shards=3)
    options = BatchOptions(shuffle=shuffle, open_shards=1)

    seen: Counter[int] = Counter()
    for epoch in range(epochs):
        bounds = block_bounds(parts, options, epoch=epoch, window=window)
        in_epoch = []
        for start, stop in itertools.pairwise(bounds):
            numbers, rounds = block_rows(parts, options, epoch=epoch, start=start, stop=stop)
            repeats = np.zeros(len(numbers), np.int64) if rounds is None else rounds
            in_epoch += list(zip(numbers.tolist(), repeats.tolist(), strict=True))
        assert len(set(in_epoch)) == len(in_epoch)
        seen.update(number for number, _ in in_epoch)
        for part in parts:
            own = [number for number, _ in in_epoch if 0 <= number - part.first < part.size]
            assert len(own) == part.taken

    for part in parts:
        times = [seen[part.first + row] for row in range(part.size)]
        assert min(times) >= epochs * part.taken // part.size
        assert max(times) <= -(-epochs * part.taken // part.size)


@pytest.mark.parametrize("shuffle", [False, "shards"])
def test_blocks__of_a_mix_have_the_share_of_each_split(shuffle: Any) -> None:
    parts = parts_of([(30_000, 30_000), (3_000, 6_000), (90_000, 4_000)], shards=30)
    options = BatchOptions(shuffle=shuffle, open_shards=2)

    bounds = block_bounds(parts, options, epoch=1, window=64)

    assert len(bounds) > 5
    for start, stop in itertools.pairwise(bounds):
        numbers, _ = block_rows(parts, options, epoch=1, start=start, stop=stop)
        for part in parts:
            own = int(((numbers >= part.first) & (numbers < part.first + part.size)).sum())
            assert abs(own - part.taken * (stop - start) / 40_000) <= 2
