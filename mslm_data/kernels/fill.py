"""Take units of unequal length, one after the other, until a budget of tokens is spent.

The samplers differ only in their order: uniform, by weight, or by rank. `taken` is the part of a
unit that was taken, in the units of the budget, because the last unit of a row may be cut.
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.rng import uniform
from mslm_data.kernels.rows import draw_next, list_open, longest_row

CUT, SKIP, OVER, STOP = range(4)
"""Treatments of a unit that is longer than what is left of the budget.

CUT takes its first tokens, SKIP tries the next unit, OVER takes the whole unit and stops, and
STOP leaves it.
"""

GROUP = 16
"""Weights that are summed together. A walk over groups, then within one, is faster than a tree for
rows of up to 10,000 units."""


@kernel
def portion(length: int, left: int, overrun: int) -> int:
    """Return the part of a unit that is taken; 0 to skip it, -1 to stop.

    Args:
        length: Length of the unit.
        left: Rest of the budget, more than 0.
        overrun: CUT, SKIP, OVER or STOP.
    """
    if length <= left or overrun == OVER:
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
        pool: uint8 `[U]`, 1 where a unit may be taken.
        lengths: int64 `[U]`: the cost of each unit.
        quota: int64 `[N]`, the budget; reduced by what was taken, to 0 or more.
        overrun: CUT, SKIP, OVER or STOP.
        streams: uint64 `[N]`; draw k of a row is step k.
        taken: int64 `[U]`: how much of a unit was taken; elsewhere as it was.
    """
    places = np.empty(longest_row(offsets), np.int32)
    for i in range(len(streams)):
        begin = offsets[i]
        left = quota[i]
        size = list_open(pool[begin : offsets[i + 1]], places)

        k = 0
        while k < size and left > 0:
            u = begin + draw_next(places, streams[i], k, size)
            some = portion(lengths[u], left, overrun)
            if some < 0:
                break
            taken[u] = some
            left -= some
            k += 1

        # OVER may have taken more than was left.
        quota[i] = max(left, 0)


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
    """Take units with chances in proportion to their weights, each draw among those that are left.

    This is the law of `numpy.random.choice(replace=False, p)`, and of the keys of Efraimidis and
    Spirakis (2006), at the cost of one draw and a short walk for each unit. It counts in whole
    numbers, so that every machine takes the same units: a weight is rounded to 2**-31 of the row's
    largest one, and smaller positive weights count as one of these parts.

    Args:
        offsets: int64 `[N + 1]` of the units.
        pool: uint8 `[U]`, 1 where a unit may be taken.
        weights: float64 `[U]`, finite; a unit of weight 0 or less is never taken.
        lengths: int64 `[U]`: the cost of each unit.
        quota: int64 `[N]`, the budget; reduced by what was taken, to 0 or more.
        overrun: CUT, SKIP, OVER or STOP.
        streams: uint64 `[N]`; draw k of a row is the k-th unit drawn.
        taken: int64 `[U]`: how much of a unit was taken; elsewhere as it was.
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
            u = find_unit(parts, sums, draw_part(streams[i], k, total))
            total -= drop_unit(parts, sums, u)
            k += 1

            some = portion(lengths[begin + u], left, overrun)
            if some < 0:
                break
            taken[begin + u] = some
            left -= some

        # OVER may have taken more than was left.
        quota[i] = max(left, 0)


@kernel
def sum_weights(pool: Array, weights: Array, parts: Array, sums: Array) -> int:
    """Write the weights of a row as whole numbers, and sum them in groups for `find_unit`.

    Args:
        pool: uint8 `[n]`: 1 where a unit may be taken, 0 elsewhere.
        weights: float64 `[n]`.
        parts: int64, at least `[n]`, written: the weights; 0 where a unit may not be taken.
        sums: int64, at least `[n / GROUP]` rounded up, written: the sum of each `GROUP` parts.

    Returns:
        The sum of all parts.
    """
    largest = 0.0
    for u in range(len(weights)):
        largest = max(largest, pool[u] * weights[u])
    if largest <= 0.0:
        return 0

    # A positive weight is at least one part, so that it can be drawn when all others are gone.
    for u in range(len(weights)):
        weight = max(pool[u] * weights[u], 0.0)
        parts[u] = max(np.int64(weight / largest * 2.0**31), np.int64(weight > 0))

    total = 0
    for first in range(0, len(weights), GROUP):
        some = 0
        for u in range(first, min(first + GROUP, len(weights))):
            some += parts[u]
        sums[first // GROUP] = some
        total += some
    return total


@kernel
def draw_part(stream: np.uint64, k: int, total: int) -> int:
    """Return draw k of a stream as a number in `[0, total)`.

    `below` cannot do it, because a total may exceed 2**31.

    Args:
        stream: Of the row.
        k: Which draw, 0 or more.
        total: More than 0.
    """
    # A draw near 1 times a large total may round up to the total itself.
    return min(int(uniform(stream, k) * total), total - 1)


@kernel
def find_unit(parts: Array, sums: Array, drawn: int) -> int:
    """Return the unit in whose part of the whole sum a number falls.

    Args:
        parts: int64, as `sum_weights` wrote them.
        sums: int64, as `sum_weights` wrote them.
        drawn: In `[0, sum of all parts)`.
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
    """Set a unit's part to 0, so that it is not drawn again, and return what it was.

    Args:
        parts: int64, as `sum_weights` wrote them; changed.
        sums: int64, as `sum_weights` wrote them; changed.
        u: The unit.
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
    """Take units by rising rank; of equal ranks the first.

    Args:
        offsets: int64 `[N + 1]` of the units.
        pool: uint8 `[U]`, 1 where a unit may be taken.
        ranks: float64 `[U]`.
        lengths: int64 `[U]`: the cost of each unit.
        quota: int64 `[N]`, the budget; reduced by what was taken, to 0 or more.
        overrun: CUT, SKIP, OVER or STOP.
        taken: int64 `[U]`: how much of a unit was taken; elsewhere as it was.
    """
    for i in range(len(quota)):
        left = quota[i]
        if left > 0:
            begin, end = offsets[i], offsets[i + 1]
            order = np.argsort(ranks[begin:end], kind="mergesort")
            for place in range(len(order)):
                u = begin + order[place]
                if pool[u] == 0:
                    continue
                some = portion(lengths[u], left, overrun) if left > 0 else -1
                if some < 0:
                    break
                taken[u] = some
                left -= some

        # OVER may have taken more than was left.
        quota[i] = max(left, 0)
