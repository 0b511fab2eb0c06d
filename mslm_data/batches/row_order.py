"""Compute the row at any position of an epoch, without the rows before it.

Three orders: `Stored`, `Shuffled`, and `ByShards`, which reads only a few shards at a time. `Mix`
has its own, `MixedOrder` in `mix.py`.
"""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from mslm_data.batches.batch_options import OPEN_SHARDS, BatchOptions, RowNumbers
from mslm_data.data.ragged import make_offsets
from mslm_data.kernels.rng import fold_in
from mslm_data.kernels.shuffle import shuffle_places, shuffle_range

MAX_EPOCHS = 1 << 63
"""Epoch numbers are less than this."""

_ROW_STREAM = 0x0BDE
_SHARD_STREAM = 0x5A4D
_BLOCK_STREAM = 0xB10C


class ShardUses(NamedTuple):
    """The range of positions in which an epoch reads each shard, sorted by start.

    Ranges of different shards may overlap.

    Attributes:
        shards: int64 `[S]`, shard numbers.
        starts: int64 `[S]`, first position of each range, ascending.
        stops: int64 `[S]`, position after the last, ascending.
    """

    shards: RowNumbers
    starts: RowNumbers
    stops: RowNumbers


class RowOrder(Protocol):
    """The order of the rows of an epoch, a pure function of the seed and the epoch."""

    @property
    def size(self) -> int:
        """Number of rows of an epoch, the same in each."""

    def rows(self, start: int, stop: int, *, seed: int, epoch: int) -> RowNumbers:
        """Return the row numbers at positions `[start, stop)` of an epoch.

        Args:
            start: First position.
            stop: Position after the last, at most `size`.
            seed: In `[0, 2**63)`.
            epoch: In `[0, 2**63)`.
        """

    def shard_uses(self, *, seed: int, epoch: int) -> list[ShardUses | None]:
        """Return when an epoch reads each shard that has rows: an item per split.

        The item is None if rows come from any shard at any position.
        """

    def describe(self) -> dict[str, Any]:
        """Return the settings that identify this order, for JSON. Equal settings, equal order."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Rows in the order in which they are stored.

    Attributes:
        size: Number of rows.
        shard_rows: Number of rows of each shard; empty without shards.
    """

    size: int
    shard_rows: tuple[int, ...] = ()

    def rows(self, start: int, stop: int, *, seed: int, epoch: int) -> RowNumbers:  # noqa: ARG002
        """Return `[start, stop)`: position and row number are equal."""
        return np.arange(start, stop)

    def shard_uses(self, *, seed: int, epoch: int) -> list[ShardUses | None]:  # noqa: ARG002
        """Return the rows of each shard as its range, or None without shards."""
        if not self.shard_rows:
            return [None]
        bounds = make_offsets(np.array(self.shard_rows, np.int64))
        read = np.flatnonzero(self.shard_rows)
        return [ShardUses(read, bounds[:-1][read], bounds[1:][read])]

    def describe(self) -> dict[str, Any]:
        """Return the settings that identify this order."""
        return {"rows": int(self.size), "shuffle": False}


@dataclass(frozen=True, slots=True)
class Shuffled:
    """All rows shuffled together. The order is computed, never held in memory.

    Attributes:
        size: Number of rows.
    """

    size: int

    def rows(self, start: int, stop: int, *, seed: int, epoch: int) -> RowNumbers:
        """Return the row numbers at positions `[start, stop)` of an epoch's permutation."""
        return shuffle_rows(start, stop, size=self.size, seed=seed, epoch=epoch)

    def shard_uses(self, *, seed: int, epoch: int) -> list[ShardUses | None]:  # noqa: ARG002
        """Return None: rows come from any shard at any position."""
        return [None]

    def describe(self) -> dict[str, Any]:
        """Return the settings that identify this order."""
        return {"rows": int(self.size), "shuffle": True}


@dataclass(frozen=True, slots=True)
class ByShards:
    """Shuffled shards, with the rows of `open_shards` of them shuffled together.

    The shards are shuffled. The rows of each shard are shuffled too, and cut into `open_shards`
    pieces. Each block of the epoch shuffles one piece of `open_shards` consecutive shards. The
    table shows the pieces in each block for five shards and `open_shards=3`:

        block          0    1    2    3    4
        first shard    0    1    2
        second              0    1    2
        third                    0    1    2
        fourth                        0    1, 2
        fifth                              0, 1, 2

    Each block opens one more shard and finishes another. The first block reads a single shard, so
    training starts after one download. The last block takes all remaining pieces.

    Attributes:
        shard_rows: Number of rows of each shard.
        open_shards: Number of shards that are shuffled together. Default: 16.
    """

    shard_rows: tuple[int, ...]
    open_shards: int = OPEN_SHARDS

    @property
    def size(self) -> int:
        """Number of rows."""
        return sum(self.shard_rows)

    def rows(self, start: int, stop: int, *, seed: int, epoch: int) -> RowNumbers:
        """Return the row numbers at positions `[start, stop)` of an epoch."""
        blocks = _lay_out_blocks(self.shard_rows, self.open_shards, seed, epoch)
        out = np.empty(stop - start, np.int64)
        done = start
        while done < stop:
            block = int(np.searchsorted(blocks.starts, done, side="right")) - 1
            begin, end = blocks.starts[block : block + 2].tolist()
            until = min(stop, end)

            # Shuffle the block: each of its positions draws a row of one of its pieces.
            stream = make_stream(_BLOCK_STREAM, seed, epoch, block)
            within = shuffle_numbers(done - begin, until - begin, size=end - begin, stream=stream)
            pieces = blocks.pieces(block)
            bounds = make_offsets(pieces.sizes)
            piece = np.searchsorted(bounds, within, side="right") - 1

            # From a position in the block to a position in the shard's shuffled rows.
            within += (pieces.firsts - bounds[:-1])[piece]

            # Shuffle the rows of each shard. The stream does not depend on the block, so all pieces
            # of a shard belong to the same permutation and no row comes twice.
            stream = make_stream(_ROW_STREAM, seed, epoch)
            rows = out[done - start : until - start]
            sizes = blocks.shard_rows[pieces.shards]
            shuffle_places(within, piece, stream, pieces.shards, sizes, rows)

            # From a row of the shard to a row of the split.
            rows += blocks.shard_firsts[pieces.shards][piece]
            done = until
        return out

    def shard_uses(self, *, seed: int, epoch: int) -> list[ShardUses | None]:
        """Return the range of the blocks in which each shard has a piece."""
        blocks = _lay_out_blocks(self.shard_rows, self.open_shards, seed, epoch)
        count = len(blocks.shards)
        last = np.minimum(np.arange(count) + blocks.open_shards, count)
        read = np.flatnonzero(blocks.shard_rows[blocks.shards])
        return [ShardUses(blocks.shards[read], blocks.starts[read], blocks.starts[last[read]])]

    def describe(self) -> dict[str, Any]:
        """Return the settings that identify this order."""
        return {
            "rows": int(self.size),
            "shuffle": "shards",
            "open_shards": int(self.open_shards),
            "shards": f"{len(self.shard_rows)}, {int(make_stream(*self.shard_rows)):016x}",
        }


class _Pieces(NamedTuple):
    """The pieces of a block.

    Attributes:
        shards: int64 `[P]`, shard of each piece.
        firsts: int64 `[P]`, first position of each piece in the shard's shuffled rows.
        sizes: int64 `[P]`, number of rows of each piece.
    """

    shards: RowNumbers
    firsts: RowNumbers
    sizes: RowNumbers


class _Blocks(NamedTuple):
    """The blocks of an epoch, one per shard.

    Attributes:
        shards: int64 `[S]`, shuffled shard numbers; block b opens shard `shards[b]`.
        starts: int64 `[S + 1]`, first position of each block, and the end.
        shard_rows: int64 `[S]`, number of rows of each shard, as stored.
        shard_firsts: int64 `[S]`, first row of each shard, as stored.
        open_shards: Number of pieces of each shard.
    """

    shards: RowNumbers
    starts: RowNumbers
    shard_rows: RowNumbers
    shard_firsts: RowNumbers
    open_shards: int

    def pieces(self, block: int) -> _Pieces:
        """Return the pieces of a block."""
        first = max(0, block - self.open_shards + 1)

        # The age of a shard is the number of blocks since it was opened, and of its next piece.
        ages = np.arange(block - first, -1, -1)
        shards = self.shards[first : block + 1]
        rows = self.shard_rows[shards]
        firsts = rows * ages // self.open_shards

        # The last block takes everything that its shards have left.
        if block == len(self.shards) - 1:
            return _Pieces(shards, firsts, rows - firsts)
        return _Pieces(shards, firsts, rows * (ages + 1) // self.open_shards - firsts)


@lru_cache(maxsize=16)
def _lay_out_blocks(
    shard_rows: tuple[int, ...], open_shards: int, seed: int, epoch: int
) -> _Blocks:
    rows = np.array(shard_rows, np.int64)
    count = len(rows)
    pieces = max(1, min(open_shards, count))
    shards = shuffle_numbers(0, count, size=count, stream=make_stream(_SHARD_STREAM, seed, epoch))

    # Piece `age` of the shard that block b opens is in block `b + age`, or in the last block.
    sizes = np.zeros(count, np.int64)
    ordered = rows[shards]
    for age in range(pieces):
        taken = ordered * (age + 1) // pieces - ordered * age // pieces
        np.add.at(sizes, np.minimum(np.arange(count) + age, count - 1), taken)
    return _Blocks(shards, make_offsets(sizes), rows, make_offsets(rows)[:-1], pieces)


def row_order(rows: Sized, options: BatchOptions) -> RowOrder:
    """Return the order of a split, a mix, or any other object with a length.

    Args:
        rows: Any object with a length. A method `row_order`, as of mixes, is called if present.
            With `shard_rows`, as of splits, shards can be shuffled.
        options: Only `shuffle` and `open_shards` are read.

    Raises:
        ValueError: `shuffle="shards"` for rows without shards.
    """
    own_order = getattr(rows, "row_order", None)
    if own_order is not None:
        order: RowOrder = own_order(options)
        return order

    shard_rows = tuple(getattr(rows, "shard_rows", ()))
    if isinstance(options.shuffle, str):
        if not hasattr(rows, "shard_rows"):
            raise ValueError(
                'shuffle="shards": these rows have no `shard_rows`; use a split, or shuffle=True'
            )
        return ByShards(shard_rows, int(options.open_shards))

    return Shuffled(len(rows)) if options.shuffle else Stored(len(rows), shard_rows)


def shuffle_rows(start: int, stop: int, *, size: int, seed: int, epoch: int) -> RowNumbers:
    """Return the row numbers at positions `[start, stop)` of a shuffled epoch.

    Args:
        start: First position.
        stop: Position after the last, at most `size`.
        size: Number of rows of the split.
        seed: In `[0, 2**63)`.
        epoch: In `[0, 2**63)`. Each epoch has its own order.
    """
    return shuffle_numbers(start, stop, size=size, stream=make_stream(_ROW_STREAM, seed, epoch))


def shuffle_rounds(
    places: RowNumbers, rounds: RowNumbers, *, size: int, seed: int, first_round: int
) -> RowNumbers:
    """Return the row numbers at any positions of several rounds, each a shuffled pass over a split.

    Args:
        places: int64 `[R]`, positions in `[0, size)`.
        rounds: int64 `[R]`, the round of each position, relative to `first_round`.
        size: Number of rows of the split.
        seed: In `[0, 2**63)`.
        first_round: Number of round 0. A round is shuffled like the epoch of the same number.
    """
    numbers, round_of_place = np.unique(rounds, return_inverse=True)
    epochs = [(first_round + number) % MAX_EPOCHS for number in numbers.tolist()]
    stream = make_stream(_ROW_STREAM, seed)
    sizes = np.full(len(epochs), size, np.int64)

    out = np.empty(len(places), np.int64)
    shuffle_places(places, round_of_place, stream, np.array(epochs, np.int64), sizes, out)
    return out


def shuffle_numbers(start: int, stop: int, *, size: int, stream: np.uint64) -> RowNumbers:
    """Return positions `[start, stop)` of a permutation of the numbers from 0 to `size - 1`.

    Args:
        start: First position.
        stop: Position after the last, at most `size`.
        size: Number of shuffled numbers.
        stream: Random stream that determines the permutation.
    """
    out = np.empty(stop - start, np.int64)
    shuffle_range(start, stream, size, out)
    return out


def make_stream(*names: int) -> np.uint64:
    """Return a random stream for a sequence of numbers, by folding in one after the other."""
    stream = np.uint64(0)
    for name in names:
        stream = np.uint64(fold_in(stream, name))

    return stream
