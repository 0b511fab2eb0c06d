"""Choose entries of each row. Entries are tokens, or units such as mentions.

All samplers share one form: a ragged `pool` of what may be chosen, the rows' streams, and a `mark`
that is written into `out`. Rows are visited as slices, because numba knows that their indices are
not negative: half the time of `values[t]` with a running t (numba 0.68).
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.rng import below, bits53, chance_limit, uniform
from mslm_data.kernels.rows import draw_next, list_open, longest_row


@kernel
def choose_uniform(
    offsets: Array, pool: Array, quota: Array, streams: Array, mark: int, out: Array
) -> None:
    """Choose a number of entries of each row, uniformly and without replacement.

    These are the first `quota[i]` steps of a Fisher-Yates shuffle of the row's pool.

    Args:
        offsets: int64 `[N + 1]`.
        pool: uint8 `[E]`, 1 where an entry may be chosen.
        quota: int64 `[N]`: how many to choose; the whole pool where it is smaller. Afterwards how
            many could not be chosen.
        streams: uint64 `[N]`; draw k of a row is step k.
        mark: The value to write.
        out: uint8 `[E]`: `mark` is written at what is chosen.
    """
    places = np.empty(longest_row(offsets), np.int32)
    for i in range(len(streams)):
        start, stop = offsets[i], offsets[i + 1]
        out_row = out[start:stop]

        size = list_open(pool[start:stop], places)
        count = min(quota[i], size)
        quota[i] -= count

        for k in range(count):
            out_row[draw_next(places, streams[i], k, size)] = mark


@kernel
def choose_bernoulli(
    offsets: Array, pool: Array, rate: float, streams: Array, mark: int, out: Array
) -> None:
    """Choose each entry of the pool with the same probability.

    Args:
        offsets: int64 `[N + 1]`.
        pool: uint8 `[E]`, 1 where an entry may be chosen.
        rate: The probability, in `[0, 1]`.
        streams: uint64 `[N]`; entry t of a row takes draw t.
        mark: The value to write.
        out: uint8 `[E]`: `mark` is written at what is chosen.
    """
    limit = chance_limit(rate)
    for i in range(len(streams)):
        start, stop = offsets[i], offsets[i + 1]
        in_pool = pool[start:stop]
        out_row = out[start:stop]
        stream = streams[i]

        # No branch, so that it compiles to SIMD: every entry takes a draw, and all are written.
        for t in range(len(in_pool)):
            hit = (in_pool[t] != 0) & (bits53(stream, t) < limit)
            out_row[t] = mark if hit else out_row[t]


@kernel
def choose_again(
    offsets: Array, pool: Array, quota: Array, streams: Array, mark: int, out: Array
) -> None:
    """Draw from each row's pool with replacement. What is drawn twice is chosen once.

    Args:
        offsets: int64 `[N + 1]`.
        pool: uint8 `[E]`, 1 where an entry may be chosen.
        quota: int64 `[N]`: how often to draw. Afterwards 0, except for rows without a pool.
        streams: uint64 `[N]`; draw k of a row is the k-th entry drawn.
        mark: The value to write.
        out: uint8 `[E]`: `mark` is written at what is chosen.
    """
    for i in range(len(streams)):
        start, stop = offsets[i], offsets[i + 1]
        places = np.flatnonzero(pool[start:stop])
        if len(places) == 0:
            continue

        for k in range(quota[i]):
            out[start + places[below(streams[i], k, len(places))]] = mark
        quota[i] = 0


@kernel
def choose_each(offsets: Array, chances: Array, streams: Array, mark: int, out: Array) -> None:
    """Choose each entry with a chance of its own.

    Args:
        offsets: int64 `[N + 1]`.
        chances: float64 `[E]`; 0 and less is never, 1 and more is always.
        streams: uint64 `[N]`; entry t of a row takes draw t.
        mark: The value to write.
        out: uint8 `[E]`: `mark` is written at what is chosen.
    """
    for i in range(len(streams)):
        start, stop = offsets[i], offsets[i + 1]
        chances_row = chances[start:stop]
        out_row = out[start:stop]
        for t in range(len(chances_row)):
            out_row[t] = mark if uniform(streams[i], t) < chances_row[t] else out_row[t]
