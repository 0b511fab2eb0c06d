"""Samplers: which entries of each row are chosen. Entries are tokens, or units such as mentions.

All share one form: ragged `pool` (what may be chosen), the rows' streams, and `mark` to write into `out`. Rows are
visited as slices, whose indices are known not to be negative: half the time of `values[t]` in a loop (numba 0.68).
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.draws import below, bits53, uniform


@kernel
def choose_uniform(
    offsets: Array, pool: Array, quota: Array, streams: Array, mark: int, out: Array
) -> None:
    """Choose a number of entries of each row, uniformly and without replacement.

    The first `quota[i]` steps of a Fisher-Yates shuffle of the row's pool; draw k of the row's stream is step k.

    Args:
        offsets: int64 `[N + 1]`.
        pool: uint8 `[E]`: 1 where an entry may be chosen, 0 elsewhere.
        quota: int64 `[N]`: how many to choose; the whole pool where it is smaller. What was chosen is taken off.
        streams: uint64 `[N]`.
        mark: What to write.
        out: uint8 `[E]`: `mark` at what is chosen, elsewhere as it was.
    """
    longest = 1
    for i in range(len(streams)):
        longest = max(longest, offsets[i + 1] - offsets[i])
    places = np.empty(longest, np.int32)
    for i in range(len(streams)):
        in_pool = pool[offsets[i] : offsets[i + 1]]
        out_row = out[offsets[i] : offsets[i + 1]]
        size = 0
        for t in range(
            len(in_pool)
        ):  # no branch: a place that is not in the pool is overwritten by the next
            places[size] = t
            size += int(in_pool[t])
        count = min(quota[i], size)
        quota[i] -= count
        for k in range(count):
            j = k + below(streams[i], k, size - k)
            out_row[places[j]] = mark
            places[j] = places[k]


@kernel
def choose_bernoulli(
    offsets: Array, pool: Array, rate: float, streams: Array, mark: int, out: Array
) -> None:
    """Choose each entry of the pool with the same chance; entry t of a row takes draw t of the row's stream.

    Args:
        offsets: int64 `[N + 1]`.
        pool: uint8 `[E]`: 1 where an entry may be chosen, 0 elsewhere.
        rate: The chance, in `[0, 1]`.
        streams: uint64 `[N]`.
        mark: What to write.
        out: uint8 `[E]`: `mark` at what is chosen, elsewhere as it was.
    """
    limit = np.uint64(
        np.ceil(rate * 2.0**53)
    )  # `bits53 < limit` is `uniform < rate`, and compiles to SIMD
    for i in range(len(streams)):
        in_pool = pool[offsets[i] : offsets[i + 1]]
        out_row = out[offsets[i] : offsets[i + 1]]
        stream = streams[i]
        for t in range(len(in_pool)):
            hit = (in_pool[t] != 0) & (bits53(stream, t) < limit)
            out_row[t] = mark if hit else out_row[t]


@kernel
def choose_again(
    offsets: Array, pool: Array, quota: Array, streams: Array, mark: int, out: Array
) -> None:
    """Draw a number of times from each row's pool, with replacement: what is drawn twice is chosen once.

    Args:
        offsets: int64 `[N + 1]`.
        pool: uint8 `[E]`: 1 where an entry may be chosen, 0 elsewhere.
        quota: int64 `[N]`: how often to draw; draw k of the row's stream is the k-th. 0 afterwards, but for rows that
            have no pool.
        streams: uint64 `[N]`.
        mark: What to write.
        out: uint8 `[E]`: `mark` at what is chosen, elsewhere as it was.
    """
    for i in range(len(streams)):
        places = np.flatnonzero(pool[offsets[i] : offsets[i + 1]])
        if len(places) == 0:
            continue
        for k in range(quota[i]):
            out[offsets[i] + places[below(streams[i], k, len(places))]] = mark
        quota[i] = 0


@kernel
def choose_each(offsets: Array, chances: Array, streams: Array, mark: int, out: Array) -> None:
    """Choose each entry with a chance of its own; entry t of a row takes draw t of the row's stream.

    Args:
        offsets: int64 `[N + 1]`.
        chances: float64 `[E]`; 0 and less is never, 1 and more is always.
        streams: uint64 `[N]`.
        mark: What to write.
        out: uint8 `[E]`: `mark` at what is chosen, elsewhere as it was.
    """
    for i in range(len(streams)):
        chances_row, out_row = (
            chances[offsets[i] : offsets[i + 1]],
            out[offsets[i] : offsets[i + 1]],
        )
        for t in range(len(chances_row)):
            out_row[t] = mark if uniform(streams[i], t) < chances_row[t] else out_row[t]
