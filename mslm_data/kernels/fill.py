"""Take units of different lengths, one after the other, until a budget of tokens is spent.

The samplers differ only in the order of the units: uniform, by weight, or by rank. `taken` is the
number of tokens taken from each unit, since the last unit of a row may be cut.
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.rng import uniform
from mslm_data.kernels.rows import draw_next, list_open, longest_row

CUT, SKIP, STOP = range(3)
"""Options for a unit that is longer than the remaining budget.

CUT takes its first tokens, SKIP tries the next unit, and STOP ends the row.
"""

GROUP = 16
"""Number of weights in a group. A draw walks over the sums of groups, then within one group, which
is faster than a binary tree for rows of up to 10,000 units."""


@kernel
def portion(length: int, left: int, overrun: int) -> int:
    """Return the number of tokens to take from a unit; 0 to skip it, -1 to stop.

    Args:
        length: Length of the unit.
        left: Remaining budget, more than 0.
        overrun: CUT, SKIP or STOP.
    """
    if length <= left:
        return length
    if overrun == CUT:
        return left
    return 0 if overrun == SKIP else -1


@kernel
def fill_uniform(
    offsets: Array,
    pool: Array,
    lengths: Array,
    quota: Array,
    overrun: int,
    streams: Array,
    taken: Array,
) -> None:
    """Take units in uniformly random order, by the steps of a Fisher-Yates shuffle.

    Args:
        offsets: int64 `[N + 1]` of the units.
        pool: uint8 `[U]`, 1 for eligible units.
        lengths: int64 `[U]`, length of each unit in tokens.
        quota: int64 `[N]`, budget in tokens; reduced by the tokens taken.
        overrun: CUT, SKIP or STOP.
        streams: uint64 `[N]`. Step k of a row uses draw k.
        taken: int64 `[U]`, written at units that are tried: the number of tokens taken.
    """
    places = np.empty(longest_row(offsets), np.int32)
    for i in range(len(streams)):
        begin = offsets[i]
        left = quota[i]
        size = list_open(pool[begin : offsets[i + 1]], places)

        k = 0
        while k < size and left > 0:
            u = begin + draw_next(places, streams[i], k, size)
            tokens = portion(lengths[u], left, overrun)
            if tokens < 0:
                break
            taken[u] = tokens
            left -= tokens
            k += 1
        quota[i] = left


@kernel
def fill_weighted(
    offsets: Array,
    pool: Array,
    weights: Array,
    lengths: Array,
    quota: Array,
    overrun: int,
    streams: Array,
    taken: Array,
) -> None:
    """Draw units without replacement, in proportion to the weights of the remaining units.

    The distribution is that of `numpy.random.choice(replace=False, p)`, and of the keys of
    Efraimidis and Spirakis (2006). A unit costs one draw and a short walk. Weights are rounded to
    integers, 2**31 for the largest weight of a row and at least 1 for any positive weight, so all
    machines draw the same units.

    Args:
        offsets: int64 `[N + 1]` of the units.
        pool: uint8 `[U]`, 1 for eligible units.
        weights: float64 `[U]`, finite. Units of weight 0 or less are never drawn.
        lengths: int64 `[U]`, length of each unit in tokens.
        quota: int64 `[N]`, budget in tokens; reduced by the tokens taken.
        overrun: CUT, SKIP or STOP.
        streams: uint64 `[N]`. Draw k of a row is the k-th drawn unit.
        taken: int64 `[U]`, written at drawn units: the number of tokens taken.
    """
    longest = longest_row(offsets)
    parts = np.empty(longest, np.int64)
    sums = np.empty(longest // GROUP + 1, np.int64)
    for i in range(len(streams)):
        begin, end = offsets[i], offsets[i + 1]
        left = quota[i]
        total = 0
        if left > 0:
            total = sum_weights(pool[begin:end], weights[begin:end], parts, sums)

        k = 0
        while left > 0 and total > 0:
            # Draw a unit, and remove its weight so that it cannot be drawn again.
            u = find_unit(parts, sums, draw_part(streams[i], k, total))
            total -= drop_unit(parts, sums, u)
            k += 1

            tokens = portion(lengths[begin + u], left, overrun)
            if tokens < 0:
                break
            taken[begin + u] = tokens
            left -= tokens
        quota[i] = left


@kernel
def sum_weights(pool: Array, weights: Array, parts: Array, sums: Array) -> int:
    """Round the weights of a row to integers, and sum them in groups for `find_unit`.

    Args:
        pool: uint8 `[n]`, 1 for eligible units.
        weights: float64 `[n]`.
        parts: int64, at least `[n]`, written: integer weights, 0 for units that are not eligible.
        sums: int64, at least `[n / GROUP]` rounded up, written: the sum of each group of `GROUP`
            integer weights.

    Returns:
        The sum of all integer weights.
    """
    largest = 0.0
    for u in range(len(weights)):
        largest = max(largest, pool[u] * weights[u])
    if largest <= 0.0:
        return 0

    # A positive weight is at least 1, so a tiny one can be drawn after all others.
    for u in range(len(weights)):
        weight = max(pool[u] * weights[u], 0.0)
        parts[u] = max(np.int64(weight / largest * 2.0**31), np.int64(weight > 0))

    total = 0
    for first in range(0, len(weights), GROUP):
        group_sum = 0
        for u in range(first, min(first + GROUP, len(weights))):
            group_sum += parts[u]
        sums[first // GROUP] = group_sum
        total += group_sum
    return total


@kernel
def draw_part(stream: np.uint64, k: int, total: int) -> int:
    """Return draw k of a stream as an integer in `[0, total)`, also for a total above 2**31.

    Args:
        stream: Random stream of the row.
        k: Number of the draw, from 0.
        total: At least 1.
    """
    # The product may round up to the total itself if the draw is near 1.
    return min(int(uniform(stream, k) * total), total - 1)


@kernel
def find_unit(parts: Array, sums: Array, drawn: int) -> int:
    """Return the first unit whose cumulative weight exceeds a number.

    Args:
        parts: int64, integer weights from `sum_weights`.
        sums: int64, sums of groups from `sum_weights`.
        drawn: Number in `[0, sum of all weights)`.
    """
    group = 0
    while drawn >= sums[group]:
        drawn -= sums[group]
        group += 1

    u = group * GROUP
    while drawn >= parts[u]:
        drawn -= parts[u]
        u += 1
    return u


@kernel
def drop_unit(parts: Array, sums: Array, u: int) -> int:
    """Set the weight of a unit to 0, and return the old weight.

    Args:
        parts: int64, integer weights from `sum_weights`; changed.
        sums: int64, sums of groups from `sum_weights`; changed.
        u: Index of the unit.
    """
    part = int(parts[u])
    sums[u // GROUP] -= part
    parts[u] = 0
    return part


@kernel
def fill_ranked(
    offsets: Array,
    pool: Array,
    ranks: Array,
    lengths: Array,
    quota: Array,
    overrun: int,
    taken: Array,
) -> None:
    """Take units by ascending rank. Units of equal rank are taken from left to right.

    Args:
        offsets: int64 `[N + 1]` of the units.
        pool: uint8 `[U]`, 1 for eligible units.
        ranks: float64 `[U]`.
        lengths: int64 `[U]`, length of each unit in tokens.
        quota: int64 `[N]`, budget in tokens; reduced by the tokens taken.
        overrun: CUT, SKIP or STOP.
        taken: int64 `[U]`, written at units that are tried: the number of tokens taken.
    """
    for i in range(len(quota)):
        left = quota[i]
        if left > 0:
            begin, end = offsets[i], offsets[i + 1]
            # Mergesort is stable.
            order = np.argsort(ranks[begin:end], kind="mergesort")
            for place in range(len(order)):
                u = begin + order[place]
                if pool[u] == 0:
                    continue
                tokens = portion(lengths[u], left, overrun) if left > 0 else -1
                if tokens < 0:
                    break
                taken[u] = tokens
                left -= tokens
        quota[i] = left
