"""Which words are masked how often; a word is its sequence of sub-words, masked where one of them is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import tokenizers

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, Ragged
from mslm_data.kernels.tally import find_hidden_words
from mslm_data.lexicon.word_types import WordNumbers, word_strings
from mslm_data.mask.strategy import Strategy


@dataclass(frozen=True, slots=True)
class MaskedWord:
    """One word type.

    Attributes:
        tokens: Its sub-words.
        masked: How often it was masked, over all epochs.
        occurrences: How often it stands in the rows; this counts one epoch.
    """

    tokens: tuple[int, ...]
    masked: int
    occurrences: int


class MaskedWords:
    """Counts masked words by type. Holds each type's sub-words and about 40 bytes for each type."""

    def __init__(self) -> None:
        """Begin with no word."""
        self._numbers = WordNumbers()
        self._masked = np.zeros(0, np.int64)
        self._seen: npt.NDArray[np.int32] = np.empty(0, np.int32)

    def see(self, examples: Examples) -> None:
        """Number the words of the next rows."""
        self._seen = self._numbers.number(examples).values

    def add(self, examples: Examples, kinds: Array) -> None:
        """Count the masked words of the rows last seen.

        Args:
            examples: These rows.
            kinds: uint8 `[T]`, of one plan of them.
        """
        hidden = np.empty(len(self._seen), np.uint8)
        find_hidden_words(examples.word_ids.offsets, examples.word_ids.values, kinds, hidden)
        added = np.bincount(self._seen[hidden > 0], minlength=len(self._masked))
        added[: len(self._masked)] += self._masked
        self._masked = added

    def counts(self) -> npt.NDArray[np.int64]:
        """Return how often each type was masked, `[W]` or fewer, in order of first appearance."""
        return self._masked

    def entropy(self) -> float:
        """Return the entropy of the masked words' distribution, in bits; 0 where there are none."""
        counts = self._masked[self._masked > 0]
        total = int(counts.sum())
        values, times = np.unique(
            counts, return_counts=True
        )  # few, and in an order that does not depend on the rows'
        terms = (
            n * k * math.log2(total / n)
            for n, k in zip(values.tolist(), times.tolist(), strict=True)
        )
        return math.fsum(terms) / total if total else 0.0

    def top(self, count: int) -> list[MaskedWord]:
        """Return the words that were masked most, the first in the corpus first among equals."""
        words = self._numbers.words()
        order = np.argsort(-self._masked, kind="stable")[:count]
        return [
            MaskedWord(tuple(words.tokens[w].tolist()), int(self._masked[w]), int(words.counts[w]))
            for w in order.tolist()
            if self._masked[w] > 0
        ]


def most_masked_words(
    chunks: Callable[[], Iterable[Examples]],
    strategy: Strategy,
    *,
    seed: int = 0,
    epochs: int = 1,
    count: int = 20,
) -> list[MaskedWord]:
    """Return the words that a strategy masks most often, in one pass.

    Args:
        chunks: As in `mask_stats`.
        strategy: As there; so seed and epochs.
        seed: As in training.
        epochs: Epochs `[0, epochs)` are planned.
        count: How many words.
    """
    words = MaskedWords()
    for examples in chunks():
        words.see(examples)
        for epoch in range(epochs):
            words.add(examples, strategy.plan(examples, seed=seed, epoch=epoch).kinds.values)
    return words.top(count)


def word_texts(words: Sequence[MaskedWord], tokenizer: tokenizers.Tokenizer) -> list[str]:
    """Return words as the folder's tokenizer writes them; see `vocab.words.word_strings`."""
    return word_strings(Ragged.of([word.tokens for word in words], np.int32), tokenizer)
