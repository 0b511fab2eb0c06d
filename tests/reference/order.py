"""Slow twin of `batches/blocks.py` and `batches/epoch_plan.py`: lists of rows, in Python's own integers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TypeVar

from tests.reference import packing, rng

Item = TypeVar("Item")


def stream_of(*names: int) -> int:
    stream = 0
    for name in names:
        stream = rng.fold_in(stream, name)
    return stream


def shuffled(items: Sequence[Item], *names: int) -> list[Item]:
    """Shuffle by Fisher and Yates, with the stream of some names."""
    stream = stream_of(*names)
    order = list(items)
    for k in range(len(order) - 1):
        j = k + rng.bits(stream, k) % (len(order) - k)
        order[k], order[j] = order[j], order[k]
    return order


def blocks(
    size: int,
    *,
    shuffle: bool | str,
    window: int,
    seed: int,
    epoch: int,
    shard_rows: Sequence[int] = (),
    open_shards: int = 16,
) -> list[list[int]]:
    """Return the rows of each block of a split, not shuffled."""
    shards = [list(range(size))]
    if shuffle == "shards":
        firsts = list(itertools.accumulate(shard_rows, initial=0))
        order = shuffled(range(len(shard_rows)), 0x5A4D, seed, epoch)
        shards = [list(range(firsts[shard], firsts[shard + 1])) for shard in order]
    rows = list(itertools.chain(*shards))
    ends = []
    if shuffle == "shards":
        # One shard, then four times as many each time, up to `open_shards`.
        left = [shard for shard in shards if shard]
        count, end = 1, 0
        while left:
            end += sum(map(len, left[:count]))
            ends.append(end)
            left = left[count:]
            count = min(4 * count, open_shards)
    elif not shuffle:
        end = step = window
        while end < size:
            ends.append(end)
            step = min(4 * step, max(window, 2**20))
            end += step

    bounds = sorted({0, size, *(end - end % window for end in ends if end <= size - window)})
    return [rows[first:past] for first, past in itertools.pairwise(bounds)]


def block_batches(
    rows: Sequence[int],
    length: Callable[[int], int],
    *,
    window: int,
    seed: int,
    epoch: int,
    block: int,
    batch_size: int | None = None,
    batch_tokens: int | None = None,
    flat: bool = False,
    multiple_of: int = 1,
    shuffle: bool | str = True,
    bucketed: bool = True,
    drop_last: bool = False,
) -> list[list[int]]:
    """Shuffle a block; sort each window from long to short, cut batches, and shuffle those."""
    order = shuffled(rows, 0xB10C, seed, epoch, block) if shuffle else list(rows)
    batches = []
    for number, first in enumerate(range(0, len(order), window)):
        own = order[first : first + window]
        if bucketed:
            own = sorted(own, key=lambda row: -length(row))
        if batch_tokens is None:
            size = batch_size or 32
            cut = [own[i : i + size] for i in range(0, len(own), size)]
            if drop_last:
                cut = [batch for batch in cut if len(batch) == size]
        else:
            lengths = [length(row) for row in own]
            places = packing.cut_to_budget(lengths, batch_tokens, multiple_of, flat)
            cut = [[own[place] for place in batch] for batch in places]
        batches += shuffled(cut, 0xBA7C, seed, epoch, block, number) if bucketed else cut
    return batches
