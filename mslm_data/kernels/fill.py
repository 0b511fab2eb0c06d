"""Samplers with a budget: units of unequal length are taken one after the other until what is due is spent.

The three differ in the order alone: uniform, by weight, or by rank. `taken` holds how much of a unit was taken, in
what the budget counts, so that the last unit of a row can be cut.
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.draws import below, uniform

CUT, SKIP, OVER, STOP = range(4)
"""What becomes of a unit that is longer than what is left: its first tokens, none of it and on to the next, all of it
and no more after it, or nothing more at all."""
GROUP = 16
"""Weights that are added up together: a walk over groups, then over one, costs less than a tree up to 10,000 units."""


@kernel
def portion(length: int, left: int, overrun: int) -> int:
    """Return how much of a unit is taken: all, some, 0 to go on without it, -1 to end here.

    Args:
        length: Of the unit.
        left: Of the budget, more than 0.
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
    """Take units in uniformly random order: the steps of a Fisher-Yates shuffle, as many as the budget allows.

    Args:
        offsets: int64 `[N + 1]` of the units.
        pool: uint8 `[U]`: 1 where a unit may be taken.
        lengths: int64 `[U]`: what a unit takes of the budget.
        quota: int64 `[N]`: the budget; what is left of it afterwards, 0 at least.
        overrun: What to do with a unit that is longer than what is left.
        streams: uint64 `[N]`; draw k of a row is step k.
        taken: int64 `[U]`: how much of a unit was taken; elsewhere as it was.
    """
    longest = 1
    for i in range(len(streams)):
        longest = max(longest, offsets[i + 1] - offsets[i])
    places = np.empty(longest, np.int32)
    for i in range(len(streams)):
        begin, size, left = offsets[i], 0, quota[i]
        for u in range(offsets[i + 1] - begin):
            places[size] = u
            size += int(pool[begin + u])
        k = 0
        while k < size and left > 0:
            j = k + below(streams[i], k, size - k)
            u = begin + places[j]
            places[j] = places[k]
            some = portion(lengths[u], left, overrun)
            if some < 0:
                break
            taken[u] = some
            left -= some
            k += 1
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

    The law of `numpy.random.choice(replace=False, p)`, and of Efraimidis and Spirakis' keys: one draw and a short walk
    a unit, in whole numbers, so that every machine takes the same. Weights are counted in 2**-31 of the row's largest;
    what is smaller counts as one of these.

    Args:
        offsets: int64 `[N + 1]` of the units.
        pool: uint8 `[U]`: 1 where a unit may be taken.
        weights: float64 `[U]`, finite; 0 and less is never taken.
        lengths: int64 `[U]`: what a unit takes of the budget.
        quota: int64 `[N]`: the budget; what is left of it afterwards, 0 at least.
        overrun: What to do with a unit that is longer than what is left.
        streams: uint64 `[N]`; draw k of a row is the k-th unit drawn.
        taken: int64 `[U]`: how much of a unit was taken; elsewhere as it was.
    """
    longest = 0
    for i in range(len(streams)):
        longest = max(longest, offsets[i + 1] - offsets[i])
    parts, sums = np.empty(longest, np.int64), np.empty(longest // GROUP + 1, np.int64)
    for i in range(len(streams)):
        begin, end, left, k = offsets[i], offsets[i + 1], quota[i], 0
        total = weigh(pool[begin:end], weights[begin:end], parts, sums) if left > 0 else 0
        while left > 0 and total > 0:
            u = pick(parts, sums, min(int(uniform(streams[i], k) * total), total - 1))
            total -= drop(parts, sums, u)
            k += 1
            some = portion(lengths[begin + u], left, overrun)
            if some < 0:
                break
            taken[begin + u] = some
            left -= some
        quota[i] = max(left, 0)


@kernel
def weigh(pool: Array, weights: Array, parts: Array, sums: Array) -> int:
    """Put the weights of a row in whole numbers, and add them up in groups, so that `pick` need not pass them all.

    Args:
        pool: uint8 `[n]`: 1 where a unit may be taken, 0 elsewhere.
        weights: float64 `[n]`.
        parts: int64, `[0, n)` written: the weights, 0 where they are less or not in the pool.
        sums: int64, `[0, n / GROUP)` written, rounded up: the sum of each `GROUP` parts.

    Returns:
        The sum of all.
    """
    most = 0.0
    for u in range(len(weights)):
        most = max(most, pool[u] * weights[u])
    if most <= 0.0:
        return 0
    for u in range(len(weights)):
        weight = max(pool[u] * weights[u], 0.0)
        parts[u] = max(np.int64(weight / most * 2.0**31), np.int64(weight > 0))
    total = 0
    for first in range(0, len(weights), GROUP):
        some = 0
        for u in range(first, min(first + GROUP, len(weights))):
            some += parts[u]
        sums[first // GROUP] = some
        total += some
    return total


@kernel
def pick(parts: Array, sums: Array, drawn: int) -> int:
    """Return the unit in whose part of the sum a number falls; see `weigh`.

    Args:
        parts: int64.
        sums: int64.
        drawn: In `[0, sum of all)`.
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
def drop(parts: Array, sums: Array, u: int) -> int:
    """Make a unit's part 0, and return what it was; see `weigh`."""
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
        pool: uint8 `[U]`: 1 where a unit may be taken.
        ranks: float64 `[U]`.
        lengths: int64 `[U]`: what a unit takes of the budget.
        quota: int64 `[N]`: the budget; what is left of it afterwards, 0 at least.
        overrun: What to do with a unit that is longer than what is left.
        taken: int64 `[U]`: how much of a unit was taken; elsewhere as it was.
    """
    for i in range(len(quota)):
        begin, left = offsets[i], quota[i]
        if left > 0:
            order = np.argsort(ranks[begin : offsets[i + 1]], kind="mergesort")
            for place in range(len(order)):
                u = begin + order[place]
                if pool[u] == 0:
                    continue
                some = portion(lengths[u], left, overrun) if left > 0 else -1
                if some < 0:
                    break
                taken[u] = some
                left -= some
        quota[i] = max(left, 0)
