"""Tokenises each distinct word once, and caches its pieces.

The `tokenizers` library encodes each item of a pre-tokenised sequence independently. So the pieces
of a word depend only on the word, and can be cached. Running text is split at white space first.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cached_property
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt

from mslm_data.data.ragged import Array, count_up, make_offsets, read_only
from mslm_data.encode.longest_match import LongestMatch, load_longest_match
from mslm_data.encode.tokenizer import Tokenizer, find_batches, library_errors
from mslm_data.kernels.hashing import enter_words, look_up_words

_GROUP = 512
"""Number of words in a sequence. The library encodes sequences in parallel."""

_LONGEST = 1 << 16
"""Maximum number of characters in a word. Longer words are tokenised in parts."""

_MANY = 4096
"""Number of words from which the fast kernel is used: reading its vocabulary takes as long as
tokenising this many words."""

Ints = npt.NDArray[np.int64]


class WordTable:
    """Cache of the pieces of W words.

    Words are stored as code points in a hash table, so a lookup creates no Python objects.

    Rows of `pieces` for the run `causes.`::

        piece    id  start  end  word
            0  1044      0    4     0
            1   239      4    6     0
            2    18      6    7     1

    The run has two words, as `number_words` counts: `causes` and the full stop.

    Attributes:
        tokenizer: The tokenizer.
        offsets: int64 `[W + 1]`, offsets of the words' pieces.
        pieces: int32 `[P, 4]`, id, first character and character after the last within the run, and
            word within the run. Every piece covers at least a character.
    """

    def __init__(self, tokenizer: Tokenizer, *, limit: int = 500_000) -> None:
        """Start with an empty cache.

        Args:
            tokenizer: The tokenizer.
            limit: Maximum number of words. A full table is cleared. Default: 500,000.
        """
        self.tokenizer = tokenizer
        self._limit = limit
        self._clear()

    @property
    def offsets(self) -> Ints:
        """Offsets of the words' pieces, int64 `[W + 1]`."""
        return self._offsets.values

    @property
    def pieces(self) -> npt.NDArray[np.int32]:
        """Pieces of all words, int32 `[P, 4]`."""
        return self._pieces.values

    def rows(self, line: str, chars: npt.NDArray[np.uint32], bounds: Ints) -> Ints:
        """Return the index of each word in the table; tokenise and add new words.

        Args:
            line: A text.
            chars: uint32 `[len(line)]`, code points of the text.
            bounds: int64 `[K, 2]`, character range of each word in the text.

        Returns:
            int64 `[K]`, indices for `offsets`.
        """
        if len(self._bounds.values) > self._limit:
            self._clear()

        rows = np.empty(len(bounds), np.int64)
        look_up_words(
            chars,
            bounds,
            self._slots,
            read_only(self._chars.values),
            self._bounds.values,
            self._hashes.values,
            rows,
        )
        unknown = np.flatnonzero(rows < 0)
        if len(unknown):
            rows[unknown] = self._add(line, chars, bounds[unknown])
        return rows

    def _clear(self) -> None:
        self._offsets = Growing(np.zeros(1, np.int64))
        self._pieces = Growing(np.empty((0, 4), np.int32))

        # Concatenated characters of all words, the range of each word in these, a hash table of
        # word indices, and the hash of each word.
        self._chars = Growing(np.empty(0, np.uint32))
        self._bounds = Growing(np.empty((0, 2), np.int64))
        self._slots = _empty_slots(0)
        self._hashes = Growing(np.empty(0, np.uint64))

    def _add(self, line: str, chars: npt.NDArray[np.uint32], bounds: Ints) -> Ints:
        """Tokenise and store new words, and return their indices."""
        # The same word may occur several times: a temporary hash table finds its first occurrence.
        first = np.empty(len(bounds), np.int64)
        hashes = np.empty(len(bounds), np.uint64)
        enter_words(chars, bounds, 0, _empty_slots(len(bounds)), hashes, first)
        is_first = first == np.arange(len(bounds))

        bounds = bounds[is_first]
        counts, pieces = self._cut(line, chars, bounds)

        num_known = len(self._bounds.values)
        self._offsets.extend(self.offsets[-1] + np.cumsum(counts))
        self._pieces.extend(pieces)
        self._enter(chars, bounds)

        number_among_first = np.cumsum(is_first) - 1
        rows: Ints = num_known + number_among_first[first]
        return rows

    def _enter(self, chars: npt.NDArray[np.uint32], bounds: Ints) -> None:
        """Store the characters of new words, and enter the words into the hash table."""
        num_known = len(self._bounds.values)
        copied, places = _copied(chars, bounds)
        self._bounds.extend(len(self._chars.values) + places)
        self._chars.extend(copied)
        self._hashes.extend(np.empty(len(bounds), np.uint64))

        # Linear probing is fast if the table is at most half full. A larger table is filled anew.
        bounds = self._bounds.values
        first = num_known
        if 2 * len(bounds) > len(self._slots):
            self._slots = _empty_slots(2 * len(bounds))
            first = 0
        unused = np.empty(len(bounds), np.int64)
        chars = read_only(self._chars.values)
        enter_words(chars, bounds, first, self._slots, self._hashes.values, unused)

    def _cut(
        self, line: str, chars: npt.NDArray[np.uint32], bounds: Ints
    ) -> tuple[Ints, npt.NDArray[np.int32]]:
        """Tokenise K distinct words of a line.

        Returns:
            Number of pieces of each word, int64 `[K]`, and the pieces, int32 `[P, 4]`.
        """
        # Words for the fast kernel.
        is_plain = np.zeros(len(bounds), np.bool_)
        plain_counts = np.empty(0, np.int64)
        plain_pieces = np.empty((0, 4), np.int32)
        num_words = len(self._bounds.values) + len(bounds)
        if num_words >= _MANY and self._longest_match is not None:
            is_plain = self._longest_match.printable(chars, bounds)
            copied, places = _copied(chars, bounds[is_plain])
            plain_counts, plain_pieces = self._longest_match.cut(copied, places)

        # Other words, by the library.
        starts, ends = bounds[~is_plain].T
        words = [line[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        word_of_piece, other_pieces = self._encoded(words, ends - starts)
        other_counts = np.bincount(word_of_piece, minlength=len(words))
        offsets = make_offsets(other_counts)
        for number, word in enumerate(words):
            if not word.isalnum():
                word_slice = slice(offsets[number], offsets[number + 1])
                other_pieces[word_slice, 3] = number_words(
                    word, other_pieces[word_slice, 1].tolist()
                )

        # Merge both in the order of the words.
        counts = np.empty(len(bounds), np.int64)
        counts[is_plain] = plain_counts
        counts[~is_plain] = other_counts
        is_plain_piece = np.repeat(is_plain, counts)
        pieces = np.empty((len(is_plain_piece), 4), np.int32)
        pieces[is_plain_piece] = plain_pieces
        pieces[~is_plain_piece] = other_pieces
        self._make_unknown(pieces[:, 0])
        return counts, pieces

    @cached_property
    def _longest_match(self) -> LongestMatch | None:
        """The vocabulary of the fast kernel; None if it cannot tokenise as the tokenizer does."""
        return load_longest_match(self.tokenizer)

    def _encoded(self, words: Sequence[str], lengths: Ints) -> tuple[Ints, npt.NDArray[np.int32]]:
        """Tokenise words with the library.

        Args:
            words: Distinct words.
            lengths: Number of characters of each word.

        Returns:
            Word of each piece, int64 `[P]`, and the pieces, int32 `[P, 4]`, with 0 in the last
            column.
        """
        # Very long words are encoded in parts.
        counts = 1 + (lengths - 1) // _LONGEST
        word_of_part = np.repeat(np.arange(len(words)), counts)
        begins = _LONGEST * count_up(0, counts)
        lead = self.tokenizer.lead
        parts = [
            words[number][begin : begin + _LONGEST] if begin else lead + words[number][:_LONGEST]
            for number, begin in zip(word_of_part.tolist(), begins.tolist(), strict=True)
        ]
        # The library counts characters from the start of the part, or of the lead.
        shifts = np.where(begins > 0, begins, -len(lead))

        bounds = find_batches(parts)
        encoded = [self._encoded_at_once(parts[start:end]) for start, end in pairwise(bounds)]
        ids = np.concatenate([ids for ids, _, _ in encoded])
        part_of_piece = np.concatenate(
            [texts + first for (_, texts, _), first in zip(encoded, bounds[:-1], strict=True)]
        )
        spans = np.concatenate([spans for _, _, spans in encoded]) + shifts[part_of_piece, None]

        # A piece without a character of the word, such as the lead, gets the nearest character.
        word_of_piece = word_of_part[part_of_piece]
        pieces = np.zeros((len(ids), 4), np.int32)
        pieces[:, 0] = ids
        pieces[:, 1] = np.clip(spans[:, 0], 0, lengths[word_of_piece] - 1)
        pieces[:, 2] = np.clip(spans[:, 1], pieces[:, 1] + 1, lengths[word_of_piece])
        return word_of_piece, pieces

    def _encoded_at_once(self, texts: Sequence[str]) -> tuple[Ints, Ints, Ints]:
        """Tokenise texts; return ids `[P]`, text indices `[P]` and character ranges `[P, 2]`."""
        groups = [texts[i : i + _GROUP] for i in range(0, len(texts), _GROUP)]
        with library_errors("tokenizer: cannot encode text: ", private=True):
            encodings = self.tokenizer.core.encode_batch(
                groups, is_pretokenized=True, add_special_tokens=False
            )

        ids = np.array([id_ for encoding in encodings for id_ in encoding.ids], np.int64)
        text_of_piece = np.array(
            [
                number * _GROUP + text
                for number, encoding in enumerate(encodings)
                for text in encoding.word_ids
                if text is not None
            ],
            np.int64,
        )
        spans = chain.from_iterable(chain.from_iterable(encoding.offsets for encoding in encodings))
        return ids, text_of_piece, np.fromiter(spans, np.int64, 2 * len(ids)).reshape(-1, 2)

    def _make_unknown(self, ids: npt.NDArray[np.int32]) -> None:
        """Replace special ids by the unknown token, in place."""
        # Unigram models have special tokens such as `<mask>` among their pieces, so text could be
        # encoded to them.
        ids[np.isin(ids, list(self.tokenizer.control))] = self.tokenizer.ids.unk


class Growing:
    """An array with amortised constant-time append, by doubling its capacity."""

    def __init__(self, values: Array) -> None:
        """Start with initial values."""
        self._room = values
        self._length = len(values)

    @property
    def values(self) -> Array:
        """A view of the values."""
        return self._room[: self._length]

    def extend(self, values: Array) -> None:
        """Append values."""
        length = self._length + len(values)
        if length > len(self._room):
            capacity = max(length, 2 * self._length)
            room = np.empty((capacity, *self._room.shape[1:]), self._room.dtype)
            room[: self._length] = self.values
            self._room = room
        self._room[self._length : length] = values
        self._length = length


def _copied(chars: npt.NDArray[np.uint32], bounds: Ints) -> tuple[npt.NDArray[np.uint32], Ints]:
    """Concatenate words; return their characters and the range of each word in these."""
    starts, ends = bounds.T
    offsets = make_offsets(ends - starts)
    copied = chars[count_up(starts, ends - starts)]
    return copied, np.stack([offsets[:-1], offsets[1:]], axis=1)


def _empty_slots(words: int) -> npt.NDArray[np.int32]:
    """Make an empty hash table with more than two slots per word."""
    return np.full(1 << max(10, (2 * words).bit_length()), -1, np.int32)


def number_words(stretch: str, starts: Sequence[int]) -> list[int]:
    """Return the word of each piece of a run of text.

    A word is a run of letters, digits and combining marks, or a single other character; this does
    not depend on the tokenizer. A piece that starts at the first character of a word starts this
    word. Any other piece belongs to the word before, so a piece over several words merges them.

    Args:
        stretch: Characters without white space.
        starts: First character of each piece, non-decreasing.

    Returns:
        Index of each piece's word within the run, from 0.
    """
    is_head = _heads(stretch)
    numbers: list[int] = []
    number = -1
    last = -1
    for start in starts:
        # Byte-level pieces of the same character have equal starts.
        if start != last and (is_head[start] or number < 0):
            number += 1
        numbers.append(number)
        last = start
    return numbers


def _heads(stretch: str) -> bytearray:
    """Return whether each character starts a word."""
    is_head = bytearray(len(stretch))
    inside = False
    for place, character in enumerate(stretch):
        joins = character.isalnum() or (inside and is_mark(character))
        is_head[place] = not (inside and joins)
        inside = joins
    return is_head


def is_mark(character: str) -> bool:
    """Return whether a character is a combining mark, which continues a word."""
    return unicodedata.category(character)[0] == "M"
