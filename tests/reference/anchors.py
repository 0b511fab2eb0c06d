"""TF-ICF word by word, in exact numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction


def lower(text: str) -> str | None:
    """Return a word as it is counted, None for what is none."""
    word = text.lower()
    return word if len(word) > 1 and all(letter.isalpha() for letter in word) else None


def tf_icf(
    forms: Sequence[tuple[str, int]],
    general: Mapping[str, int],
    *,
    smoothing: Fraction,
    min_count: int,
) -> list[tuple[str, int, Fraction]]:
    """Rank words by TF-ICF; of equal ones the more frequent first, then by the alphabet.

    Args:
        forms: Text and occurrences of each word type.
        general: Word -> occurrences in general text.
        smoothing: Added to these.
        min_count: Floor.

    Returns:
        Word, number of its most frequent form, score.
    """
    counts: Counter[str] = Counter()
    for text, count in forms:
        if (word := lower(text)) is not None:
            counts[word] += count
    ranked = []
    for word, count in counts.items():
        if count < min_count:
            continue
        here = Fraction(count, sum(counts.values()))
        there = (general.get(word, 0) + smoothing) / (
            sum(general.values()) + smoothing * len(general)
        )
        own = [number for number, (text, _) in enumerate(forms) if lower(text) == word]
        form = max(own, key=lambda number: (forms[number][1], -number))
        ranked.append((here / there, count, word, form))
    ranked.sort(key=lambda one: (-one[0], -one[1], one[2]))
    return [(word, form, score) for score, _, word, form in ranked]
