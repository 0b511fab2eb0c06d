"""Shuffle rows by a computation, so that no order is stored."""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.draws import fold, mix

ROUNDS = 6


@kernel
def shuffled(start: int, stream: np.uint64, size: int, half: int, out: Array) -> None:
    """Write the rows at consecutive places of a shuffled order.

    A Feistel network (Luby and Rackoff 1988) permutes the numbers of `2 * half` bits. A result that
    is not the number of a row is permuted again until it is one ("cycle walking", Black and
    Rogaway 2002), so each row has exactly one place.

    Args:
        start: First place, at least 0.
        stream: uint64 that names the shuffle.
        size: Number of rows, at most `2 ** (2 * half)`.
        half: Bits of half a number.
        out: int64 `[places]`, written: the row at place `start + i`, which must be below `size`.
    """
    mask = (np.uint64(1) << np.uint64(half)) - np.uint64(1)
    round_keys = np.empty(ROUNDS, np.uint64)
    for r in range(ROUNDS):
        round_keys[r] = fold(stream, r)

    for i in range(len(out)):
        number = np.uint64(start + i)
        while True:
            left = number >> np.uint64(half)
            right = number & mask
            for r in range(ROUNDS):
                # The halves swap, and one of them takes up a hash of the other.
                left, right = right, left ^ (mix(round_keys[r] ^ right) & mask)
            number = (left << np.uint64(half)) | right
            if number < np.uint64(size):
                break
        out[i] = np.int64(number)
