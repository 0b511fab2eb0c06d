"""Slow twin of `stats/corpus_counts.py`: rows as lists, terms as tuples of words in Python's counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import tokenizers

from tests.reference.overlap import normal_words

Term = tuple[str, ...]
Row = Mapping[str, Any]
"""A row as `Split[number]` gives it."""


def num_words(row: Row, start: int, end: int) -> int:
    return len([word for word, _ in groupby(row["word_ids"][start:end]) if word >= 0])


def mentions(row: Row) -> list[tuple[int, int, int]]:
    return list(zip(row["span_starts"], row["span_ends"], row["span_labels"], strict=True))


def term(row: Row, start: int, end: int, tokenizer: tokenizers.Tokenizer, unk: int) -> Term:
    """Return the normal words of a mention; a word with an unknown token has none."""
    places = range(start, end)
    words: list[str] = []
    for _, group in groupby(places, key=lambda t: row["word_ids"][t]):
        ids = [row["input_ids"][t] for t in group]
        if unk not in ids:
            text = tokenizer.decode(ids, skip_special_tokens=False)
            words += normal_words(text.replace(" ", ""))
    return tuple(words)


def terms(rows: Sequence[Row], tokenizer: tokenizers.Tokenizer, unk: int) -> Counter[Term]:
    """Return how often each term is mentioned; those without words come as `()`."""
    return Counter(
        term(row, start, end, tokenizer, unk) for row in rows for start, end, _ in mentions(row)
    )
