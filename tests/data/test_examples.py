"""Rows made from arrays alone."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import mslm_data as md
from mslm_data.data.examples import Examples, concatenate, take
from mslm_data.data.ragged import Ragged


def columns_of(examples: Examples) -> list[Any]:
    columns = (
        examples.input_ids,
        examples.word_ids,
        examples.bio,
        examples.span_starts,
        examples.span_ends,
        examples.span_labels,
    )
    return [examples.keys.tolist(), *(column.tolist() for column in columns)]


def test_examples__are_rows_of_units() -> None:
    made = md.examples([4, 0, 2], keys=[7, 8, 9], spans=[[(1, 3), (3, 4)], [], [[0, 1]]])

    assert columns_of(made) == [
        [7, 8, 9],
        [[0, 0, 0, 0], [], [0, 0]],
        [[0, 1, 2, 3], [], [0, 1]],
        [[0, 1, 2, 1], [], [1, 0]],
        [[1, 3], [], [0]],
        [[3, 4], [], [1]],
        [[0, 0], [], [0]],
    ]


def test_examples__have_the_types_of_shards() -> None:
    made = md.examples(np.array([3, 3], np.int16), keys=[0, 1], spans=[[(0, 1)], []])

    assert made.keys.dtype == np.uint64
    assert made.bio.values.dtype == made.span_labels.values.dtype == np.int16
    for column in (made.input_ids, made.word_ids, made.span_starts, made.span_ends):
        assert column.values.dtype == np.int32
        assert column.offsets.dtype == np.int64


@pytest.mark.parametrize("keys", [[2**64 - 1], [-1], np.array([-1], np.int64)])
def test_examples__keep_the_bits_of_keys(keys: Any) -> None:
    assert md.examples([1], keys=keys).keys.tolist() == [2**64 - 1]


def test_examples__leave_the_arrays_of_the_caller_as_they_are() -> None:
    made = md.examples([3, 4], keys=[0, 1], spans=[[(1, 2)], []])
    keys = np.array([0, 1], np.uint64)
    starts = Ragged(made.span_starts.values.copy(), made.span_starts.offsets)

    dataclasses.replace(made, keys=keys, span_starts=starts)

    keys[0] = starts.values[0] = 0


def test_examples__cannot_be_written() -> None:
    rows = md.examples([3, 4], keys=[0, 1], spans=[[(1, 2)], []])

    columns = (rows.input_ids, rows.word_ids, rows.span_starts, rows.span_ends)
    for array in (rows.keys, *(column.values for column in columns)):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_examples__of_no_rows() -> None:
    made = md.examples([], keys=[])

    assert len(made) == 0
    assert columns_of(made) == [[]] * 7


def test_examples__take_and_concatenate_move_all_columns() -> None:
    made = md.examples([4, 0, 2], keys=[7, 8, 9], spans=[[(1, 3)], [], [(0, 1)]])

    turned = concatenate([take(made, np.array([2])), take(made, np.array([0, 1]))])

    assert columns_of(take(turned, np.array([1, 2, 0]))) == columns_of(made)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"lengths": [3, -1], "keys": [0, 1]},
            r"^lengths: expected 0 or more, got -1 for row 1$",
        ),
        (
            {"lengths": [3.0], "keys": [0]},
            r"^lengths: expected integers of 64 bits in one dimension, got float64 of shape \(1,\)$",
        ),
        ({"lengths": 3, "keys": [0]}, r"^lengths: expected integers .* of shape \(\)$"),
        ({"lengths": [[3]], "keys": [0]}, r"^lengths: expected integers .* of shape \(1, 1\)$"),
        ({"lengths": [3], "keys": [0, 1]}, r"^keys: expected 1, one for each length, got 2$"),
        ({"lengths": [3], "keys": ["a"]}, r"^keys: expected integers of 64 bits"),
        ({"lengths": [3], "keys": [2**64]}, r"^keys: expected integers of 64 bits"),
        (
            {"lengths": [3, 3], "keys": [0, 1], "spans": [[]]},
            r"^spans: expected 2 rows, one for each length, got 1$",
        ),
        (
            {"lengths": [3], "keys": [0], "spans": [[(0, 1, 2)]]},
            r"^spans: row 0: expected a list of \(start, end\) pairs of integers$",
        ),
        ({"lengths": [3], "keys": [0], "spans": [[(0,), (1, 2)]]}, r"^spans: row 0: expected"),
        ({"lengths": [3], "keys": [0], "spans": [(0, 1)]}, r"^spans: row 0: expected"),
        ({"lengths": [3], "keys": [0], "spans": [[(0.0, 1.0)]]}, r"^spans: row 0: expected"),
        ({"lengths": [3], "keys": [0], "spans": [1]}, r"^spans: row 0: expected"),
        (
            {"lengths": [3, 3], "keys": [0, 1], "spans": [[], [(0, 4)]]},
            r"^row 1: mentions must be sorted, must not overlap, and must end within the row$",
        ),
        ({"lengths": [3], "keys": [0], "spans": [[(1, 1)]]}, r"^row 0: mentions must be"),
        ({"lengths": [3], "keys": [0], "spans": [[(-1, 1)]]}, r"^row 0: mentions must be"),
        ({"lengths": [3], "keys": [0], "spans": [[(1, 2), (0, 1)]]}, r"^row 0: mentions must be"),
        ({"lengths": [3], "keys": [0], "spans": [[(0, 2), (1, 3)]]}, r"^row 0: mentions must be"),
        ({"lengths": [3], "keys": [0], "spans": [[(0, 2**40)]]}, r"^row 0: mentions must be"),
    ],
)
def test_examples__refuse(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        md.examples(**arguments)


def test_repr__of_masked_rows_has_no_ids() -> None:
    rows = Ragged.from_rows([[2, 4711, 3]], np.int32)

    assert "4711" not in repr(rows)
    assert repr(rows) == "Ragged(offsets=array([0, 3]))"


def test_repr__has_counts_and_no_ids() -> None:
    rows = md.examples([4, 0, 2000], keys=[7, 8, 9], spans=[[(1, 3), (3, 4)], [], [[0, 1]]])

    assert repr(rows) == "Examples(3 rows, 2,004 tokens, 3 mentions)"
