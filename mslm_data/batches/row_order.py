"""The rows of an epoch one after the other, found at any place without walking there."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from mslm_data.batches.batch_options import OPEN_SHARDS, BatchOptions, RowNumbers
from mslm_data.data.ragged import make_offsets
from mslm_data.kernels.rng import fold_in
from mslm_data.kernels.shuffle import shuffled, shuffled_among

MOST_EPOCHS = 1 << 63
"""Epochs are numbered below this."""

_ROW_STREAM = 0x0BDE
_SHARD_STREAM = 0x5A4D
_BLOCK_STREAM = 0xB10C


class ShardUses(NamedTuple):
    """Between which places of an epoch the rows of each shard come, in order of the first places.

    Attributes:
        shards: int64 `[S]`, their numbers.
        starts: int64 `[S]`, the place at which rows of each begin to come, rising.
        stops: int64 `[S]`, the place after the last, rising.
    """

    shards: RowNumbers
    starts: RowNumbers
    stops: RowNumbers


class RowOrder(Protocol):
    """Finds the row at each place of an epoch, as a pure function of the seed and the epoch."""

    @property
    def size(self) -> int:
        """Number of places, the same in each epoch."""

    def rows(self, start: int, stop: int, *, seed: int, epoch: int) -> RowNumbers:
        """Return the rows at places `[start, stop)` of an epoch.

        Args:
            start: First place.
            stop: Place after the last; at most `size`.
            seed: In `[0, 2**63)`.
            epoch: In `[0, 2**63)`.
        """

    def uses(self, *, seed: int, epoch: int) -> list[ShardUses | None]:
        """Return for each split between which places the rows of its shards come.

        None for a split whose shards' rows come at any places.
        """

    def described(self) -> dict[str, Any]:
        """Return what two orders must agree on to be the same, as JSON takes it."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Rows as they are stored.

    Attributes:
        size: Their number.
        shard_rows: Number of rows of each shard; empty where there are no shards.
    """

    size: int
    shard_rows: tuple[int, ...] = ()

    def rows(self, start: int, stop: int, *, seed: int, epoch: int) -> RowNumbers:  # noqa: ARG002
        """Return the rows at places `[start, stop)`, which are these numbers."""
        return np.arange(start, stop)

    def uses(self, *, seed: int, epoch: int) -> list[ShardUses | None]:  # noqa: ARG002
        """Return the places of each shard, None where there are no shards."""
        if not self.shard_rows:
            return [None]
        bounds = make_offsets(np.array(self.shard_rows, np.int64))
        return [ShardUses(np.arange(len(self.shard_rows)), bounds[:-1], bounds[1:])]

    def described(self) -> dict[str, Any]:
        """Return what two orders must agree on to be the same."""
        return {"rows": int(self.size), "shuffle": False}


@dataclass(frozen=True, slots=True)
class Shuffled:
    """All rows mixed, in an order that is computed and never held in memory.

    Attributes:
        size: Their number.
    """

    size: int

    def rows(self, start: int, stop: int, *, seed: int, epoch: int) -> RowNumbers:
        """Return the rows at places `[start, stop)` of the permutation of (seed, epoch)."""
        return shuffle_rows(start, stop, size=self.size, seed=seed, epoch=epoch)

    def uses(self, *, seed: int, epoch: int) -> list[ShardUses | None]:  # noqa: ARG002
        """Return None alone: rows of each shard come at any place."""
        return [None]

    def described(self) -> dict[str, Any]:
        """Return what two orders must agree on to be the same."""
        return {"rows": int(self.size), "shuffle": True}


@dataclass(frozen=True, slots=True)
class ByShards:
    """Shards in an order of their own, and the rows of some of them mixed at a time.

    The rows of each shard are mixed and cut into `open_shards` pieces. A block of the epoch takes
    one piece from each of so many shards that follow each other in the shards' order, and mixes
    them:

        block          0    1    2    3    4
        first shard    0    1    2
        second              0    1    2
        third                    0    1    2
        fourth                        0    1, 2
        fifth                              0, 1, 2

    So each block needs one shard more than the one before and is done with another, the first block
    needs a single shard, and the last takes all pieces that are left.

    Attributes:
        shard_rows: Number of rows of each shard.
        open_shards: Number of shards whose rows are mixed at a time.
    """

    shard_rows: tuple[int, ...]
    open_shards: int = OPEN_SHARDS

    @property
    def size(self) -> int:
        """Number of places."""
        return sum(self.shard_rows)

    def rows(self, start: int, stop: int, *, seed: int, epoch: int) -> RowNumbers:
        """Return the rows at places `[start, stop)` of the order of (seed, epoch)."""
        blocks = _blocks(self.shard_rows, self.open_shards, seed, epoch)
        out = np.empty(stop - start, np.int64)
        done = start
        while done < stop:
            block = int(np.searchsorted(blocks.starts, done, side="right")) - 1
            begin, end = blocks.starts[block : block + 2].tolist()
            until = min(stop, end)

            # Which piece each place draws from, and which of the piece's rows.
            stream = make_stream(_BLOCK_STREAM, seed, epoch, block)
            drawn = shuffled_part(done - begin, until - begin, size=end - begin, stream=stream)
            pieces = blocks.pieces(block)
            bounds = make_offsets(pieces.sizes)
            piece = np.searchsorted(bounds, drawn, side="right") - 1
            drawn += (pieces.firsts - bounds[:-1])[piece]

            # A piece is of the shard's mixed rows.
            stream = make_stream(_ROW_STREAM, seed, epoch)
            rows = out[done - start : until - start]
            sizes = blocks.shard_rows[pieces.shards]
            shuffled_among(drawn, piece, stream, pieces.shards, sizes, rows)
            rows += blocks.shard_firsts[pieces.shards][piece]
            done = until
        return out

    def uses(self, *, seed: int, epoch: int) -> list[ShardUses | None]:
        """Return the places of the blocks that each shard has pieces in."""
        blocks = _blocks(self.shard_rows, self.open_shards, seed, epoch)
        count = len(blocks.shards)
        last = np.minimum(np.arange(count) + blocks.open_shards, count)
        return [ShardUses(blocks.shards, blocks.starts[:-1], blocks.starts[last])]

    def described(self) -> dict[str, Any]:
        """Return what two orders must agree on to be the same."""
        return {
            "rows": int(self.size),
            "shuffle": "shards",
            "open_shards": int(self.open_shards),
            "shards": f"{len(self.shard_rows)}, {int(make_stream(*self.shard_rows)):016x}",
        }


class _Pieces(NamedTuple):
    """The pieces of shards that a block takes.

    Attributes:
        shards: int64 `[P]`, the shard of each.
        firsts: int64 `[P]`, where each begins among the shard's mixed rows.
        sizes: int64 `[P]`, number of rows of each.
    """

    shards: RowNumbers
    firsts: RowNumbers
    sizes: RowNumbers


class _Blocks(NamedTuple):
    """The blocks of an epoch, as many as there are shards.

    Attributes:
        shards: int64 `[S]`, the shards in the order in which they come.
        starts: int64 `[S + 1]`, where each block begins.
        shard_rows: int64 `[S]`, number of rows of each shard, as stored.
        shard_firsts: int64 `[S]`, first row of each.
        open_shards: Pieces that each shard is cut into.
    """

    shards: RowNumbers
    starts: RowNumbers
    shard_rows: RowNumbers
    shard_firsts: RowNumbers
    open_shards: int

    def pieces(self, block: int) -> _Pieces:
        """Return the pieces of a block: the newest shard's first one, the one before's second."""
        first = max(0, block - self.open_shards + 1)
        ages = np.arange(block - first, -1, -1)
        shards = self.shards[first : block + 1]
        rows = self.shard_rows[shards]
        firsts = rows * ages // self.open_shards
        if block == len(self.shards) - 1:
            return _Pieces(shards, firsts, rows - firsts)
        return _Pieces(shards, firsts, rows * (ages + 1) // self.open_shards - firsts)


@lru_cache(maxsize=16)
def _blocks(shard_rows: tuple[int, ...], open_shards: int, seed: int, epoch: int) -> _Blocks:
    """Lay out the blocks of an epoch."""
    rows = np.array(shard_rows, np.int64)
    count = len(rows)
    pieces = max(1, min(open_shards, count))
    shards = shuffled_part(0, count, size=count, stream=make_stream(_SHARD_STREAM, seed, epoch))

    sizes = np.zeros(count, np.int64)
    ordered = rows[shards]
    for age in range(pieces):
        taken = ordered * (age + 1) // pieces - ordered * age // pieces
        np.add.at(sizes, np.minimum(np.arange(count) + age, count - 1), taken)
    return _Blocks(shards, make_offsets(sizes), rows, make_offsets(rows)[:-1], pieces)


def row_order(rows: Sized, options: BatchOptions) -> RowOrder:
    """Return the order of the rows of a split, a dataset, or anything else of some length.

    Args:
        rows: Which rows. A mix, and a dataset, have `row_order`, an order of their own; a split has
            `shard_rows`, the number of rows of each shard.
        options: `shuffle` and `open_shards`.

    Raises:
        ValueError: Shards are to be mixed, and the rows are of none.
    """
    own_order = getattr(rows, "row_order", None)
    if own_order is not None:
        order: RowOrder = own_order(options)
        return order

    shard_rows = tuple(getattr(rows, "shard_rows", ()))
    if isinstance(options.shuffle, str):
        if not hasattr(rows, "shard_rows"):
            raise ValueError(
                "shuffle: expected a dataset that has `shard_rows` for 'shards', got one without; "
                "use a MaskedDataset, or shuffle=True"
            )
        return ByShards(shard_rows, int(options.open_shards))

    return Shuffled(len(rows)) if options.shuffle else Stored(len(rows), shard_rows)


def shuffle_rows(start: int, stop: int, *, size: int, seed: int, epoch: int) -> RowNumbers:
    """Return the rows at places `[start, stop)` of the shuffled order of an epoch.

    Args:
        start: First place.
        stop: Place after the last; at most `size`.
        size: Rows of the split.
        seed: In `[0, 2**63)`.
        epoch: In `[0, 2**63)`; each has an order of its own.
    """
    return shuffled_part(start, stop, size=size, stream=make_stream(_ROW_STREAM, seed, epoch))


def shuffled_in_rounds(
    places: RowNumbers, rounds: RowNumbers, *, size: int, seed: int, first_round: int
) -> RowNumbers:
    """Return the rows at any places of several shuffled epochs, which are called rounds here.

    Args:
        places: int64 `[R]`, each below `size`.
        rounds: int64 `[R]`, the round that each is in, counted from the first.
        size: Rows of the split.
        seed: In `[0, 2**63)`.
        first_round: Number of the first.
    """
    numbers, round_of_place = np.unique(rounds, return_inverse=True)
    epochs = [(first_round + number) % MOST_EPOCHS for number in numbers.tolist()]
    stream = make_stream(_ROW_STREAM, seed)
    sizes = np.full(len(epochs), size, np.int64)

    out = np.empty(len(places), np.int64)
    shuffled_among(places, round_of_place, stream, np.array(epochs, np.int64), sizes, out)
    return out


def shuffled_part(start: int, stop: int, *, size: int, stream: np.uint64) -> RowNumbers:
    """Return what stands at places `[start, stop)` of the order of `size` numbers.

    Args:
        start: First place.
        stop: Place after the last; at most `size`.
        size: How many numbers are in order, from 0.
        stream: Draws the order.
    """
    half_bits = max(1, -(-(size - 1).bit_length() // 2))  # of the numbers' bits, rounded up
    out = np.empty(stop - start, np.int64)
    shuffled(start, stream, size, half_bits, out)
    return out


def make_stream(*names: int) -> np.uint64:
    """Return the stream of draws that these numbers name, each folded into the one before."""
    stream = np.uint64(0)
    for name in names:
        stream = np.uint64(fold_in(stream, name))

    return stream
