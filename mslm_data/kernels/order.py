"""A shuffle that is computed, not stored."""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.draws import fold, mix

ROUNDS = 6


@kernel
def shuffled(start: int, stream: np.uint64, size: int, half: int, out: Array) -> None:
    """Give the rows at consecutive places of a shuffled order.

    A Feistel network permutes the numbers of `2 * half` bits; a number that is no row is put through again until it
    is one (Black and Rogaway 2002, "cycle walking"), so each row has one place.

    Args:
        start: First place, at least 0.
        stream: uint64 that names the shuffle.
        size: Rows; `2 ** (2 * half)` is at least that.
        half: Bits of half a number.
        out: int64 `[places]`, written: the row at place `start + i`, which must be below `size`.
    """
    mask = (np.uint64(1) << np.uint64(half)) - np.uint64(1)
    rounds = np.empty(ROUNDS, np.uint64)
    for r in range(ROUNDS):
        rounds[r] = fold(stream, r)
    for i in range(len(out)):
        x = np.uint64(start + i)
        while True:
            left, right = x >> np.uint64(half), x & mask
            for r in range(ROUNDS):
                left, right = right, left ^ (mix(rounds[r] ^ right) & mask)
            x = (left << np.uint64(half)) | right
            if x < np.uint64(size):
                break
        out[i] = np.int64(x)
