"""Read the words of rows into one long stream of numbers for counting.

A large stream is on disk, in files without a name below `$TMPDIR`: nothing of it is left behind,
even by a process that is killed.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO

import numpy as np
import numpy.typing as npt

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, Ragged, make_offsets
from mslm_data.kernels import ngrams as kernels
from mslm_data.kernels.gather import gather
from mslm_data.kernels.word_numbers import find_words
from mslm_data.lexicon.word_types import WordNumbers, WordTypes

LONGEST = 5
"""Words of the longest n-gram that is counted."""
IN_MEMORY = 1 << 24
"""Maximum bytes of a stream that stays in memory. On disk a write and a page fault for each page
take a third of the time."""


class Scratch:
    """A growing array on disk, mapped into memory when complete.

    A small one can stay in memory.
    """

    def __init__(self, dtype: npt.DTypeLike, *, in_memory: int = 0) -> None:
        """Make an empty array that stays in memory up to so many bytes."""
        self._dtype = np.dtype(dtype)
        self._in_memory = in_memory
        self._parts: list[Array] = []
        self._file: IO[bytes] | None = None
        self._bytes = 0

    def append(self, items: Array) -> None:
        """Append items, which must not be changed afterwards."""
        items = np.ascontiguousarray(items, self._dtype).reshape(-1)
        self._bytes += items.nbytes
        if self._file is None and self._bytes <= self._in_memory:
            self._parts.append(items)
            return

        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - the mapping outlives it
        for part in (*self._parts, items):
            self._file.write(part.data)
        self._parts.clear()

    def array(self) -> Array:
        """Return all items, flat, read-only if on disk; appending ends."""
        if self._file is None:
            if len(self._parts) == 1:
                return self._parts[0]
            return np.concatenate([np.empty(0, self._dtype), *self._parts])

        with self._file as file:
            file.flush()
            return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), self._dtype)


@dataclass(frozen=True, slots=True, eq=False)
class WordStream:
    """The words of rows, concatenated.

    Of the rows [the p53 gene] and [the gene], whose mention is "p53 gene":

        numbers    0  1  2 -1   0  2 -1       -1 ends a sentence, unless n-grams may cross rows
        mentions   0  1  2  0   0  0  0

    Attributes:
        words: The word types.
        numbers: int32 `[P]`: the word type at each place; -1 after each sentence, unless n-grams
            may cross rows.
        mentions: uint8 `[P]`: 1 at a mention's first word, 2 at its others, 0 elsewhere.
        in_mention: bool `[W]`: whether a word type is part of a mention somewhere.
        positions: At index n, for n from 1 to `LONGEST`: how many n-grams there are, repeated ones
            counted again.
    """

    words: WordTypes
    numbers: npt.NDArray[np.int32]
    mentions: npt.NDArray[np.uint8]
    in_mention: npt.NDArray[np.bool_]
    positions: tuple[int, ...]


def read_words(chunks: Iterable[Examples], *, across: bool = False) -> WordStream:
    """Read rows into a stream in one pass.

    Args:
        chunks: Rows in order, such as those of `Split.chunks()`.
        across: Whether rows follow each other as if they were one sentence. Otherwise n-grams are
            within a sentence.
    """
    types = WordNumbers()
    numbers = Scratch(np.int32, in_memory=IN_MEMORY)
    mentions = Scratch(np.uint8, in_memory=IN_MEMORY)
    in_mention = np.zeros(0, np.bool_)
    positions = np.zeros(LONGEST + 1, np.int64)

    for examples in chunks:
        rows = types.number(examples)
        marks = _marks(examples, rows.offsets)

        new_types = int(rows.values.max(initial=-1)) + 1 - len(in_mention)
        in_mention = np.pad(in_mention, (0, max(new_types, 0)))
        in_mention[rows.values[marks > 0]] = True

        if across:
            numbers.append(rows.values)
            mentions.append(marks)
        else:
            rows = Ragged(rows.values, _sentence_word_offsets(examples, rows.offsets))
            numbers.append(_set_apart(rows, -1))
            mentions.append(_set_apart(Ragged(marks, rows.offsets), 0))

        for n in range(1, LONGEST + 1):
            positions[n] += np.maximum(rows.lengths - n + 1, 0).sum()

    # One sentence of N words has N - n + 1 n-grams.
    if across:
        positions = np.maximum(positions[1] + 1 - np.arange(LONGEST + 1), 0)

    words = types.words()
    return WordStream(
        words=words,
        numbers=numbers.array(),
        mentions=mentions.array(),
        in_mention=np.pad(in_mention, (0, len(words) - len(in_mention))),
        positions=(0, *positions[1:].tolist()),
    )


def _marks(examples: Examples, word_offsets: Array) -> npt.NDArray[np.uint8]:
    """Return the `mentions` of the words of these rows; `of_words` are the words' offsets."""
    marks = np.zeros(word_offsets[-1], np.uint8)
    kernels.mark_mentions(
        examples.input_ids.offsets,
        examples.word_ids.values,
        word_offsets,
        examples.span_starts.offsets,
        examples.span_starts.values,
        examples.span_ends.values,
        marks,
    )
    return marks


def _sentence_word_offsets(
    examples: Examples, row_offsets: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the word offsets of each sentence."""
    if examples.sentence_starts is None:
        return row_offsets

    offsets = examples.sentence_offsets
    unused = np.empty((row_offsets[-1] + 1, 2), np.int64)
    counts = np.empty(len(offsets) - 1, np.int64)
    find_words(offsets, examples.word_ids.values, unused, counts)
    return make_offsets(counts)


def _set_apart(rows: Ragged, mark: int) -> Array:
    """Concatenate rows, each followed by a separator."""
    out = np.full(len(rows.values) + len(rows), mark, rows.values.dtype)
    numbers = np.arange(len(rows))
    gather(numbers, rows.offsets, rows.values, rows.offsets[:-1] + numbers, out)
    return out
