"""Slow twins of the counting in `kernels/tally.py` and `stats/`: one row at a time, over lists."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from tests.generate import Row


def runs(kinds: Sequence[int]) -> list[int]:
    """Return the length of each run of masked tokens."""
    return [len(list(group)) for masked, group in groupby(kinds, bool) if masked]


def words(row: Row) -> list[tuple[tuple[int, ...], list[int]]]:
    """Return the sub-words and the places of each word."""
    places: dict[int, list[int]] = {}
    for t, word in enumerate(row.word_ids):
        if word >= 0:
            places.setdefault(word, []).append(t)
    return [(tuple(row.ids[t] for t in where), where) for where in places.values()]


def entropy(counts: Counter[tuple[int, ...]]) -> float:
    """Return the entropy in bits of what was counted."""
    total = sum(counts.values())
    return sum(n / total * math.log2(total / n) for n in counts.values() if n)
