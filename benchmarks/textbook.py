"""The papers' masking algorithms as plain Python loops: peers in `benchmarks.strategies`.

Each function returns the set of masked positions of each row.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class ListRow:
    """A row as lists, without special tokens.

    Attributes:
        ids: Token ids.
        begins: Whether each token begins a word.
        mentions: Mentions as half-open ranges of tokens.
    """

    ids: list[int]
    begins: list[bool]
    mentions: list[tuple[int, int]]


def elm(rows: Iterable[ListRow], rate: float, rng: random.Random) -> list[set[int]]:
    """Mask `ceil(rate * mentions)` whole mentions (Abaho et al. 2024, section 3)."""
    masked = []
    for row in rows:
        chosen = rng.sample(row.mentions, math.ceil(rate * len(row.mentions)))
        masked.append({t for start, end in chosen for t in range(start, end)})
    return masked


def span(rows: Iterable[ListRow], rate: float, rng: random.Random) -> list[set[int]]:
    """Mask spans of 2 to 4 tokens (Abaho et al. 2024, Algorithm 1), cut at the budget."""
    masked = []
    for row in rows:
        size = len(row.ids)
        budget = math.ceil(rate * size)
        taken: set[int] = set()
        for start in rng.sample(range(size), size):
            if len(taken) >= budget:
                break
            length = min(rng.randint(2, 4), budget - len(taken))
            places = range(start, min(start + length, size))
            if not taken.intersection(places):
                taken.update(places)
        masked.append(taken)
    return masked


def pmi(rows: Iterable[ListRow], rate: float, grams: Sequence[tuple[int, ...]]) -> list[set[int]]:
    """Mask listed n-grams, best first (Abaho et al. 2024, Algorithm 2).

    The paper's loop does not end if no n-gram is left before the budget is spent. This one ends
    after a pass over the list without a match.
    """
    masked = []
    for row in rows:
        size = len(row.ids)
        budget = math.ceil(rate * size)
        taken: set[int] = set()
        changed = True
        while changed and len(taken) < budget:
            changed = False
            for gram in grams:
                for start in range(size - len(gram) + 1):
                    places = range(start, start + len(gram))
                    # An n-gram of words neither starts nor ends inside a word.
                    whole = row.begins[start] and (
                        start + len(gram) == size or row.begins[start + len(gram)]
                    )
                    if (
                        whole
                        and tuple(row.ids[start : start + len(gram)]) == gram
                        and not taken.intersection(places)
                    ):
                        taken.update(list(places)[: budget - len(taken)])
                        changed = True
                        break
                if len(taken) >= budget:
                    break
        masked.append(taken)
    return masked


def weighted(
    rows: Iterable[npt.ArrayLike], rate: float, rng: np.random.Generator
) -> list[set[int]]:
    """Mask words drawn by weight without replacement.

    Calls `numpy.random.Generator.choice(replace=False, p=…)` for each row.

    Args:
        rows: Weights of the words of each row.
        rate: Share of words to mask.
        rng: Random number generator.
    """
    masked: list[set[int]] = []
    for weights in rows:
        p = np.asarray(weights)
        count = min(math.ceil(rate * len(p)), int((p > 0).sum()))
        if count == 0:
            masked.append(set())
            continue

        drawn = rng.choice(len(p), size=count, replace=False, p=p / p.sum())
        masked.append(set(drawn.tolist()))
    return masked
