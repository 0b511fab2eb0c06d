"""Slow twin of `batches/order.py` and `kernels/shuffle.py`, in Python's own integers."""

from __future__ import annotations

from tests.reference import rng

ROUNDS = 6
FEW = 256


def stream_of(*names: int) -> int:
    stream = 0
    for name in names:
        stream = rng.fold_in(stream, name)
    return stream


def shuffled(place: int, stream: int, size: int) -> int:
    """Return the row at a place of a shuffled order.

    Few rows are shuffled by Fisher and Yates. Of more, a Feistel network over the smallest even number of bits is
    walked until a row comes.
    """
    if size <= FEW:
        order = list(range(size))
        for k in range(size - 1):
            j = k + rng.below(stream, k, size - k)
            order[k], order[j] = order[j], order[k]
        return order[place]

    half = 1
    while 4**half < size:
        half += 1
    left, right = divmod(place, 2**half)
    for r in range(ROUNDS):
        left, right = right, left ^ rng.mix(rng.fold_in(stream, r) ^ right) % 2**half
    row = left * 2**half + right
    return row if row < size else shuffled(row, stream, size)


def epoch_order(size: int, seed: int, epoch: int) -> list[int]:
    stream = stream_of(0x0BDE, seed, epoch)
    return [shuffled(place, stream, size) for place in range(size)]


def order_by_shards(shard_rows: list[int], open_shards: int, seed: int, epoch: int) -> list[int]:
    """Deal the mixed rows of each shard out to the blocks from its own on, and mix each block."""
    count = len(shard_rows)
    pieces = min(open_shards, count)
    blocks: list[list[int]] = [[] for _ in range(count)]

    shard_stream = stream_of(0x5A4D, seed, epoch)
    for position in range(count):
        shard = shuffled(position, shard_stream, count)
        size = shard_rows[shard]
        stream = stream_of(0x0BDE, seed, epoch, shard)
        mixed = [sum(shard_rows[:shard]) + shuffled(i, stream, size) for i in range(size)]
        for piece in range(pieces):
            block = blocks[min(position + piece, count - 1)]
            block += mixed[size * piece // pieces : size * (piece + 1) // pieces]

    rows = []
    for number, block in enumerate(blocks):
        stream = stream_of(0xB10C, seed, epoch, number)
        rows += [block[shuffled(place, stream, len(block))] for place in range(len(block))]
    return rows


def window_batches(
    lengths: list[int], batch_size: int, seed: int, epoch: int, window: int
) -> list[list[int]]:
    """Sort a window's rows from long to short, cut batches, and shuffle those."""
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    batches = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
    stream = stream_of(0xBA7C, seed, epoch, window)
    return [batches[shuffled(place, stream, len(batches))] for place in range(len(batches))]
