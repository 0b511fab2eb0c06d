"""Take units of one row up to a budget: slow twins of `kernels/fill.py`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, permutations

from tests.reference import rng

SHARE = 2**31
"""Weights are counted in this part of the row's largest."""


def fill(
    order: Iterable[int], lengths: Sequence[int], budget: int, overrun: str
) -> tuple[list[int], int]:
    """Take units in order until the budget is spent."""
    taken, left = [0] * len(lengths), budget
    for u in order:
        if left == 0:
            break
        if lengths[u] <= left:
            taken[u] = lengths[u]
        elif overrun == "cut":
            taken[u] = left
        elif overrun == "stop":
            break
        left -= taken[u]
    return taken, left


def uniform(
    stream: int, pool: Sequence[int], lengths: Sequence[int], budget: int, overrun: str
) -> tuple[list[int], int]:
    return fill(
        shuffled(stream, [u for u, open_ in enumerate(pool) if open_]), lengths, budget, overrun
    )


def shuffled(stream: int, units: list[int]) -> Iterable[int]:
    """Draw k is one of those that are left; the one that stood first of them takes its place."""
    for k in range(len(units)):
        j = k + rng.below(stream, k, len(units) - k)
        units[k], units[j] = units[j], units[k]
        yield units[k]


def weighted(
    stream: int, weights: Sequence[float], lengths: Sequence[int], budget: int, overrun: str
) -> tuple[list[int], int]:
    return fill(by_weight(stream, weights), lengths, budget, overrun)


def by_weight(stream: int, weights: Sequence[float]) -> Iterable[int]:
    """Draw k is one of those that are left, in proportion to its weight."""
    most = max(weights, default=0)
    left = {u: max(int(weight / most * SHARE), 1) for u, weight in enumerate(weights) if weight > 0}
    k = 0
    while left:
        total = sum(left.values())
        drawn = min(int(float(rng.uniform(stream, k)) * total), total - 1)
        sums = list(accumulate(left.values()))
        u = list(left)[next(place for place, end in enumerate(sums) if drawn < end)]
        del left[u]
        yield u
        k += 1


def ranked(
    pool: Sequence[int], ranks: Sequence[float], lengths: Sequence[int], budget: int, overrun: str
) -> tuple[list[int], int]:
    order = [u for u in sorted(range(len(ranks)), key=lambda u: ranks[u]) if pool[u]]
    return fill(order, lengths, budget, overrun)


def law(weights: Sequence[float], k: int) -> dict[frozenset[int], float]:
    """Return the chance of each set of k units, summed over all orders of drawing them."""
    chances: dict[frozenset[int], float] = {}
    for order in permutations([u for u, weight in enumerate(weights) if weight > 0], k):
        chance, left = 1.0, sum(weights)
        for u in order:
            chance, left = chance * weights[u] / left, left - weights[u]
        chances[frozenset(order)] = chances.get(frozenset(order), 0.0) + chance
    return chances


def inclusion(weights: Sequence[float], k: int) -> list[float]:
    """Return the chance of each unit to be among the k."""
    chances = law(weights, k)
    return [
        sum(chance for units, chance in chances.items() if u in units) for u in range(len(weights))
    ]
