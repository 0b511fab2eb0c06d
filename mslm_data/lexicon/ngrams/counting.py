"""Count the n-grams of a stream of words, exactly and in bounded memory.

An n-gram can only be frequent if both of its (n - 1)-grams are. Each length is therefore counted as
pairs of adjacent items in the stream of frequent (n - 1)-grams. This also holds across sentence
ends, since each occurrence of an n-gram contains an occurrence of both parts.

    words             the  p53  gene  and  the  p53  gene
    stream of n = 1     0    1     2   -1    0    1     2     `and` occurs once; the minimum is 2
    stream of n = 2     0    1    -1   -1    0    1    -1     0 is "the p53", 1 is "p53 gene"
    stream of n = 3     0   -1    -1   -1    0   -1    -1     0 is the pair (0, 1) of n = 2

A first pass with a sieve eliminates most infrequent pairs. The remaining pairs are counted in a
hash table. When the table is full, it is sorted and written to disk as a run; at the end, runs are
merged by ranges of keys.

Memory is needed for the sieve, the table and about 100 bytes per frequent n-gram. Streams on disk
have 4 bytes per word of the corpus and length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mslm_data.data.ragged import Array
from mslm_data.kernels import ngrams as kernels
from mslm_data.kernels.gather import renumber
from mslm_data.kernels.hashing import EMPTY
from mslm_data.lexicon.ngrams.stream import IN_MEMORY, Scratch, WordStream

MEMORY = 1 << 30
"""Default memory limit in bytes."""
_PLACES_AT_ONCE = IN_MEMORY // 4
"""Number of items in a block."""


@dataclass(frozen=True, slots=True, eq=False)
class Grams:
    """The frequent n-grams of one length, numbered in the order of their words' numbers.

    Attributes:
        stream: int32 `[P]`, n-gram that begins at each position, -1 if it is not frequent.
        counts: int64 `[G]`; for n = 1 of all words.
        left: int32 `[G]`, (n - 1)-gram of the first words; empty for n = 1.
        right: int32 `[G]`, (n - 1)-gram of the last words; empty for n = 1.
    """

    stream: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int64]
    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Frequent pairs of adjacent items in a stream.

    Attributes:
        keys: uint64 `[G]`, `left << 32 | right`, sorted.
        counts: int64 `[G]`.
        stream: int32 `[P]`, pair that begins at each position, -1 if it is not frequent.
    """

    keys: npt.NDArray[np.uint64]
    counts: npt.NDArray[np.int64]
    stream: npt.NDArray[np.int32]


def count_ngrams(
    stream: WordStream,
    min_counts: Sequence[int],
    *,
    kept: npt.NDArray[np.bool_] | None = None,
    memory: int = MEMORY,
) -> list[Grams]:
    """Count n-grams.

    Args:
        stream: The words.
        min_counts: Minimum number of occurrences for n = 2, 3, ….
        kept: bool `[W]`, word types allowed in n-grams. Default: all.
        memory: Memory limit for sieve and table, in bytes. At least a few thousand are used.

    Returns:
        Words, bigrams, and so on; n-grams are at index n - 1. Shorter n-grams are also included if
        they are frequent enough for a longer length, so all parts of a frequent n-gram are
        included.
    """
    words = stream.words

    # Parts of an n-gram are at least as frequent as it is, so use the lowest minimum of all lengths
    # that an n-gram may be part of.
    floors = [min(min_counts[n:]) for n in range(len(min_counts))]
    usable = words.counts >= floors[0]
    if kept is not None:
        usable &= kept

    new_numbers = np.where(usable, np.arange(len(words)), -1).astype(np.int32)
    empty = np.empty(0, np.int32)
    grams = [Grams(_renumber(stream.numbers, new_numbers), words.counts, empty, empty)]

    for floor in floors:
        pairs = count_pairs(grams[-1].stream, floor, memory)
        left = (pairs.keys >> np.uint64(32)).astype(np.int32)
        right = (pairs.keys & np.uint64(0xFFFFFFFF)).astype(np.int32)
        grams.append(Grams(pairs.stream, pairs.counts, left, right))

    return grams


def spell(grams: Sequence[Grams], n: int) -> npt.NDArray[np.int32]:
    """Return the words of all n-grams of one length, int32 `[G, n]`."""
    if n == 1:
        return np.arange(len(grams[0].counts), dtype=np.int32)[:, None]

    shorter = spell(grams, n - 1)
    longest = grams[n - 1]
    return np.concatenate([shorter[longest.left], shorter[longest.right, -1:]], axis=1)


def count_pairs(stream: Array, min_count: int, memory: int = MEMORY) -> Pairs:
    """Count the pairs of adjacent items in a stream.

    Args:
        stream: int32 `[P]`; -1 is a gap, which is in no pair.
        min_count: Minimum number of occurrences.
        memory: Memory limit in bytes, for the sieve, the table, and sorting the table.
    """
    # Pairs share bytes of the sieve by hash. A byte that stays low rules out all of its pairs.
    saturation = min(min_count, 255)  # maximum of a byte
    sieve = np.zeros(_floor_power(min(len(stream), memory // 8)), np.uint8)
    for block, starts, _ in _iter_blocks(stream):
        kernels.fill_sieve(block, starts, saturation, sieve)

    # Count the remaining pairs exactly.
    table = PairTable(
        int(np.count_nonzero(sieve == saturation)), max_places=_floor_power(memory // 64)
    )
    numbers = Scratch(np.int32, in_memory=IN_MEMORY)
    for block, starts, size in _iter_blocks(stream):
        kept = kernels.keep_frequent(block, saturation, sieve, starts)
        numbers.append(table.count(block, starts[:kept], size))

    if not table.runs:
        return table.frequent(numbers.array(), min_count)

    # Pair numbers change when the table is written to disk, so look the pairs up again.
    keys, counts = merge_runs([*table.runs, table.drain()], min_count, table.max_places)
    return Pairs(keys, counts, _find_pairs(stream, keys))


class PairTable:
    """A growing hash table of pair counts.

    At its maximum size, it is written to disk as a sorted run, and cleared.

    Attributes:
        max_places: Maximum size of the table, a power of 2. The load factor is at most 1/2.
        runs: uint64 `[K, 2]` each, sorted keys and their counts.
    """

    def __init__(self, expected: int, *, max_places: int) -> None:
        """Create an empty table for about `expected` pairs."""
        self.max_places = max_places
        self.runs: list[Array] = []
        self._num_pairs = 0
        self._allocate(min(1 << max((3 * expected).bit_length(), 4), max_places))
        self._counts = np.zeros(len(self._table) // 2, np.int64)

    def count(self, block: Array, places: Array, size: int) -> npt.NDArray[np.int32]:
        """Count pairs of a block.

        Args:
            block: int32, items of the stream, with the first item of the next block.
            places: int32, positions at which pairs begin.
            size: Number of positions in the block.

        Returns:
            int32 `[size]`, temporary number of the pair at each position, -1 for none; see
            `frequent`.
        """
        out = np.full(size, -1, np.int32)
        state = np.array([0, self._num_pairs])  # positions done, pairs in the table

        while True:
            kernels.count_pairs(block, places, self._table, self._numbers, self._counts, state, out)
            self._num_pairs = int(state[1])
            if state[0] == len(places):
                return out

            # The table is full: make room, and continue at position state[0].
            if len(self._table) < self.max_places:
                self._grow()
            else:
                run = Scratch(np.uint64)
                run.append(self.drain())
                self.runs.append(run.array().reshape(-1, 2))
                state[1] = 0

    def drain(self) -> npt.NDArray[np.uint64]:
        """Return sorted keys and their counts, `[K, 2]`, and clear the table."""
        keys = self._keys()
        order = np.argsort(keys)
        pairs = np.stack([keys[order], self._counts[order].astype(np.uint64)], axis=1)

        self._num_pairs = 0
        self._table[:] = EMPTY
        self._numbers[:] = -1
        self._counts[:] = 0
        return pairs

    def frequent(self, stream: Array, min_count: int) -> Pairs:
        """Return the frequent pairs. Only without runs.

        Args:
            stream: int32 `[P]`, concatenated results of `count`.
            min_count: Minimum number of occurrences.
        """
        keys = self._keys()
        kept = np.flatnonzero(self._counts[: len(keys)] >= min_count)
        kept = kept[np.argsort(keys[kept])]

        new_numbers = np.full(len(keys), -1, np.int32)
        new_numbers[kept] = np.arange(len(kept))
        return Pairs(keys[kept], self._counts[kept], _renumber(stream, new_numbers))

    def _keys(self) -> npt.NDArray[np.uint64]:
        """Return the keys in the order of their numbers."""
        keys = np.empty(self._num_pairs, np.uint64)
        kernels.list_keys(self._table, self._numbers, keys)
        return keys

    def _allocate(self, places: int) -> None:
        self._table = np.full(places, EMPTY, np.uint64)
        self._numbers = np.full(places, -1, np.int32)

    def _grow(self) -> None:
        keys = self._keys()

        self._allocate(min(4 * len(self._table), self.max_places))
        self._counts = np.pad(self._counts, (0, len(self._table) // 2 - len(self._counts)))
        kernels.place_pairs(keys, self._table, self._numbers)


def merge_runs(
    runs: Sequence[Array], min_count: int, max_pairs: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Merge sorted runs of pairs, one range of keys at a time.

    Args:
        runs: uint64 `[K, 2]` each, sorted keys and their counts.
        min_count: Minimum count of a pair over all runs.
        max_pairs: Approximate maximum number of pairs in memory; at least one per run.

    Returns:
        Sorted keys, and their counts.
    """
    step = max(max_pairs // (2 * len(runs)), 1)
    starts = [0] * len(runs)
    kept = [np.empty((0, 2), np.uint64)]

    while active := [
        (run, start) for run, start in zip(runs, starts, strict=True) if start < len(run)
    ]:
        # Take up to `step` items of each run. Only keys up to the smallest of their last keys are
        # complete.
        last = min(run[min(start + step, len(run)) - 1, 0] for run, start in active)
        stops = [
            start + int(np.searchsorted(run[start : start + step, 0], last, side="right"))
            for run, start in zip(runs, starts, strict=True)
        ]
        pairs = np.concatenate(
            [run[start:stop] for run, start, stop in zip(runs, starts, stops, strict=True)]
        )

        # Sum the counts of equal keys.
        pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
        firsts = np.flatnonzero(np.append(True, pairs[1:, 0] != pairs[:-1, 0]))
        counts = np.add.reduceat(pairs[:, 1], firsts)
        kept.append(np.stack([pairs[firsts, 0], counts], axis=1)[counts >= np.uint64(min_count)])
        starts = stops

    merged = np.concatenate(kept)
    return merged[:, 0].copy(), merged[:, 1].astype(np.int64)


def _find_pairs(stream: Array, sorted_keys: Array) -> npt.NDArray[np.int32]:
    """Return the stream of pairs, as indices into the sorted keys."""
    table_size = 1 << (2 * len(sorted_keys)).bit_length()
    table = np.full(table_size, EMPTY, np.uint64)
    numbers = np.full(table_size, -1, np.int32)
    kernels.place_pairs(sorted_keys, table, numbers)

    out = Scratch(np.int32, in_memory=IN_MEMORY)
    for block, starts, size in _iter_blocks(stream):
        pair_numbers = np.full(size, -1, np.int32)
        kernels.find_pairs(block, starts, table, numbers, pair_numbers)
        out.append(pair_numbers)

    return out.array()


def _renumber(stream: Array, new_numbers: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Renumber a stream; -1 stays -1."""
    new_numbers = np.append(new_numbers, np.int32(-1))  # index -1 gives -1

    out = Scratch(np.int32, in_memory=IN_MEMORY)
    for start in range(0, len(stream), _PLACES_AT_ONCE):
        block = stream[start : start + _PLACES_AT_ONCE]
        renamed = np.empty_like(block)
        renumber(block, new_numbers, renamed)
        out.append(renamed)

    return out.array()


def _iter_blocks(stream: Array) -> Iterator[tuple[Array, Array, int]]:
    """Yield blocks of a stream, each with the first item of the next.

    Also yields the positions at which pairs begin, overwritten by those of the next block, and the
    number of positions in the block.
    """
    positions = np.empty(min(len(stream), _PLACES_AT_ONCE), np.int32)
    for start in range(0, len(stream), _PLACES_AT_ONCE):
        # The last block has no next item, so no pair begins at its end.
        block = stream[start : start + _PLACES_AT_ONCE + 1]
        starts = positions[: kernels.find_live(block, positions)]
        yield block, starts, min(len(block), _PLACES_AT_ONCE)


def _floor_power(number: int) -> int:
    """Return the largest power of 2 up to `number`, at least 16."""
    return 1 << max(number.bit_length() - 1, 4)
