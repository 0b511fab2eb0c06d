"""The words of rows as one long stream of numbers, which is what n-grams are counted in.

A large one is on disk, in files without a name below `$TMPDIR`: nothing of it is left behind, even by a process that is
killed.
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
from mslm_data.data.ragged import Array, Ragged
from mslm_data.kernels import ngrams as kernels
from mslm_data.kernels.gather import gather
from mslm_data.lexicon.word_types import WordNumbers, WordTypes

LONGEST = 5
"""Words of the longest n-gram that is counted."""
IN_MEMORY = 1 << 24
"""Bytes of a stream that is not put on disk: one write and one page fault for each page are a third of the time."""


class Scratch:
    """An array that grows on disk and is then mapped into memory; a small one can stay in memory."""

    def __init__(self, dtype: npt.DTypeLike, *, in_memory: int = 0) -> None:
        """Begin with no item, and stay in memory up to so many bytes."""
        self._dtype, self._in_memory = np.dtype(dtype), in_memory
        self._parts: list[Array] = []
        self._file: IO[bytes] | None = None
        self._bytes = 0

    def append(self, items: Array) -> None:
        """Add items, which are not to be changed any more."""
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
        """Return all items, flat, read-only if on disk; none can be added any more."""
        if self._file is None:
            return (
                self._parts[0]
                if len(self._parts) == 1
                else np.concatenate([np.empty(0, self._dtype), *self._parts])
            )
        with self._file as file:
            file.flush()
            return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), self._dtype)


@dataclass(frozen=True, slots=True, eq=False)
class WordStream:
    """The words of rows, one after the other.

    Attributes:
        words: The word types.
        numbers: int32 `[P]`: the word type at each place, -1 after each row unless n-grams may cross rows.
        mentions: uint8 `[P]`: 1 at a mention's first word, 2 at its others, 0 elsewhere.
        in_mention: bool `[W]`: word types that are part of a mention somewhere.
        positions: For n from 1 to `LONGEST` at index n, how many n-grams there are, repeated ones counted again.
    """

    words: WordTypes
    numbers: npt.NDArray[np.int32]
    mentions: npt.NDArray[np.uint8]
    in_mention: npt.NDArray[np.bool_]
    positions: tuple[int, ...]


def read_words(chunks: Iterable[Examples], *, across: bool = False) -> WordStream:
    """Read rows into a stream, in one pass.

    Args:
        chunks: Rows in order, such as those of `Split.chunks()`.
        across: Whether rows follow each other as if they were one sentence.
    """
    types = WordNumbers()
    numbers, mentions = (
        Scratch(np.int32, in_memory=IN_MEMORY),
        Scratch(np.uint8, in_memory=IN_MEMORY),
    )
    in_mention = np.zeros(0, np.bool_)
    positions = np.zeros(LONGEST + 1, np.int64)
    for examples in chunks:
        rows = types.number(examples)
        marks = _marks(examples, rows.offsets)
        in_mention = np.pad(
            in_mention, (0, max(int(rows.values.max(initial=-1)) + 1 - len(in_mention), 0))
        )
        in_mention[rows.values[marks > 0]] = True
        numbers.append(rows.values if across else _set_apart(rows, -1))
        mentions.append(marks if across else _set_apart(Ragged(marks, rows.offsets), 0))
        for n in range(1, LONGEST + 1):
            positions[n] += np.maximum(rows.lengths - n + 1, 0).sum()
    words = types.words()
    if across:
        positions = np.maximum(positions[1] + 1 - np.arange(LONGEST + 1), 0)
    in_mention = np.pad(in_mention, (0, len(words) - len(in_mention)))
    return WordStream(
        words, numbers.array(), mentions.array(), in_mention, (0, *positions[1:].tolist())
    )


def _marks(examples: Examples, of_words: Array) -> npt.NDArray[np.uint8]:
    marks = np.zeros(of_words[-1], np.uint8)
    ids, words, starts, ends = (
        examples.input_ids,
        examples.word_ids,
        examples.span_starts,
        examples.span_ends,
    )
    kernels.mark_mentions(
        ids.offsets, words.values, of_words, starts.offsets, starts.values, ends.values, marks
    )
    return marks


def _set_apart(rows: Ragged, mark: int) -> Array:
    """Return all rows, flat, each with a mark after it."""
    out = np.full(len(rows.values) + len(rows), mark, rows.values.dtype)
    numbers = np.arange(len(rows))
    gather(numbers, rows.offsets, rows.values, rows.offsets[:-1] + numbers, out)
    return out
