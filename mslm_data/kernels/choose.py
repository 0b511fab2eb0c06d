"""Choose entries of each row at random. Entries are tokens, or units such as mentions.

All samplers have the same form: a ragged `pool` marks the eligible entries, each row has a random
stream, and `mark` is written to `out` at the chosen entries. Loops go over slices of rows, since
numba knows that their indices are not negative. This halves the time of `values[t]` with t from the
offsets (numba 0.68).
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

    Takes the first `quota[i]` steps of a Fisher-Yates shuffle of the row's pool.

    Args:
        offsets: int64 `[N + 1]`.
        pool: uint8 `[E]`, 1 for eligible entries.
        quota: int64 `[N]`, number of entries to choose, at most the whole pool; reduced by the
            number of chosen entries.
        streams: uint64 `[N]`. Step k of a row uses draw k.
        mark: Value to write.
        out: uint8 `[E]`, `mark` is written at chosen entries.
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
    """Choose each eligible entry independently with the same probability.

    Args:
        offsets: int64 `[N + 1]`.
        pool: uint8 `[E]`, 1 for eligible entries.
        rate: Probability, in `[0, 1]`.
        streams: uint64 `[N]`. Entry t of a row uses draw t.
        mark: Value to write.
        out: uint8 `[E]`, `mark` is written at chosen entries.
    """
    limit = chance_limit(rate)
    for i in range(len(streams)):
        start, stop = offsets[i], offsets[i + 1]
        in_pool = pool[start:stop]
        out_row = out[start:stop]
        stream = streams[i]

        # No branch: draw a number for every entry, and write every entry.
        for t in range(len(in_pool)):
            hit = (in_pool[t] != 0) & (bits53(stream, t) < limit)
            out_row[t] = mark if hit else out_row[t]


@kernel
def choose_again(
    offsets: Array, pool: Array, quota: Array, streams: Array, mark: int, out: Array
) -> None:
    """Draw entries from each row's pool uniformly and with replacement.

    Repeated draws of an entry choose it once, so fewer entries than draws may be chosen.

    Args:
        offsets: int64 `[N + 1]`.
        pool: uint8 `[E]`, 1 for eligible entries.
        quota: int64 `[N]`, number of draws; set to 0, except in rows without eligible entries.
        streams: uint64 `[N]`. Draw k of a row is the k-th drawn entry.
        mark: Value to write.
        out: uint8 `[E]`, `mark` is written at chosen entries.
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
    """Choose each entry independently with its own probability.

    Args:
        offsets: int64 `[N + 1]`.
        chances: float64 `[E]`, probabilities. Values outside `[0, 1]` count as 0 or 1.
        streams: uint64 `[N]`. Entry t of a row uses draw t.
        mark: Value to write.
        out: uint8 `[E]`, `mark` is written at chosen entries.
    """
    for i in range(len(streams)):
        start, stop = offsets[i], offsets[i + 1]
        chances_row = chances[start:stop]
        out_row = out[start:stop]
        # No branch: every entry is written.
        for t in range(len(chances_row)):
            out_row[t] = mark if uniform(streams[i], t) < chances_row[t] else out_row[t]
