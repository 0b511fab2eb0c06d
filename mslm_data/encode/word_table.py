"""Each distinct word is tokenised once; what a corpus repeats is looked up.

The `tokenizers` library encodes the items of a pre-tokenised sequence one by one, none knowing its neighbours, so the
pieces of a word are a function of the word alone. Running text comes as its stretches between white space.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from mslm_data.data.ragged import Array, offsets_of
from mslm_data.encode.tokenizer import Tokenizer, library_errors
from mslm_data.kernels.words import enter, look_up

_AT_ONCE = 512

Ints = npt.NDArray[np.int64]


class WordTable:
    """Word -> pieces, filled as words come. The words are kept as code points, so that a known one costs no object.

    Attributes:
        offsets: int64 `[W + 1]`, pieces of each word known.
        pieces: int32 `[P, 4]`: id; first character within the word; character after the last, past the first, as
            every piece covers a character; for running text, number of the word within the stretch, see
            `words_of_pieces`.
    """

    def __init__(self, tokenizer: Tokenizer, *, limit: int = 4_000_000) -> None:
        """Begin with no words.

        Args:
            tokenizer: What encodes.
            limit: Distinct words after which the table begins anew, so that memory stays bounded.
        """
        self._tokenizer = tokenizer
        self._limit = limit
        self._clear()

    @property
    def offsets(self) -> Ints:
        """See the class."""
        return self._offsets.values

    @property
    def pieces(self) -> npt.NDArray[np.int32]:
        """See the class."""
        return self._pieces.values

    def rows(self, line: str, chars: npt.NDArray[np.uint32], bounds: Ints) -> Ints:
        """Return the row of each word; words not met before are tokenised.

        Args:
            line: Text.
            chars: `[len(line)]`, its code points.
            bounds: `[W, 2]`, each word's characters on the line, half open.
        """
        if len(self._bounds.values) > self._limit:
            self._clear()
        rows = np.empty(len(bounds), np.int64)
        look_up(
            chars,
            bounds,
            self._slots,
            self._chars.values,
            self._bounds.values,
            self._hashes.values,
            rows,
        )
        unknown = np.flatnonzero(rows < 0)
        if len(unknown):
            rows[unknown] = self._add(line, chars, bounds[unknown])
        return rows

    def _clear(self) -> None:
        self._offsets, self._pieces = (
            Growing(np.zeros(1, np.int64)),
            Growing(np.empty((0, 4), np.int32)),
        )
        self._chars, self._bounds = (
            Growing(np.empty(0, np.uint32)),
            Growing(np.empty((0, 2), np.int64)),
        )
        self._hashes, self._slots = Growing(np.empty(0, np.uint64)), _slots(0)

    def _add(self, line: str, chars: npt.NDArray[np.uint32], bounds: Ints) -> Ints:
        """Tokenise and enter words that are not known, and return the row of each."""
        first = np.empty(len(bounds), np.int64)
        enter(chars, bounds, 0, _slots(len(bounds)), np.empty(len(bounds), np.uint64), first)
        is_first = first == np.arange(len(bounds))
        starts, ends = bounds[is_first].T
        words = [line[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        row, pieces = self._encoded(words, ends - starts)
        offsets = offsets_of(np.bincount(row, minlength=len(words)))
        for i, word in enumerate(words):
            if not word.isalnum():
                begin, end = offsets[i], offsets[i + 1]
                pieces[begin:end, 3] = words_of_pieces(word, pieces[begin:end, 1].tolist())
        known = len(self._bounds.values)
        self._offsets.extend(self.offsets[-1] + offsets[1:])
        self._pieces.extend(pieces)
        self._enter(words, ends - starts)
        rows: Ints = known + (np.cumsum(is_first) - 1)[first]
        return rows

    def _enter(self, words: Sequence[str], lengths: Ints) -> None:
        """Make words known, in this order."""
        known, ends = len(self._bounds.values), len(self._chars.values) + np.cumsum(lengths)
        self._chars.extend(
            np.frombuffer("".join(words).encode("utf-32-le", "surrogatepass"), np.uint32)
        )
        self._bounds.extend(np.stack([ends - lengths, ends], axis=1))
        self._hashes.extend(np.empty(len(words), np.uint64))
        bounds = self._bounds.values
        if 2 * len(bounds) > len(self._slots):
            self._slots, known = _slots(2 * len(bounds)), 0
        enter(
            self._chars.values,
            bounds,
            known,
            self._slots,
            self._hashes.values,
            np.empty(len(bounds), np.int64),
        )

    def _encoded(self, words: Sequence[str], lengths: Ints) -> tuple[Ints, npt.NDArray[np.int32]]:
        """Return the word of each piece, and the pieces as in `pieces`, but for the number of the word."""
        lead = self._tokenizer.lead
        groups = [words[i : i + _AT_ONCE] for i in range(0, len(words), _AT_ONCE)]
        with library_errors("tokenizer: expected that it encodes any text, got ", private=True):
            encodings = self._tokenizer.core.encode_batch(
                [[lead + word for word in group] for group in groups] if lead else groups,
                is_pretokenized=True,
                add_special_tokens=False,
            )
        ids = np.array([id_ for encoding in encodings for id_ in encoding.ids], np.int32)
        control = set(self._tokenizer.ids.special) - {self._tokenizer.ids.unk}
        if (
            self._tokenizer.ids.unk >= 0
        ):  # a Unigram model has `<mask>` among its pieces; text must never become it
            ids[np.isin(ids, list(control))] = self._tokenizer.ids.unk
        row = np.array(
            [
                g * _AT_ONCE + word
                for g, encoding in enumerate(encodings)
                for word in encoding.word_ids
                if word is not None
            ],
            np.int64,
        )
        spans = chain.from_iterable(chain.from_iterable(encoding.offsets for encoding in encodings))
        starts, ends = np.fromiter(spans, np.int64, 2 * len(ids)).reshape(-1, 2).T - len(lead)
        pieces = np.zeros((len(ids), 4), np.int32)
        pieces[:, 0] = ids
        pieces[:, 1] = np.clip(starts, 0, lengths[row] - 1)
        pieces[:, 2] = np.clip(ends, pieces[:, 1] + 1, lengths[row])
        return row, pieces


class Growing:
    """An array that grows at its end and has room to spare, so that appending costs only what is appended."""

    def __init__(self, values: Array) -> None:
        """Begin with these."""
        self._room, self._length = values, len(values)

    @property
    def values(self) -> Array:
        """What is there, as a view."""
        return self._room[: self._length]

    def extend(self, values: Array) -> None:
        """Append values."""
        length = self._length + len(values)
        if length > len(self._room):
            room = np.empty(
                (max(length, 2 * self._length), *self._room.shape[1:]), self._room.dtype
            )
            room[: self._length] = self.values
            self._room = room
        self._room[self._length : length] = values
        self._length = length


def _slots(words: int) -> Ints:
    """Return an empty hash table of at least twice so many slots."""
    return np.full(1 << max(10, (2 * words).bit_length()), -1, np.int64)


def words_of_pieces(stretch: str, starts: Sequence[int]) -> list[int]:
    """Number the words of a stretch of running text, and say which word each piece belongs to.

    A word is a run of letters, digits and combining marks, or one other character: the same words for every
    tokenizer. A piece that begins at the first character of a word begins that word; any other piece belongs to the
    word before it, so that pieces over several words make them one.

    Args:
        stretch: Characters without white space.
        starts: First character of each piece, never falling.

    Returns:
        The number of each piece's word, from 0.
    """
    if stretch.isalnum():
        return [0] * len(starts)
    heads = _heads(stretch)
    numbers: list[int] = []
    number, last = -1, -1
    for start in starts:
        if start != last and (start in heads or number < 0):
            number += 1
        numbers.append(number)
        last = start
    return numbers


def _heads(stretch: str) -> set[int]:
    """Return the first character of each word of a stretch."""
    heads: set[int] = set()
    inside = False
    for i, character in enumerate(stretch):
        joined = character.isalnum() or (inside and unicodedata.category(character)[0] == "M")
        if not (joined and inside):
            heads.add(i)
        inside = joined
    return heads
