"""Slow twin of `stats/corpus_counts.py`: rows as lists, terms as strings in Python's counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import tokenizers

Row = Mapping[str, Any]
"""A row as `Split[number]` gives it."""


def num_words(row: Row, start: int, end: int) -> int:
    return len([word for word, _ in groupby(row["word_ids"][start:end]) if word >= 0])


def mentions(row: Row) -> list[tuple[int, int, int]]:
    return list(zip(row["span_starts"], row["span_ends"], row["span_labels"], strict=True))


def term(row: Row, start: int, end: int, tokenizer: tokenizers.Tokenizer) -> str:
    """Return the text of a mention without case and white space."""
    text = tokenizer.decode(row["input_ids"][start:end], skip_special_tokens=False)
    return "".join(text.split()).casefold()


def terms(rows: Sequence[Row], tokenizer: tokenizers.Tokenizer) -> Counter[str]:
    """Return how often each term is mentioned."""
    return Counter(
        term(row, start, end, tokenizer) for row in rows for start, end, _ in mentions(row)
    )
