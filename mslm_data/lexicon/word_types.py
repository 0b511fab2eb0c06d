"""Number and count the word types of rows.

A word is the sequence of its sub-words, as delimited by `word_ids`. Types are numbered in order of
first occurrence, so their numbers do not depend on the size of chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import tokenizers

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, Ragged, make_offsets
from mslm_data.kernels import word_numbers as kernels

_TOKENS_AT_ONCE = 1 << 15
"""Approximate number of tokens per kernel call. Tables are sized for all words to be new."""


@dataclass(frozen=True, slots=True, eq=False)
class WordTypes:
    """W word types.

    Attributes:
        tokens: int32, W rows: sub-words of each type, in order of first occurrence.
        counts: int64 `[W]`, number of occurrences.
    """

    tokens: Ragged
    counts: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.counts)


class WordNumbers:
    """Number word types, chunk by chunk.

    Needs memory for the sub-words of each type, and about 30 bytes more.
    """

    def __init__(self) -> None:
        """Start without words."""
        # Most words have one token, and are looked up by it; others are in a hash table, as are
        # words of a token beyond the vocabulary of the first rows.
        self._alone = np.empty(0, np.int32)
        self._table = np.full(1024, -1, np.int32)

        # Sub-words and counts of the types, in arrays with spare capacity, and the number of types.
        self._offsets = np.zeros(1, np.int64)
        self._values = np.empty(0, np.int32)
        self._counts = np.zeros(0, np.int64)
        self._size = np.zeros(1, np.int64)

    def number(self, examples: Examples) -> Ragged:
        """Return the number of each word of each row, and update the counts.

        Returns:
            int32, numbers of the words of each row. Special tokens are skipped.
        """
        words = examples.word_ids.values
        return self.number_tokens(examples.input_ids, words, size=examples.ids.size)

    def number_tokens(self, ids: Ragged, words: Array, *, size: int) -> Ragged:
        """Return word numbers of rows of tokens, and update the counts; see `number`.

        Args:
            ids: int32, T tokens in N rows.
            words: int32 `[T]`, word number of each token within its row; -1 on special tokens.
            size: Number of ids of the tokenizer.
        """
        if not len(self._alone):
            self._alone = np.full(size, -1, np.int32)

        counts = np.empty(len(ids), np.int64)
        numbers = np.empty(len(ids.values), np.int32)
        filled = 0
        bounds = np.empty((0, 2), np.int64)  # first token of each word, token after its last

        # Number a few rows at a time, which limits the spare capacity of the tables.
        for start, stop in _split_rows(ids.offsets):
            offsets = ids.offsets[start : stop + 1]
            if len(bounds) < offsets[-1] - offsets[0]:
                bounds = np.empty((offsets[-1] - offsets[0], 2), np.int64)
            kernels.find_words(offsets, words, bounds, counts[start:stop])

            num_words = int(counts[start:stop].sum())
            self._number(ids.values, bounds[:num_words], numbers[filled : filled + num_words])
            filled += num_words

        return Ragged(numbers[:filled], make_offsets(counts))

    def tokens_from(self, first: int) -> Ragged:
        """Return the sub-words of the types numbered `first` and above."""
        size = int(self._size[0])
        offsets = self._offsets[first : size + 1]
        return Ragged(self._values[offsets[0] : offsets[-1]].copy(), offsets - offsets[0])

    def words(self) -> WordTypes:
        """Return all types so far."""
        size = int(self._size[0])
        offsets = self._offsets[: size + 1].copy()
        tokens = Ragged(self._values[: offsets[-1]].copy(), offsets)
        return WordTypes(tokens, self._counts[:size].copy())

    def _number(self, tokens: Array, bounds: Array, out: Array) -> None:
        """Write the number of each word between `bounds` to `out`."""
        if len(bounds) == 0:
            return

        # Capacity for all words to be new types.
        num_types = int(self._size[0])
        max_words = num_types + len(bounds)
        self._offsets = _grow(self._offsets, max_words + 1)
        self._values = _grow(
            self._values, int(self._offsets[num_types] + bounds[-1, 1] - bounds[0, 0])
        )
        self._counts = _grow(self._counts, max_words)
        if len(self._table) < 2 * max_words:
            self._table = np.full(1 << (2 * max_words - 1).bit_length(), -1, np.int32)
            kernels.place_words(
                self._offsets[: num_types + 1], self._values, self._alone, self._table
            )

        kernels.number_words(
            tokens,
            bounds,
            self._alone,
            self._table,
            self._offsets,
            self._values,
            self._counts,
            self._size,
            out,
        )


def count_words(chunks: Iterable[Examples]) -> WordTypes:
    """Count the word types of rows, such as `Split.chunks()`, in one pass."""
    numbers = WordNumbers()
    for examples in chunks:
        numbers.number(examples)
    return numbers.words()


def word_strings(words: Ragged, tokenizer: tokenizers.Tokenizer) -> list[str]:
    """Decode each word type with the folder's tokenizer.

    Sub-words are joined; word boundary marks (`##`, byte-level and Metaspace spaces) and all spaces
    are removed. Normalisation of the tokenizer, such as lower-casing, cannot be undone. `[UNK]` is
    decoded as its name.

    Args:
        words: int32, sub-words of each type, such as `WordTypes.tokens`.
        tokenizer: The folder's tokenizer, `tokenizers.Tokenizer.from_file(str(folder /
            "tokenizer.json"))`.
    """
    texts: list[str] = tokenizer.decode_batch(words.tolist(), skip_special_tokens=False)
    return [text.replace(" ", "") for text in texts]


def _split_rows(offsets: Array) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows with few tokens, at least one row each."""
    start, last = 0, len(offsets) - 1
    while start < last:
        stop = int(np.searchsorted(offsets, offsets[start] + _TOKENS_AT_ONCE, side="right")) - 1
        stop = min(max(stop, start + 1), last)
        yield start, stop
        start = stop


def _grow(array: Array, size: int) -> Array:
    """Return an array with at least `size` items, padded with zeros."""
    if len(array) >= size:
        return array
    grown = np.zeros(max(size, 2 * len(array)), array.dtype)
    grown[: len(array)] = array
    return grown
