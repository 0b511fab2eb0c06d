"""Take units of one row up to a budget: slow twins of `kernels/take.py`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import permutations

import numpy as np

from tests.reference import rng


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
    """Return units of positive weight by ascending key, an exponential variable divided by it."""
    keys = {}
    for u, weight in enumerate(weights):
        if weight > 0:
            drawn = -math.log((rng.bits(stream, u) // 2**11 + 1) / 2**53)
            with np.errstate(over="ignore"):
                keys[u] = float(np.float64(drawn) / weight)
    return sorted(keys, key=lambda u: keys[u])


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
