"""Copies among documents by their exact shares of shingles, each document against all that stay."""

from __future__ import annotations

import re
from collections.abc import Sequence


def words_of(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[^\W_]+", text.casefold()))


def jaccard(words: Sequence[str], others: Sequence[str]) -> float:
    """Return the share of the runs of 5 words that both have of those that either has."""
    one, other = ({tuple(of[n : n + 5]) for n in range(len(of) - 4)} for of in (words, others))
    return len(one & other) / len(one | other) if one | other else 0.0


def copies(texts: Sequence[str], similarity: float) -> list[str]:
    """Return "exact", "near" or "" for each text, in the order in which they are preferred."""
    stay: list[tuple[str, ...]] = []
    seen: set[tuple[str, ...]] = set()
    kinds = []
    for words in map(words_of, texts):
        if words and words in seen:
            kinds.append("exact")
            continue
        seen.add(words)
        near = any(jaccard(words, other) >= similarity for other in stay)
        kinds.append("near" if near else "")
        if not near:
            stay.append(words)
    return kinds
