"""Number and count the word types of rows.

A word is its sequence of sub-words, between the boundaries of `word_ids`.

Types are numbered in order of first appearance, so numbers do not depend on how rows are cut into
chunks.
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
"""About how many tokens are numbered by one call. Tables get room for all of their words to be
new."""


@dataclass(frozen=True, slots=True, eq=False)
class WordTypes:
    """W word types.

    Attributes:
        tokens: int32, W rows: the sub-words of each type, in order of first appearance; none is
            empty.
        counts: int64 `[W]`: how often each occurs.
    """

    tokens: Ragged
    counts: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.counts)


class WordNumbers:
    """Number word types, chunk by chunk.

    It holds each type's sub-words and about 30 bytes more.
    """

    def __init__(self) -> None:
        """Begin with no word."""
        # Words of one token, most of a text, are found by that token; the others by a hash table.
        self._alone = np.empty(0, np.int32)
        self._table = np.full(1024, -1, np.int32)

        # The types: sub-words and counts, both longer than what is used, and how many types there
        # are.
        self._offsets = np.zeros(1, np.int64)
        self._values = np.empty(0, np.int32)
        self._counts = np.zeros(0, np.int64)
        self._size = np.zeros(1, np.int64)

    def number(self, examples: Examples) -> Ragged:
        """Return the number of each word of each row, and update the counts.

        Returns:
            int32, one row of numbers for each row of `examples`. Special tokens are in no word.
        """
        words = examples.word_ids.values
        return self.number_tokens(examples.input_ids, words, size=examples.ids.size)

    def number_tokens(self, ids: Ragged, words: Array, *, size: int) -> Ragged:
        """Return word numbers of rows of tokens, and update the counts; see `number`.

        Args:
            ids: int32, T tokens in N rows.
            words: int32 `[T]`, the number of each token's word within its row; -1 on special
                tokens.
            size: Number of the tokenizer's ids.
        """
        if len(self._alone) < size:
            self._all_tokens(size)

        counts = np.empty(len(ids), np.int64)
        numbers = np.empty(len(ids.values), np.int32)
        filled = 0
        bounds = np.empty(
            (0, 2), np.int64
        )  # the first token of each word and the one after its last

        for start, stop in _parts(ids.offsets):
            offsets = ids.offsets[start : stop + 1]
            if len(bounds) < offsets[-1] - offsets[0]:
                bounds = np.empty((offsets[-1] - offsets[0], 2), np.int64)
            kernels.find_words(offsets, words, bounds, counts[start:stop])

            found = int(counts[start:stop].sum())
            self._number(ids.values, bounds[:found], numbers[filled : filled + found])
            filled += found

        return Ragged(numbers[:filled], make_offsets(counts))

    def tokens_from(self, first: int) -> Ragged:
        """Return the sub-words of the types numbered `first` or higher, in order."""
        size = int(self._size[0])
        offsets = self._offsets[first : size + 1]
        return Ragged(self._values[offsets[0] : offsets[-1]].copy(), offsets - offsets[0])

    def words(self) -> WordTypes:
        """Return the types so far."""
        size = int(self._size[0])
        offsets = self._offsets[: size + 1].copy()
        tokens = Ragged(self._values[: offsets[-1]].copy(), offsets)
        return WordTypes(tokens, self._counts[:size].copy())

    def _all_tokens(self, size: int) -> None:
        """Allocate single-token words for a vocabulary."""
        known = int(self._size[0])

        self._alone = np.full(size, -1, np.int32)
        singles = np.flatnonzero(np.diff(self._offsets[: known + 1]) == 1)
        tokens = self._values[self._offsets[singles]]
        inside = (tokens >= 0) & (tokens < size)
        self._alone[tokens[inside]] = singles[inside]

        self._place(known)

    def _place(self, max_words: int) -> None:
        """Rebuild the hash table with room for this many words."""
        known = int(self._size[0])
        self._table = np.full(max(1024, 1 << (2 * max_words - 1).bit_length()), -1, np.int32)
        if known:
            kernels.place_words(self._offsets[: known + 1], self._values, self._alone, self._table)

    def _number(self, tokens: Array, bounds: Array, out: Array) -> None:
        """Write the number of each word between `bounds` to `out`."""
        if len(bounds) == 0:
            return

        # Room for every word to be a new type.
        known = int(self._size[0])
        max_words = known + len(bounds)
        self._offsets = _with_room(self._offsets, max_words + 1)
        self._values = _with_room(
            self._values, int(self._offsets[known] + bounds[-1, 1] - bounds[0, 0])
        )
        self._counts = _with_room(self._counts, max_words)
        if len(self._table) < 2 * max_words:
            self._place(max_words)

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
    """Count the word types of rows, such as those of `Split.chunks()`, in one pass."""
    numbers = WordNumbers()
    for examples in chunks:
        numbers.number(examples)
    return numbers.words()


def word_strings(words: Ragged, tokenizer: tokenizers.Tokenizer) -> list[str]:
    """Decode each word type with the folder's tokenizer.

    Pieces are joined. The marks of word boundaries (`##`, byte-level and Metaspace spaces) and all
    spaces are taken out. Capitals and whatever else the tokenizer's normaliser took away stay away;
    `[UNK]` is decoded as its name.

    Args:
        words: int32, one row of sub-words for each type, as in `WordTypes.tokens`.
        tokenizer: The folder's: `tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))`.
    """
    texts: list[str] = tokenizer.decode_batch(words.tolist(), skip_special_tokens=False)
    return [text.replace(" ", "") for text in texts]


def _parts(offsets: Array) -> Iterator[tuple[int, int]]:
    """Split rows into ranges of few tokens, at least one row each."""
    start, last = 0, len(offsets) - 1
    while start < last:
        stop = int(np.searchsorted(offsets, offsets[start] + _TOKENS_AT_ONCE, side="right")) - 1
        stop = min(max(stop, start + 1), last)
        yield start, stop
        start = stop


def _with_room(array: Array, size: int) -> Array:
    """Return the array with at least `size` items; new ones are zero."""
    if len(array) >= size:
        return array
    grown = np.zeros(max(size, 2 * len(array)), array.dtype)
    grown[: len(array)] = array
    return grown
