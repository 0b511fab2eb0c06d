"""Slow twin of `stats/overlap.py`: words as strings, sentences and 13-grams in Python's sets."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import groupby

Sentence = tuple[str, ...]


def normal_words(text: str) -> Sentence:
    """Return runs of letters and digits, character by character."""
    chars = [
        char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char)
    ]
    runs = groupby(chars, key=str.isalnum)
    return tuple("".join(run).casefold() for is_word, run in runs if is_word)


def grams(words: Sentence, n: int) -> set[Sentence]:
    return {words[first : first + n] for first in range(len(words) - n + 1)}


def overlap(
    of: Sequence[str], within: Sequence[str], *, n: int = 13
) -> tuple[list[int], list[int]]:
    """Return the numbers of the texts of one list that stand in another, exactly and nearly."""
    known = {normal_words(text) for text in within} - {()}
    known_grams = {gram for words in known for gram in grams(words, n)}

    sentences = [normal_words(text) for text in of]
    exact = [number for number, words in enumerate(sentences) if words in known]
    near = [
        number
        for number, words in enumerate(sentences)
        if words not in known and grams(words, n) & known_grams
    ]
    return exact, near
