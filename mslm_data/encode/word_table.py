"""Tokenises each distinct word once, and looks repeated words up.

The `tokenizers` library encodes each item of a pre-tokenised sequence on its own, so the pieces of
a word depend on the word alone and can be cached. Running text is split at white space first.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt

from mslm_data.data.ragged import Array, make_offsets
from mslm_data.encode import longest_match
from mslm_data.encode.longest_match import LongestMatch, read_only
from mslm_data.encode.tokenizer import Tokenizer, library_errors
from mslm_data.kernels.hashing import enter_words, look_up_words

_GROUP = 512
"""Number of words in a sequence; the tokenizers library encodes sequences in parallel."""

_AT_ONCE = 1 << 18
"""Maximum number of characters in a call of the library, which needs up to 1 KiB per token."""

_LONGEST = 1 << 16
"""Length in characters above which a word is tokenised in parts, each on its own."""

_REACH = 1 << 10
"""Number of characters at the end of a part in which a boundary between letters is searched."""

_MANY = 4096
"""Number of words from which reading the vocabulary for the fast kernel pays off."""

Ints = npt.NDArray[np.int64]


class WordTable:
    """A cache of word -> pieces.

    Words are stored as code points in a hash table, so that a lookup creates no Python object.

    Attributes:
        tokenizer: The tokenizer of all words.
        offsets: int64 `[W + 1]`, pieces of each known word.
        pieces: int32 `[P, 4]`: id; first character within the word; character after the last, past
            the first, as every piece covers a character; for running text, the number of the word
            within the stretch, as `number_words` counts.
    """

    def __init__(self, tokenizer: Tokenizer, *, limit: int = 500_000) -> None:
        """Start with an empty cache.

        Args:
            tokenizer: The tokenizer of all words.
            limit: Maximum number of words. A full table is cleared, so that memory stays bounded.
        """
        self.tokenizer = tokenizer
        self._limit = limit
        self._longest_match: LongestMatch | None = None
        self._has_vocabulary = False
        self._clear()

    @property
    def offsets(self) -> Ints:
        """Pieces of each known word, `[W + 1]`."""
        return self._offsets.values

    @property
    def pieces(self) -> npt.NDArray[np.int32]:
        """Pieces of all known words, `[P, 4]`."""
        return self._pieces.values

    def rows(self, line: str, chars: npt.NDArray[np.uint32], bounds: Ints) -> Ints:
        """Return the row of each word in the table; new words are tokenised and added.

        Args:
            line: Text.
            chars: `[len(line)]`, its code points.
            bounds: `[W, 2]`, each word's characters on the line, half open.
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

        # The characters of all words end to end, and the range of each word; a hash table of word
        # numbers, and the hashes.
        self._chars = Growing(np.empty(0, np.uint32))
        self._bounds = Growing(np.empty((0, 2), np.int64))
        self._slots = _empty_slots(0)
        self._hashes = Growing(np.empty(0, np.uint64))

    def _add(self, line: str, chars: npt.NDArray[np.uint32], bounds: Ints) -> Ints:
        """Tokenise new words, store them, and return the row of each."""
        # Equal words are tokenised once: a temporary hash table finds the first of each.
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
        """Store words of a line, in this order."""
        num_known = len(self._bounds.values)
        copied, places = _copied(chars, bounds)
        self._bounds.extend(len(self._chars.values) + places)
        self._chars.extend(copied)
        self._hashes.extend(np.empty(len(bounds), np.uint64))

        # Linear probing needs a table that is at most half full; a larger one gets all words.
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
        """Tokenise distinct words of a line.

        Returns:
            The number of each word's pieces, and the pieces.
        """
        is_plain = self._plain(chars, bounds)
        plain_counts = np.empty(0, np.int64)
        plain_pieces = np.empty((0, 4), np.int32)
        if self._longest_match is not None:
            copied, places = _copied(chars, bounds[is_plain])
            plain_counts, plain_pieces = self._longest_match.cut(copied, places)

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

        counts = np.empty(len(bounds), np.int64)
        counts[is_plain] = plain_counts
        counts[~is_plain] = other_counts
        is_plain_piece = np.repeat(is_plain, counts)
        pieces = np.empty((len(is_plain_piece), 4), np.int32)
        pieces[is_plain_piece] = plain_pieces
        pieces[~is_plain_piece] = other_pieces
        self._make_unknown(pieces[:, 0])
        return counts, pieces

    def _plain(self, chars: npt.NDArray[np.uint32], bounds: Ints) -> npt.NDArray[np.bool_]:
        """Return which words the fast kernel can tokenise."""
        # Reading the vocabulary takes as long as tokenising `_MANY` words.
        if not self._has_vocabulary and len(self._bounds.values) + len(bounds) >= _MANY:
            self._longest_match = longest_match.load_longest_match(self.tokenizer)
            self._has_vocabulary = True

        if self._longest_match is None:
            return np.zeros(len(bounds), np.bool_)
        return self._longest_match.printable(chars, bounds)

    def _encoded(self, words: Sequence[str], lengths: Ints) -> tuple[Ints, npt.NDArray[np.int32]]:
        """Tokenise words with the tokenizers library.

        Args:
            words: Distinct words.
            lengths: Their characters.

        Returns:
            The word of each piece, and the pieces, whose last column is 0.
        """
        lead = self.tokenizer.lead
        parts, word_of_part, begins = _parts(words, lengths)
        if lead:
            texts = zip(parts, begins.tolist(), strict=True)
            parts = [part if begin else lead + part for part, begin in texts]
        # Characters count from the word's first, so without the lead.
        shifts = np.where(begins > 0, begins, -len(lead))

        sizes = np.fromiter(map(len, parts), np.int64, len(parts))
        cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // _AT_ONCE)) + 1
        batches = [parts[start:end] for start, end in pairwise([0, *cuts.tolist(), len(parts)])]
        encoded = [self._encoded_at_once(batch) for batch in batches]
        ids = np.concatenate([ids for ids, _, _ in encoded])
        part_of_piece = np.concatenate(
            [texts + first for (_, texts, _), first in zip(encoded, [0, *cuts], strict=True)]
        )
        spans = np.concatenate([spans for _, _, spans in encoded]) + shifts[part_of_piece, None]

        # A piece without a character of the word, such as the lead alone, gets the nearest one.
        word_of_piece = word_of_part[part_of_piece]
        pieces = np.zeros((len(ids), 4), np.int32)
        pieces[:, 0] = ids
        pieces[:, 1] = np.clip(spans[:, 0], 0, lengths[word_of_piece] - 1)
        pieces[:, 2] = np.clip(spans[:, 1], pieces[:, 1] + 1, lengths[word_of_piece])
        return word_of_piece, pieces

    def _encoded_at_once(self, texts: Sequence[str]) -> tuple[Ints, Ints, Ints]:
        """Tokenise texts; return `[P]` ids, `[P]` text numbers and `[P, 2]` character bounds."""
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
        """Replace special ids by the unknown token, in place.

        A Unigram model has `<mask>` among its pieces; text must never produce it.
        """
        unk = self.tokenizer.ids.unk
        if unk < 0:
            return
        control = set(self.tokenizer.ids.special) - {unk}
        ids[np.isin(ids, list(control))] = unk


class Growing:
    """An array with amortised constant-time append: its capacity doubles."""

    def __init__(self, values: Array) -> None:
        """Start with these values."""
        self._room = values
        self._length = len(values)

    @property
    def values(self) -> Array:
        """The values so far, as a view."""
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


def _parts(words: Sequence[str], lengths: Ints) -> tuple[Sequence[str], Ints, Ints]:
    """Cut very long words into parts.

    Args:
        words: Words.
        lengths: Their characters.

    Returns:
        The parts, and of each its word and its first character there.
    """
    if lengths.max(initial=0) <= _LONGEST:
        return words, np.arange(len(words)), np.zeros(len(words), np.int64)

    parts: list[str] = []
    word_of_part: list[int] = []
    begins: list[int] = []
    for number, word in enumerate(words):
        begin = 0
        while begin < len(word):
            end = _find_part_end(word, begin)
            parts.append(word[begin:end])
            word_of_part.append(number)
            begins.append(begin)
            begin = end
    return parts, np.array(word_of_part, np.int64), np.array(begins, np.int64)


def _find_part_end(word: str, begin: int) -> int:
    """Return the end of the part of a word that starts at `begin`."""
    end = begin + _LONGEST
    if end >= len(word):
        return len(word)
    # Where a letter stands before a comma, tokenizers cut too, so the pieces stay the same.
    for place in range(end, end - _REACH, -1):
        if word[place - 1].isalnum() and not word[place].isalnum():
            return place
    return end


def _copied(chars: npt.NDArray[np.uint32], bounds: Ints) -> tuple[npt.NDArray[np.uint32], Ints]:
    """Copy words end to end; return their characters and the bounds of each word."""
    starts, ends = bounds.T
    offsets = make_offsets(ends - starts)
    shifts = np.repeat(starts - offsets[:-1], ends - starts)
    copied = chars[np.arange(offsets[-1]) + shifts]
    return copied, np.stack([offsets[:-1], offsets[1:]], axis=1)


def _empty_slots(words: int) -> npt.NDArray[np.int32]:
    """Make an empty hash table with more than two slots per word."""
    return np.full(1 << max(10, (2 * words).bit_length()), -1, np.int32)


def number_words(stretch: str, starts: Sequence[int]) -> list[int]:
    """Number the words of a stretch of text; return the word number of each piece.

    A word is a run of letters, digits and combining marks, or one other character: the same words
    for every tokenizer. A piece that begins at the first character of a word begins that word. Any
    other piece belongs to the word before it, so a piece over several words makes them one.

    Args:
        stretch: Characters without white space.
        starts: First character of each piece, never falling.

    Returns:
        The number of each piece's word, from 0.
    """
    if stretch.isalnum():
        return [0] * len(starts)

    is_head = _heads(stretch)
    numbers: list[int] = []
    number = -1
    last = -1
    for start in starts:
        # Byte-level pieces of one character start at the same place.
        if start != last and (is_head[start] or number < 0):
            number += 1
        numbers.append(number)
        last = start
    return numbers


def _heads(stretch: str) -> bytearray:
    """Return for each character whether it begins a word."""
    is_head = bytearray(len(stretch))
    inside = False
    for place, character in enumerate(stretch):
        joins = character.isalnum() or (inside and is_mark(character))
        is_head[place] = not (inside and joins)
        inside = joins
    return is_head


def is_mark(character: str) -> bool:
    """Return whether a character is a combining mark, which belongs to the word before it."""
    return unicodedata.category(character)[0] == "M"
