"""Helpers for rows. numba inlines the short ones, so a call costs nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from mslm_data.kernels._jit import Array, inlined, kernel
from mslm_data.kernels.rng import below


@inlined
def longest_row(offsets: Array) -> int:
    """Return the length of the longest row, or 1 if all rows are empty.

    Args:
        offsets: int64 `[N + 1]`.
    """
    longest = 1
    for i in range(len(offsets) - 1):
        length = offsets[i + 1] - offsets[i]
        longest = length if length > longest else longest
    return longest


@inlined
def list_open(pool: Array, places: Array) -> int:
    """List the indices of the entries in a row's pool, and return their number.

    Args:
        pool: uint8 `[n]`, 1 for entries in the pool, 0 for others.
        places: integers, at least `[n]`, written from the left: the indices, ascending.
    """
    # No branch: an index that is not in the pool is overwritten by the next one.
    size = 0
    for t in range(len(pool)):
        places[size] = t
        size += int(pool[t])
    return size


@inlined
def draw_next(places: Array, stream: np.uint64, k: int, size: int) -> int:
    """Take step k of a Fisher-Yates shuffle, and return the drawn item.

    Args:
        places: integers; the remaining items are at `[k, size)`, and at `[k + 1, size)` afterwards.
        stream: Random stream of the row. Step k uses draw k.
        k: Number of the step, from 0.
        size: Number of shuffled items.
    """
    j = k + below(stream, k, size - k)
    drawn: int = places[j]

    # Half of the usual swap: later steps do not read place k, so the drawn item is not put there.
    places[j] = places[k]
    return drawn


@inlined
def begins_word(word: Any, before: Any) -> bool:
    """Return whether a token is the first token of a word.

    Args:
        word: Word number of the token, -1 for a special token.
        before: Word number of the token before it in the row, -1 for the first token.
    """
    is_first: bool = (word >= 0) & (word != before)
    return is_first


@kernel
def all_open(pool: Array, start: int, end: int) -> bool:
    """Return whether all tokens of a range are eligible.

    Args:
        pool: uint8, 1 for eligible tokens, 0 for others.
        start: First token.
        end: Half open.
    """
    t = start
    while t < end and pool[t] != 0:
        t += 1
    return t == end
