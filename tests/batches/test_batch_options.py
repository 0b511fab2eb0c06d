"""Batches by number of rows or of tokens, padded or packed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.batches.batch_options import BatchOptions, RowBatch, check_size, pack, share_batches

BY_TOKENS: list[dict[str, Any]] = [
    {"batch_tokens": 60},
    {"batch_tokens": 60, "multiple_of": 4},
    {"batch_size": 3, "row_tokens": 25},
    {"batch_size": 1, "row_tokens": 70},
    {"batch_tokens": 60, "flat": True},
    {"batch_tokens": 60, "flat": True, "multiple_of": 8},
]
some_lengths = st.lists(st.integers(1, 20), min_size=1, max_size=60)


def as_they_are(count: int) -> npt.NDArray[np.int64]:
    return np.arange(count)


def lists(batch: RowBatch) -> list[list[int]]:
    """Return the rows of each row of a batch: several if they are packed."""
    if batch.packs is None:
        return [[row] for row in batch.rows.tolist()]
    return [part.tolist() for part in np.split(batch.rows, batch.packs[1:-1])]


def assert_fits(batch: RowBatch, lengths: Mapping[int, int], options: Mapping[str, Any]) -> None:
    """Check a batch against its options."""
    filled = [sum(lengths[row] for row in rows) for rows in lists(batch)]
    multiple = options.get("multiple_of", 1)
    width = -(-max(filled) // multiple) * multiple

    assert all(filled)
    assert len(filled) * width <= options.get("batch_tokens", np.inf)
    assert max(filled) <= options.get("row_tokens", np.inf)
    assert len(filled) <= options.get("batch_size", np.inf)
    assert len(filled) == 1 or not options.get("flat")


@pytest.mark.parametrize("options", BY_TOKENS)
@given(lengths=some_lengths)
def test_cut__has_each_row_once_within_the_budget(
    options: dict[str, Any], lengths: list[int]
) -> None:
    rows = np.arange(len(lengths)) + 100

    batches = BatchOptions(**options).cut(rows, np.array(lengths), as_they_are)

    assert sorted(row for batch in batches for row in batch.rows.tolist()) == rows.tolist()
    for batch in batches:
        assert_fits(batch, dict(zip(rows.tolist(), lengths, strict=True)), options)


def test_cut__of_padded_rows_keeps_their_order() -> None:
    lengths = np.array([5, 3, 20, 1, 1, 9])

    batches = BatchOptions(batch_tokens=20).cut(np.arange(6), lengths, as_they_are)

    assert [batch.rows.tolist() for batch in batches] == [[0, 1], [2], [3, 4], [5]]


@given(some_lengths, st.integers(20, 200))
def test_pack__leaves_few_packs_half_empty(lengths: list[int], capacity: int) -> None:
    """At most one pack is half empty, since two could be joined."""
    packed = pack(np.array(lengths), capacity)

    filled = [sum(lengths[row] for row in rows) for rows in packed]
    assert sum(2 * tokens <= capacity for tokens in filled) <= 1


def test_pack__fills_rows_with_sentences() -> None:
    """For lengths of sentences, padding is less than 1 % of the packed rows."""
    lengths = np.random.default_rng(0).gamma(3, 13, 20_000).astype(np.int64).clip(3, 512)

    packed = pack(lengths, 1024)

    assert lengths.sum() / (1024 * len(packed)) > 0.99


def test_pack__of_nothing_is_nothing() -> None:
    assert pack(np.empty(0, np.int64), 8) == []


@pytest.mark.parametrize("options", BY_TOKENS)
@given(lengths=some_lengths, world=st.integers(1, 9))
def test_share_batches__gives_each_rank_a_batch_within_the_budget(
    options: dict[str, Any], lengths: list[int], world: int
) -> None:
    rows = np.arange(len(lengths))
    batches = BatchOptions(**options).cut(rows, np.array(lengths), as_they_are)[:world]

    shares = share_batches(batches, world)

    assert len(shares) == world
    given_rows = [row for batch in batches for row in batch.rows.tolist()]
    shared = [row for share in shares for row in share.rows.tolist()]
    assert set(shared) == set(given_rows)
    assert len(shared) == max(len(given_rows), world)
    for share in shares:
        assert_fits(share, dict(enumerate(lengths)), options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size: expected an integer of at least 1, got 0"),
        ({"batch_size": "32"}, "batch_size: expected an integer of at least 1, got '32'"),
        ({"batch_size": 2.0}, "batch_size: expected an integer of at least 1, got 2.0"),
        ({"batch_size": True}, "batch_size: expected an integer of at least 1, got True"),
        ({"batch_tokens": 0}, "batch_tokens: expected an integer of at least 1, got 0"),
        ({"row_tokens": -1}, "row_tokens: expected an integer of at least 1, got -1"),
        ({"multiple_of": 0}, "multiple_of: expected an integer of at least 1, got 0"),
        ({"flat": 1}, "flat: expected True or False, got 1"),
        ({"bucketed": 1}, "bucketed: expected True or False, got 1"),
        ({"drop_last": None}, "drop_last: expected True or False, got None"),
        ({"shuffle": "yes"}, "shuffle: expected True, False or 'shards', got 'yes'"),
        ({"shuffle": 1}, "shuffle: expected True, False or 'shards', got 1"),
        ({"open_shards": 0}, "open_shards: expected an integer of at least 1, got 0"),
        ({"seed": -1}, "seed: expected an integer in"),
        ({"bucketed": True, "flat": True}, "bucketed: expected False for packed rows"),
        ({"batch_size": 8, "batch_tokens": 64}, "batch_size, batch_tokens: expected one of them"),
        (
            {"batch_tokens": 64, "row_tokens": 16},
            "batch_tokens: expected batch_size beside row_tokens, .*; pass batch_size=4",
        ),
        (
            {"row_tokens": 16, "flat": True},
            "flat: expected False beside row_tokens; .*batch_tokens",
        ),
    ],
)
def test_options__rejects_incompatible_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BatchOptions(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_tokens": 9}, "batch_tokens: expected room for a row of 10 tokens, got 9"),
        ({"batch_tokens": 10, "multiple_of": 8}, "batch_tokens: .* a row of 10 tokens, got 8"),
        ({"batch_tokens": 9, "flat": True}, "batch_tokens: .* a row of 10 tokens, got 9"),
        (
            {"row_tokens": 9},
            "row_tokens: .* a row of 10 tokens, got 9; pass the encode.max_",
        ),
    ],
)
def test_cut__rejects_a_row_longer_than_a_batch(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BatchOptions(**options).cut(np.arange(2), np.array([3, 10]), as_they_are)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "32 rows"),
        ({"batch_size": 1000}, "1,000 rows"),
        ({"batch_tokens": 16_384}, "16,384 tokens"),
        ({"batch_tokens": 16_384, "flat": True}, "16,384 tokens in one flat row"),
        ({"batch_size": 8, "flat": True}, "8 rows in one flat row"),
        ({"batch_size": 8, "row_tokens": 1024}, "8 packed rows of 1,024 tokens"),
    ],
)
def test_options__says_what_a_batch_is(options: dict[str, Any], says: str) -> None:
    assert BatchOptions(**options).describe_size() == says


def test_check_size__takes_integers_of_numpy() -> None:
    check_size("batch_size", np.int32(4))
