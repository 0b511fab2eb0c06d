"""Choose the rows of an epoch, a block at a time.

An epoch takes a fixed number of rows of each split. A split is read in rounds: each round has all
rows once. An epoch of a mix may hold several rounds of a small split, and a large split continues
its round in the next epoch, so no row is skipped. An epoch of a single split is one round.

An epoch is planned a block at a time:

* `shuffle=True`: the epoch is one block.
* `shuffle="shards"`: the shards of a round are shuffled, and a block has the rows of `open_shards`
  of them. The first block has one shard, and the next ones four times as many each, so that
  training starts after one download.
* `shuffle=False`: a block has about a million consecutive rows; the first blocks have fewer.

Blocks end at whole windows (`epoch_plan.WINDOW`), so all batches but the last of the epoch are
full.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mslm_data.batches.batch_options import BatchOptions, RowNumbers
from mslm_data.data.ragged import count_up, make_offsets
from mslm_data.kernels.shuffle import shuffle
from mslm_data.mask.rng import make_stream

MAX_EPOCHS = 1 << 63
"""Epoch numbers are less than this."""

_UNSHUFFLED_ROWS = 1 << 20
"""Approximate number of rows of a block of rows that are not shuffled."""
_GROWTH = 4
"""Factor by which blocks grow, from the first on."""
_ROUND_STREAM = 0x0BDE
_SHARD_STREAM = 0x5A4D


class EpochPart(NamedTuple):
    """A split, as part of the rows of an epoch.

    Attributes:
        size: Number of its rows.
        taken: Number of rows that an epoch takes of it.
        first: Number of its first row, among the rows of all splits.
        shard_rows: Number of rows of each shard; empty without shards.
    """

    size: int
    taken: int
    first: int
    shard_rows: tuple[int, ...]


def find_parts(rows: Sized) -> list[EpochPart]:
    """Return the parts of a split, a mix, or any other object with a length."""
    if not hasattr(rows, "splits"):
        return [EpochPart(len(rows), len(rows), 0, tuple(getattr(rows, "shard_rows", ())))]

    parts = []
    first = 0
    for share in rows.splits:
        source = share.source
        parts.append(EpochPart(len(source), share.rows, first, source.shard_rows))
        first += len(source)
    return parts


def block_bounds(
    parts: Sequence[EpochPart], options: BatchOptions, *, epoch: int, window: int
) -> list[int]:
    """Return the first position of each block of an epoch, and the number of its rows.

    Args:
        parts: The splits.
        options: Only `shuffle`, `open_shards` and `seed` are read.
        epoch: In `[0, 2**63)`.
        window: Number of rows of a window; blocks begin at multiples of it.
    """
    size = sum(part.taken for part in parts)
    begins: list[int] = []
    if options.shuffle == "shards" and size:
        begins = _begins_by_shards(parts, options, epoch, size)
    elif not options.shuffle:
        begins = _begins_of_unshuffled(size, window)

    # The last block has at least a window, and so a step for each rank.
    inner = (begin // window * window for begin in begins if begin <= size - window)
    return sorted({0, size, *inner})


def block_rows(
    parts: Sequence[EpochPart], options: BatchOptions, *, epoch: int, start: int, stop: int
) -> tuple[RowNumbers, npt.NDArray[np.uint32] | None]:
    """Return the rows of a block, split by split. If they are shuffled, the caller does it.

    Args:
        parts: The splits.
        options: Only `shuffle` and `seed` are read.
        epoch: In `[0, 2**63)`.
        start: First position of the block in the epoch.
        stop: Position after the last.

    Returns:
        Row numbers: uint32 if all are below `2**32`, else int64, `[stop - start]`. And the round of
        each row within this epoch, uint32, or None if every epoch has all rows once.
    """
    stored = sum(part.size for part in parts)
    numbers = np.empty(stop - start, np.uint32 if stored <= 1 << 32 else np.int64)
    rounds = None
    if any(part.taken != part.size for part in parts):
        rounds = np.empty(stop - start, np.uint32)

    # Each split has its share of any block.
    filled = 0
    taken = [part.taken for part in parts]
    shares = zip(parts, _divide(start, taken), _divide(stop, taken), strict=True)
    for part, begin, end in shares:
        used = epoch * part.taken
        for number, first, past in _split_rounds(part.size, used + begin, used + end):
            here = slice(filled, filled + past - first)
            numbers[here] = _round_rows(part, options, number, first, past, numbers.dtype)
            # In place: another array would be the peak of the memory of a plan.
            np.add(numbers[here], numbers.dtype.type(part.first), out=numbers[here])
            if rounds is not None:
                rounds[here] = number - used // part.size
            filled = here.stop
    return numbers, rounds


def shuffled_numbers(count: int, *names: int) -> npt.NDArray[np.uint32]:
    """Return a permutation of the numbers below `count`, by the stream of some names."""
    numbers = np.arange(count, dtype=np.uint32)
    shuffle(make_stream(*names), numbers)
    return numbers


def _begins_of_unshuffled(size: int, window: int) -> list[int]:
    """Return the first position of each block but the first, of rows in stored order."""
    begins = []
    largest = max(window, _UNSHUFFLED_ROWS)
    begin = step = window
    while begin < size:
        begins.append(begin)
        step = min(_GROWTH * step, largest)
        begin += step
    return begins


def _begins_by_shards(
    parts: Sequence[EpochPart], options: BatchOptions, epoch: int, size: int
) -> list[int]:
    """Return the first position of each block but the first, of rows shuffled by shards."""
    # Of several splits, follow the one of which an epoch reads most shards. The others have their
    # share of each block, of fewer shards.
    part = max(parts, key=lambda part: len(part.shard_rows) * part.taken / part.size)
    begins = _shard_begins(part, options, epoch)

    first_shards = []
    shard = count = 1
    while shard < len(begins):
        first_shards.append(shard)
        count = min(_GROWTH * count, options.open_shards)
        shard += count
    return [begins[shard] * size // part.taken for shard in first_shards]


def _shard_begins(part: EpochPart, options: BatchOptions, epoch: int) -> list[int]:
    """Return the position of each shard's first row, among the rows that an epoch takes."""
    used = epoch * part.taken
    begins = [0]
    for number, first, past in _split_rounds(part.size, used, used + part.taken):
        shards = _shuffled_shards(part, options, number)
        for place in make_offsets(np.array(part.shard_rows, np.int64)[shards])[:-1].tolist():
            begin = number * part.size + place - used
            if first <= place < past and begin > begins[-1]:
                begins.append(begin)
    return begins


def _round_rows(
    part: EpochPart, options: BatchOptions, number: int, first: int, past: int, dtype: np.dtype[Any]
) -> RowNumbers:
    """Return the rows at positions `[first, past)` of a round of a split."""
    if options.shuffle == "shards":
        return _rows_by_shards(part, options, number, first, past)

    # A block that has the whole round shuffles it itself.
    is_whole = past - first == part.size
    if is_whole or not options.shuffle:
        return np.arange(first, past, dtype=dtype)

    rows = np.arange(part.size, dtype=dtype)
    shuffle(make_stream(_ROUND_STREAM, options.seed, number % MAX_EPOCHS), rows)
    return rows[first:past]


def _rows_by_shards(
    part: EpochPart, options: BatchOptions, number: int, first: int, past: int
) -> RowNumbers:
    """Return the rows at positions `[first, past)` of a round whose shards are shuffled."""
    shards = _shuffled_shards(part, options, number)
    stored = np.array(part.shard_rows, np.int64)
    offsets = make_offsets(stored[shards])

    # The range of positions of each shard, and the part of it that is wanted.
    starts = np.clip(offsets[:-1], first, past)
    stops = np.clip(offsets[1:], first, past)
    first_rows = make_offsets(stored)[:-1][shards] + starts - offsets[:-1]
    return count_up(first_rows, stops - starts)


def _shuffled_shards(part: EpochPart, options: BatchOptions, number: int) -> npt.NDArray[np.uint32]:
    """Return the order of the shards in a round."""
    return shuffled_numbers(len(part.shard_rows), _SHARD_STREAM, options.seed, number % MAX_EPOCHS)


def _split_rounds(size: int, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Split a range of a split's rows over all epochs: yield round, first and last position."""
    while start < stop:
        number, first = divmod(start, size)
        past = min(size, first + stop - start)
        yield number, first, past
        start += past - first


def _divide(place: int, taken: Sequence[int]) -> list[int]:
    """Return the number of rows of each split before a position of the epoch.

    Each split takes its rounded share of the places that earlier splits left, so no number
    decreases from one position to the next.
    """
    # In Python integers, since the products may exceed 64 bits.
    counts = []
    places_left = place
    rows_left = sum(taken)
    for rows in taken:
        count = (2 * places_left * rows + rows_left) // (2 * max(rows_left, 1))
        counts.append(count)
        places_left -= count
        rows_left -= rows
    return counts
