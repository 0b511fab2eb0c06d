"""Count the masks of each word.

A word type is a sequence of sub-words. A word counts as masked if one of its sub-words is masked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import tokenizers

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, Ragged
from mslm_data.kernels.tally import find_masked_words
from mslm_data.lexicon.word_types import WordNumbers, word_strings


@dataclass(frozen=True, slots=True)
class MaskedWord:
    """A word type with its number of masks.

    Attributes:
        tokens: Its sub-words.
        masked: Number of masked occurrences, over all epochs.
        occurrences: Number of occurrences, in one epoch.
    """

    tokens: tuple[int, ...]
    masked: int
    occurrences: int


class MaskedWords:
    """Counts masked words by type. Memory: the sub-words of each type, and about 40 bytes."""

    def __init__(self) -> None:
        """Start without words."""
        self._numbers = WordNumbers()
        self._masked = np.zeros(0, np.int64)
        self._seen: npt.NDArray[np.int32] = np.empty(0, np.int32)

    def see(self, examples: Examples) -> None:
        """Number the words of some rows, for `add`."""
        self._seen = self._numbers.number(examples).values

    def add(self, examples: Examples, kinds: Array) -> None:
        """Count the masked words of the rows last passed to `see`.

        Args:
            examples: The same rows.
            kinds: uint8 `[T]`, the kinds of a plan of these rows.
        """
        masked = np.empty(len(self._seen), np.uint8)
        find_masked_words(examples.word_ids.offsets, examples.word_ids.values, kinds, masked)

        added = np.bincount(self._seen[masked > 0], minlength=len(self._masked))
        added[: len(self._masked)] += self._masked
        self._masked = added

    def counts(self) -> npt.NDArray[np.int64]:
        """Return the number of masks of each type, in order of first appearance, `[W]` or fewer."""
        return self._masked

    def entropy(self) -> float:
        """Return the entropy of the distribution of masked words, in bits; 0 without masks."""
        counts = self._masked[self._masked > 0]
        total = int(counts.sum())
        if not total:
            return 0.0

        # Sum over distinct counts, which are few and sorted: the result does not depend on the
        # order of rows.
        values, times = np.unique(counts, return_counts=True)
        terms = [
            n * k * math.log2(total / n)
            for n, k in zip(values.tolist(), times.tolist(), strict=True)
        ]
        return math.fsum(terms) / total

    def top(self, count: int) -> list[MaskedWord]:
        """Return the most masked words. Ties in order of first appearance."""
        words = self._numbers.words()
        order = np.argsort(-self._masked, kind="stable")[:count]

        return [
            MaskedWord(tuple(words.tokens[w].tolist()), int(self._masked[w]), int(words.counts[w]))
            for w in order.tolist()
            if self._masked[w] > 0
        ]


def word_texts(words: Sequence[MaskedWord], tokenizer: tokenizers.Tokenizer) -> list[str]:
    """Return the text of words, decoded by `lexicon.word_types.word_strings`."""
    return word_strings(Ragged.from_rows([word.tokens for word in words], np.int32), tokenizer)
