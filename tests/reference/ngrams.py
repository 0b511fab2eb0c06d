"""Slow twins of `lexicon/ngrams`: tuples and dicts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from mslm_data.data.examples import Examples

Word = tuple[int, ...]
Gram = tuple[Word, ...]


def rows_of(examples: Examples) -> list[list[Word]]:
    """Return the words of each row."""
    rows = []
    for ids, words in zip(examples.input_ids.tolist(), examples.word_ids.tolist(), strict=True):
        row: dict[int, Word] = {}
        for token, word in zip(ids, words, strict=True):
            if word >= 0:
                row[word] = (*row.get(word, ()), token)
        rows.append(list(row.values()))
    return rows


def grams_of(row: Sequence[Word], n: int) -> Iterator[Gram]:
    return (tuple(row[i : i + n]) for i in range(len(row) - n + 1))


def count(rows: Sequence[Sequence[Word]], n: int) -> Counter[Gram]:
    return Counter(gram for row in rows for gram in grams_of(row, n))


def splits(gram: Gram) -> Iterator[list[Gram]]:
    """Give all ways to split a gram into two or more parts."""
    for first in range(1, len(gram)):
        yield [gram[:first], gram[first:]]
        for rest in splits(gram[first:]):
            yield [gram[:first], *rest]


def levine(gram: Gram, counts: Mapping[int, Counter[Gram]]) -> float:
    """Return PMI_n of Levine et al. 2021, Eq. 3, over every split."""

    def p(part: Gram) -> Fraction:
        return Fraction(counts[len(part)][part], counts[len(part)].total())

    return math.log2(min(p(gram) / math.prod(map(p, parts)) for parts in splits(gram)))


def covered(rows: Sequence[Sequence[Word]], listed: set[Gram]) -> int:
    """Count the tokens within a listed n-gram."""
    tokens = 0
    for row in rows:
        inside: set[int] = set()
        for n in {len(gram) for gram in listed}:
            for i, gram in enumerate(grams_of(row, n)):
                if gram in listed:
                    inside.update(range(i, i + n))
        tokens += sum(len(row[i]) for i in inside)
    return tokens
