"""Take candidates of each row: in random order, by ascending key, or each with a probability.

Candidates are tokens, or units such as mentions. A ragged `pool` marks the eligible ones, and each
row has a random stream. Loops go over slices of rows, since numba knows that their indices are not
negative. This halves the time of `values[t]` with t from the offsets (numba 0.68).
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, inlined, kernel
from mslm_data.kernels.rng import below, bits53, uniform
from mslm_data.kernels.rows import draw_next, list_open, longest_row

CUT, SKIP, STOP = range(3)
"""Options for a candidate that costs more than the remaining budget.

CUT takes a part of it, SKIP tries the next one, and STOP ends the row.
"""

_LOG_2 = 0.6931471805599453
_SERIES = 1 / np.arange(23.0, 0, -2)
"""Coefficients of the series in `exponential`: 1/23, 1/21, ... 1. The next term is below 1e-13."""


@kernel
def portion(cost: int, left: int, overrun: int) -> int:
    """Return the amount to take of a candidate; 0 to skip it, -1 to stop.

    Args:
        cost: Cost of the candidate.
        left: Remaining budget, more than 0.
        overrun: CUT, SKIP or STOP.
    """
    if cost <= left:
        return cost
    if overrun == CUT:
        return left
    return 0 if overrun == SKIP else -1


@kernel
def fill_uniform(
    offsets: Array,
    pool: Array,
    costs: Array,
    quota: Array,
    overrun: int,
    streams: Array,
    taken: Array,
) -> None:
    """Take candidates in uniformly random order, by the steps of a Fisher-Yates shuffle.

    Args:
        offsets: int64 `[N + 1]` of the candidates.
        pool: uint8 `[C]`, 1 for eligible candidates.
        costs: uint8 or int32 `[C]`, cost of each candidate: 1, or its number of tokens.
        quota: int64 `[N]`, budget; reduced by the amount taken.
        overrun: CUT, SKIP or STOP.
        streams: uint64 `[N]`. Step k of a row uses draw k.
        taken: `[C]`, as `costs`; written at candidates that are tried: the amount taken.
    """
    places = np.empty(longest_row(offsets), np.int32)
    for i in range(len(streams)):
        start, stop = offsets[i], offsets[i + 1]
        row_costs = costs[start:stop]
        row_taken = taken[start:stop]
        left = quota[i]
        size = list_open(pool[start:stop], places)

        k = 0
        while k < size and left > 0:
            c = draw_next(places, streams[i], k, size)
            amount = portion(row_costs[c], left, overrun)
            if amount < 0:
                break
            row_taken[c] = amount
            left -= amount
            k += 1
        quota[i] = left


@kernel
def fill_ranked(
    offsets: Array,
    pool: Array,
    keys: Array,
    costs: Array,
    quota: Array,
    overrun: int,
    taken: Array,
) -> None:
    """Take candidates by ascending key. Candidates of equal key are taken from left to right.

    Args:
        offsets: int64 `[N + 1]` of the candidates.
        pool: uint8 `[C]`, 1 for eligible candidates.
        keys: float64 `[C]`.
        costs: uint8 or int32 `[C]`, cost of each candidate: 1, or its number of tokens.
        quota: int64 `[N]`, budget; reduced by the amount taken.
        overrun: CUT, SKIP or STOP.
        taken: `[C]`, as `costs`; written at candidates that are tried: the amount taken.
    """
    heap = np.empty(longest_row(offsets), np.int32)
    for i in range(len(quota)):
        start, stop = offsets[i], offsets[i + 1]
        row_keys = keys[start:stop]
        row_costs = costs[start:stop]
        row_taken = taken[start:stop]
        left = quota[i]
        if left == 0:
            continue

        # A heap, since most rows take few of their candidates.
        size = list_open(pool[start:stop], heap)
        for place in range(size // 2 - 1, -1, -1):
            sift_down(heap, size, place, row_keys)

        while size > 0 and left > 0:
            c = heap[0]
            size -= 1
            heap[0] = heap[size]
            sift_down(heap, size, 0, row_keys)

            amount = portion(row_costs[c], left, overrun)
            if amount < 0:
                break
            row_taken[c] = amount
            left -= amount
        quota[i] = left


@kernel
def sift_down(heap: Array, size: int, place: int, keys: Array) -> None:
    """Move a candidate down a binary heap until those below it have larger keys.

    Args:
        heap: int32, candidates; below place p are places 2 p + 1 and 2 p + 2. Changed.
        size: Number of candidates in the heap.
        place: Place of the candidate to move.
        keys: float64, key of each candidate. Of equal keys, the first candidate is smaller.
    """
    moved = heap[place]
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and is_before(heap[child + 1], heap[child], keys):
            child += 1
        if not is_before(heap[child], moved, keys):
            break
        heap[place] = heap[child]
        place = child
    heap[place] = moved


@inlined
def is_before(c: int, other: int, keys: Array) -> bool:
    """Return whether a candidate comes before another one."""
    smaller: bool = (keys[c] < keys[other]) | ((keys[c] == keys[other]) & (c < other))
    return smaller


@kernel
def choose_each(
    offsets: Array, weights: Array, chances: Array, streams: Array, chosen: Array
) -> None:
    """Choose each candidate independently, with the probability of its row times its weight.

    Args:
        offsets: int64 `[N + 1]` of the candidates.
        weights: `[C]`: float64 scores; or uint8, 1 for eligible candidates.
        chances: float64 `[N]`. Products outside `[0, 1]` count as 0 or 1.
        streams: uint64 `[N]`. Candidate c of a row uses draw c.
        chosen: uint8 `[C]`, written: 1 for chosen candidates, otherwise 0.
    """
    for i in range(len(streams)):
        row_weights = weights[offsets[i] : offsets[i + 1]]
        row_chosen = chosen[offsets[i] : offsets[i + 1]]
        # No branch: draw a number for every candidate.
        for c in range(len(row_weights)):
            row_chosen[c] = uniform(streams[i], c) < chances[i] * row_weights[c]


@kernel
def draw_keys(offsets: Array, weights: Array, streams: Array, keys: Array) -> None:
    """Draw a key for each candidate, so that the order of keys is that of draws by weight.

    Without replacement, in proportion to the weights of the remaining candidates: the distribution
    of `numpy.random.choice(replace=False, p)`. A key is an exponential variable divided by the
    weight (Efraimidis and Spirakis 2006).

    Args:
        offsets: int64 `[N + 1]` of the candidates.
        weights: float64 `[C]`, finite. Keys of weights of 0 or less mean nothing.
        streams: uint64 `[N]`. Candidate c of a row uses draw c.
        keys: float64 `[C]`, written.
    """
    for i in range(len(streams)):
        row_weights = weights[offsets[i] : offsets[i + 1]]
        row_keys = keys[offsets[i] : offsets[i + 1]]
        for c in range(len(row_weights)):
            weight = row_weights[c]
            row_keys[c] = exponential(streams[i], c) / weight if weight > 0 else np.inf


@inlined
def exponential(stream: np.uint64, k: int) -> float:
    """Return draw k as an exponential variable with mean 1: the negative logarithm of a number.

    The logarithms of libraries differ in the last bits between machines. Additions,
    multiplications and divisions do not.
    """
    # The number is in (0, 1]. Doubling it to [0.5, 1] is exact, and once is enough on average.
    number = (np.float64(bits53(stream, k)) + 1.0) * 2.0**-53
    doublings = 0
    while number < 0.5:
        number *= 2.0
        doublings += 1

    # log((1 + s) / (1 - s)) = 2 (s + s**3 / 3 + s**5 / 5 + ...), for s in (-1/3, 0].
    s = (number - 1.0) / (number + 1.0)
    series = 0.0
    for coefficient in _SERIES:
        series = series * (s * s) + coefficient
    return doublings * _LOG_2 - 2.0 * s * series


@kernel
def count_distinct(offsets: Array, pool: Array, quota: Array, streams: Array) -> None:
    """Draw the number of distinct candidates among draws with replacement.

    Args:
        offsets: int64 `[N + 1]` of the candidates.
        pool: uint8 `[C]`, 1 for eligible candidates.
        quota: int64 `[N]`, number of draws; replaced by the number of distinct candidates, except
            in rows without eligible candidates.
        streams: uint64 `[N]`. Draw k of a row is the k-th draw.
    """
    for i in range(len(streams)):
        size = int(np.count_nonzero(pool[offsets[i] : offsets[i + 1]]))
        if size == 0:
            continue

        # All sets of equal size are equally likely, so number candidates by their first draw.
        distinct = 0
        for k in range(quota[i]):
            distinct += int(below(streams[i], k, size) >= distinct)
        quota[i] = distinct
