"""Shuffle arrays in place."""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.rng import bits


@kernel
def shuffle(stream: np.uint64, column: Array) -> None:
    """Shuffle an array by Fisher and Yates' algorithm.

    The permutation depends on the stream and the length only, so columns of a table that are
    shuffled one after the other stay aligned.

    Args:
        stream: Random stream that determines the permutation.
        column: `[N]`, changed.
    """
    size = len(column)
    for k in range(size - 1):
        # The probability of a remainder differs from 1 / (size - k) by less than 2**-64.
        j = k + np.int64(bits(stream, k) % np.uint64(size - k))
        column[k], column[j] = column[j], column[k]
