"""Helpers for the rows that kernels loop over; numba inlines them, so a call costs nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from mslm_data.kernels._jit import Array, inlined
from mslm_data.kernels.rng import below


@inlined
def longest_row(offsets: Array) -> int:
    """Return the number of items of the longest row, but at least 1.

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
    """List the entries of a row that may be chosen, and return how many there are.

    Args:
        pool: uint8 `[n]`: 1 where an entry may be chosen, 0 elsewhere.
        places: integers, at least `[n]`; the entries are written from the left, rising.
    """
    # No branch: the place of an entry that is not in the pool is overwritten by the next entry.
    size = 0
    for t in range(len(pool)):
        places[size] = t
        size += int(pool[t])
    return size


@inlined
def draw_next(places: Array, stream: np.uint64, k: int, size: int) -> int:
    """Take step k of a Fisher-Yates shuffle, and return the item that it draws.

    Args:
        places: integers; `[k, size)` holds the items that are left, `[k + 1, size)` afterwards.
        stream: Of the row; step k takes draw k.
        k: Which step, 0 or more.
        size: Number of items that are shuffled.
    """
    j = k + below(stream, k, size - k)
    drawn: int = places[j]

    # Half of the usual swap: no step looks at place k again, so the drawn item is not put there.
    places[j] = places[k]
    return drawn


@inlined
def begins_word(word: Any, before: Any) -> bool:
    """Return whether a token is the first one of a word.

    Args:
        word: int; the number of the token's word, -1 for a special token.
        before: int; that of the token before it in the row, -1 for the first token.
    """
    is_first: bool = (word >= 0) & (word != before)
    return is_first
