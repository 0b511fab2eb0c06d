"""Read the words of rows into one long stream of numbers for counting.

Large streams are stored in unnamed temporary files in `$TMPDIR`, which disappear even if the
process is killed.
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
from mslm_data.kernels.tokens import count_words
from mslm_data.lexicon.ngrams.choice import LONGEST
from mslm_data.lexicon.word_types import WordNumbers, WordTypes

IN_MEMORY = 1 << 24
"""Maximum size of a stream in memory, in bytes.

On disk, writes and page faults take a third of the time.
"""


class Scratch:
    """A growing array, in a temporary file once it is large, memory-mapped when complete."""

    def __init__(self, dtype: npt.DTypeLike, *, in_memory: int = 0) -> None:
        """Create an empty array.

        Args:
            dtype: The dtype.
            in_memory: Maximum size in memory, in bytes. Default: always on disk.
        """
        self._dtype = np.dtype(dtype)
        self._in_memory = in_memory
        self._parts: list[Array] = []
        self._file: IO[bytes] | None = None
        self._bytes = 0

    def append(self, items: Array) -> None:
        """Append items, which must not be modified afterwards."""
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
        """Return all items, flat, read-only if on disk. Nothing can be appended afterwards."""
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

    For the rows [the p53 gene] and [the gene]:

        numbers    0  1  2 -1   0  2 -1       -1 ends a sentence, unless n-grams may cross rows

    Attributes:
        words: The word types.
        numbers: int32 `[P]`, word type at each position; -1 after each sentence, unless n-grams may
            cross rows.
        positions: Number of n-grams at index n, from 1 to `LONGEST`, counting repetitions.
    """

    words: WordTypes
    numbers: npt.NDArray[np.int32]
    positions: tuple[int, ...]


def read_words(chunks: Iterable[Examples], *, across: bool = False) -> WordStream:
    """Read rows into a stream, in one pass.

    Args:
        chunks: Rows in order, such as `Split.chunks()`.
        across: Whether n-grams may cross rows, as if all rows were one sentence. Default: n-grams
            are within a sentence.
    """
    types = WordNumbers()
    numbers = Scratch(np.int32, in_memory=IN_MEMORY)
    positions = np.zeros(LONGEST + 1, np.int64)

    for examples in chunks:
        rows = types.number(examples)
        if across:
            numbers.append(rows.values)
        else:
            rows = Ragged(rows.values, _sentence_word_offsets(examples, rows.offsets))
            numbers.append(np.insert(rows.values, rows.offsets[1:], -1))

        for n in range(1, LONGEST + 1):
            positions[n] += np.maximum(rows.lengths - n + 1, 0).sum()

    # All rows are one sentence, and N words have N - n + 1 n-grams.
    if across:
        positions = np.maximum(positions[1] + 1 - np.arange(LONGEST + 1), 0)

    return WordStream(
        words=types.words(), numbers=numbers.array(), positions=(0, *positions[1:].tolist())
    )


def _sentence_word_offsets(
    examples: Examples, row_offsets: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the word offsets of each sentence."""
    if examples.sentence_starts is None:
        return row_offsets

    offsets = examples.sentence_offsets
    counts = np.empty(len(offsets) - 1, np.int64)
    count_words(offsets, examples.word_ids.values, counts)
    return make_offsets(counts)
