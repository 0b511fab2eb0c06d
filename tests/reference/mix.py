"""Slow twin of the rows of a mix in `batches/blocks.py` and `kernels/mixing.py`."""

from __future__ import annotations

from tests.reference import rng
from tests.reference.order import shuffled


def epoch_rows(
    sizes: list[int], rows: list[int], seed: int, epoch: int
) -> list[tuple[int, int, int]]:
    """Return split, round of the epoch and row of each row of a shuffled epoch, split by split.

    Args:
        sizes: Number of rows that each split has.
        rows: Number of rows that an epoch takes of each.
        seed: Of the order.
        epoch: Its number.
    """
    found = []
    for split, (size, taken) in enumerate(zip(sizes, rows, strict=True)):
        used = epoch * taken
        first = used // size
        for number in range(first, -(-(used + taken) // size)):
            start = max(used - number * size, 0)
            stop = min(used + taken - number * size, size)
            order = list(range(size))
            if stop - start < size:
                order = shuffled(order, 0x0BDE, seed, number % 2**63)
            found += [(split, number - first, row) for row in order[start:stop]]
    return found


def key(own: int, number: int) -> int:
    """Return the key of a row in a round of an epoch."""
    return own if number == 0 else rng.fold_in(rng.fold_in(own, 0x2E9EA7), number)
