"""Options of batches: defaults, refusals and descriptions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mslm_data.batches.batch_options import BatchOptions, check_size


@pytest.mark.parametrize(
    ("options", "bucketed"),
    [
        ({}, True),
        ({"batch_tokens": 64}, True),
        ({"shuffle": "shards"}, True),
        ({"shuffle": False}, False),
        ({"flat": True}, False),
        ({"shuffle": False, "bucketed": True}, True),
        ({"bucketed": False}, False),
    ],
)
def test_options__bucket_rows_that_are_shuffled_and_padded(
    options: dict[str, Any], bucketed: bool
) -> None:
    assert BatchOptions(**options).bucketed is bucketed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size: expected an integer of at least 1, got 0"),
        ({"batch_size": "32"}, "batch_size: expected an integer of at least 1, got '32'"),
        ({"batch_size": 2.0}, "batch_size: expected an integer of at least 1, got 2.0"),
        ({"batch_size": True}, "batch_size: expected an integer of at least 1, got True"),
        ({"batch_tokens": 0}, "batch_tokens: expected an integer of at least 1, got 0"),
        ({"multiple_of": 0}, "multiple_of: expected an integer of at least 1, got 0"),
        ({"flat": 1}, "flat: expected True or False, got 1"),
        ({"bucketed": 1}, "bucketed: expected True or False, got 1"),
        ({"drop_last": None}, "drop_last: expected True or False, got None"),
        ({"shuffle": "yes"}, "shuffle: expected True, False or 'shards', got 'yes'"),
        ({"shuffle": 1}, "shuffle: expected True, False or 'shards', got 1"),
        ({"open_shards": 0}, "open_shards: expected an integer of at least 1, got 0"),
        ({"seed": -1}, "seed: expected an integer in"),
        ({"bucketed": True, "flat": True}, "bucketed: expected False for flat rows"),
        ({"batch_size": 8, "batch_tokens": 64}, "batch_size, batch_tokens: expected one of them"),
    ],
)
def test_options__rejects_incompatible_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BatchOptions(**options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "32 rows"),
        ({"batch_size": 1000}, "1,000 rows"),
        ({"batch_tokens": 16_384}, "16,384 tokens"),
        ({"batch_tokens": 16_384, "flat": True}, "16,384 tokens in one flat row"),
        ({"batch_size": 8, "flat": True}, "8 rows in one flat row"),
    ],
)
def test_options__says_what_a_batch_is(options: dict[str, Any], says: str) -> None:
    assert BatchOptions(**options).describe_size() == says


def test_check_size__takes_integers_of_numpy() -> None:
    check_size("batch_size", np.int32(4))
