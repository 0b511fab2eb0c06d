"""Pearson's chi-square test of uniform draws, over fixed keys, so that results are reproducible."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from itertools import combinations

import numpy as np

Sampler = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int, np.ndarray], None]


def is_fair(outcomes: Iterable[Hashable], possible: Iterable[Hashable]) -> bool:
    """Return whether all possible outcomes are equally likely.

    A fair sampler fails once in 30,000 times.
    """
    counts = Counter(outcomes)
    possible = list(possible)
    assert set(counts) <= set(possible), "an outcome that is not possible"
    expected = counts.total() / len(possible)
    assert expected >= 20, "too few draws to tell"
    statistic = sum((counts[outcome] - expected) ** 2 / expected for outcome in possible)
    return statistic < critical_value(len(possible) - 1)


def critical_value(freedom: int, deviations: float = 4.0) -> float:
    """Return the chi-square value at a normal deviation (Wilson and Hilferty 1931)."""
    spread = 2 / (9 * freedom)
    return freedom * (1 - spread + deviations * math.sqrt(spread)) ** 3


def subsets_chosen(
    sampler: Sampler, pool: list[int], quota: int, streams: np.ndarray
) -> list[tuple[int, ...]]:
    """Return the chosen set of each row, for rows with the same pool."""
    rows, length = len(streams), len(pool)
    out = np.zeros(rows * length, np.uint8)
    offsets = np.arange(rows + 1, dtype=np.int64) * length
    sampler(offsets, np.tile(np.array(pool, np.uint8), rows), np.full(rows, quota), streams, 1, out)
    return [tuple(np.flatnonzero(row).tolist()) for row in out.reshape(rows, length)]


def subsets_possible(pool: list[int], quota: int) -> list[tuple[int, ...]]:
    return list(combinations(np.flatnonzero(pool).tolist(), quota))


def is_near(count: int, draws: int, chance: float) -> bool:
    """Return whether a binomial count is within four standard deviations of its expectation."""
    return abs(count - draws * chance) <= 4 * math.sqrt(draws * chance * (1 - chance))
