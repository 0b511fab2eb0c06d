"""Plan the batches of an epoch as two arrays: row numbers, and the first row of each batch.

A plan is a pure function of rows, options and epoch. There are four steps:

1. Rows: `block_rows` chooses the rows of the epoch, or of a block of it. They are shuffled.
2. Windows: rows are cut into windows of about `WINDOW` batches. With `bucketed`, the rows of a
   window are sorted by length.
3. Batches: the rows of a window are cut into batches, by number of rows or of tokens.
4. With `bucketed`, the batches of a window are shuffled. Without this, training would go from the
   longest rows to the shortest in each window.

While it is made, a plan takes 8 bytes a row, and then 4 (12 and 8 with more than `2**32` rows), and
12 bytes a batch.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mslm_data.batches.batch_options import BatchOptions, RowNumbers
from mslm_data.batches.blocks import (
    block_bounds,
    block_rows,
    find_parts,
    shuffled_numbers,
)
from mslm_data.data.ragged import count_up
from mslm_data.kernels.packing import cut_to_budget
from mslm_data.kernels.shuffle import shuffle
from mslm_data.mask.rng import make_stream

Int64 = npt.NDArray[np.int64]

WINDOW = 64
"""Number of batches in a window.

A larger window brings rows of more similar length together, but shuffles them less well.
"""
_ROWS_AT_ONCE = 1 << 20
"""Number of rows whose lengths are read at once."""
_BLOCK_STREAM = 0xB10C
_BATCH_STREAM = 0xBA7C
_LONGEST_KEY = np.iinfo(np.uint16).max


class EpochPlan(NamedTuple):
    """The batches of an epoch, or of a block of it.

    Attributes:
        rows: uint32 or int64 `[R]`, row numbers in the order of training.
        bounds: int64 `[B + 1]`, first row of each batch in `rows`, and R.
        tokens: uint32 `[B]`, number of tokens of each batch.
        rounds: uint32 `[R]`, how often the epoch has used each row before, for mixes that repeat
            rows. None if every epoch has all rows once.
    """

    rows: RowNumbers
    bounds: Int64
    tokens: npt.NDArray[np.uint32]
    rounds: npt.NDArray[np.uint32] | None

    @property
    def num_batches(self) -> int:
        """Number of batches."""
        return len(self.bounds) - 1


def plan_epoch(rows: Sized, options: BatchOptions, epoch: int, *, block: int = 0) -> EpochPlan:
    """Plan the batches of an epoch. With blocks (see `blocks`), plan one of them.

    Args:
        rows: A split, a mix, or any object with a length, `lengths` (a function from row numbers to
            numbers of tokens), `tokens` (their sum) and `shard_rows`.
        options: Size and form of the batches, and the seed.
        epoch: In `[0, 2**63)`.
        block: Number of the block.

    Raises:
        ValueError: A row is longer than `batch_tokens`.
        FetchError: A remote shard is unreachable.
        ShardError: A shard is missing or damaged.
    """
    parts = find_parts(rows)
    window = window_rows(rows, options)
    bounds = block_bounds(parts, options, epoch=epoch, window=window)
    start, stop = bounds[block : block + 2]
    numbers, rounds = block_rows(parts, options, epoch=epoch, start=start, stop=stop)
    lengths = _read_lengths(rows, numbers)
    lengths += np.uint32(options.margin)
    if options.is_by_tokens:
        check_row_lengths(lengths, options)

    columns = [numbers, lengths] if rounds is None else [numbers, lengths, rounds]
    if options.shuffle:
        for column in columns:
            shuffle(make_stream(_BLOCK_STREAM, options.seed, epoch, block), column)

    if options.bucketed or options.is_by_tokens:
        batch_sizes = _cut_windows(columns, lengths, window, options, (epoch, block))
    else:
        batch_sizes = _cut_rows(len(numbers), options)

    # Rows after the last batch are dropped.
    bounds_out = np.zeros(len(batch_sizes) + 1, np.int64)
    np.cumsum(batch_sizes, out=bounds_out[1:])
    kept = int(bounds_out[-1])
    # Without this dtype, NumPy would convert all lengths to 64 bits first.
    tokens = np.add.reduceat(lengths[:kept], bounds_out[:-1], dtype=np.uint32)
    return EpochPlan(
        rows=numbers[:kept],
        bounds=bounds_out,
        tokens=tokens - np.uint32(options.margin) * batch_sizes.astype(np.uint32),
        rounds=None if rounds is None else rounds[:kept],
    )


def window_rows(rows: Any, options: BatchOptions) -> int:
    """Return the number of rows of a window. It does not depend on their order."""
    if options.batch_tokens is None:
        return WINDOW * (options.batch_size or 1)

    # The average number of rows in WINDOW batches by tokens.
    budget = WINDOW * options.batch_tokens
    tokens = int(rows.tokens) + options.margin * len(rows)
    return max(WINDOW, budget * len(rows) // max(tokens, 1))


def check_row_lengths(lengths: npt.NDArray[Any], options: BatchOptions) -> None:
    """Check that every row fits into a batch by tokens.

    Raises:
        ValueError: A row is longer than `batch_tokens`.
    """
    tokens = options.batch_tokens or 0
    capacity = tokens - tokens % options.multiple_of
    longest = int(lengths.max(initial=0))
    if longest > capacity:
        raise ValueError(
            f"batch_tokens: expected room for a row of {longest} tokens, got {capacity}; pass the "
            "encode.max_tokens of the build, the maximum length of a row, or build with a smaller "
            "one"
        )


def _read_lengths(rows: Any, numbers: RowNumbers) -> npt.NDArray[np.uint32]:
    """Return the number of tokens of each row."""
    lengths = np.empty(len(numbers), np.uint32)
    for first in range(0, len(numbers), _ROWS_AT_ONCE):
        here = slice(first, first + _ROWS_AT_ONCE)
        lengths[here] = rows.lengths(numbers[here])
    return lengths


def _cut_rows(count: int, options: BatchOptions) -> Int64:
    """Return the number of rows of each batch, for consecutive rows."""
    size = options.batch_size or 1
    sizes = np.full(-(-count // size), size, np.int64)
    if count % size:
        sizes[-1] = count % size
    return sizes[sizes == size] if options.drop_last else sizes


def _cut_windows(
    columns: Sequence[npt.NDArray[Any]],
    lengths: npt.NDArray[np.uint32],
    window: int,
    options: BatchOptions,
    names: tuple[int, int],
) -> Int64:
    """Order the rows of each window, and cut them into batches.

    Args:
        columns: `[R]` each, reordered: the row numbers, and other columns of the same rows.
        lengths: uint32 `[R]`, number of tokens of each row; one of `columns`.
        window: Number of rows of a window.
        options: Options of the batches.
        names: Epoch and block, for the random streams.

    Returns:
        int64 `[B]`, number of rows of each batch.
    """
    sizes_per_window = []
    for number, first in enumerate(range(0, len(lengths), window)):
        here = slice(first, first + window)
        order = np.arange(len(lengths[here]))
        if options.bucketed:
            # Longest first. NumPy sorts 16-bit keys by radix, ten times as fast as others.
            keys = _LONGEST_KEY - np.minimum(lengths[here], _LONGEST_KEY).astype(np.uint16)
            order = np.argsort(keys, kind="stable")

        sizes = _cut(lengths[here][order], options)
        if options.bucketed:
            batches = shuffled_numbers(len(sizes), _BATCH_STREAM, options.seed, *names, number)
            firsts = np.cumsum(sizes) - sizes
            order = order[count_up(firsts[batches], sizes[batches])]
            sizes = sizes[batches]

        sizes_per_window.append(sizes)
        for column in columns:
            column[first : first + len(order)] = column[here][order]
    return np.concatenate([np.zeros(0, np.int64), *sizes_per_window])


def _cut(lengths: npt.NDArray[np.uint32], options: BatchOptions) -> Int64:
    """Return the number of rows of each batch of a window."""
    if options.batch_tokens is None:
        return _cut_rows(len(lengths), options)

    firsts = np.empty(len(lengths), np.int64)
    count = cut_to_budget(lengths, options.batch_tokens, options.multiple_of, options.flat, firsts)
    return np.diff(firsts[:count], append=len(lengths))
