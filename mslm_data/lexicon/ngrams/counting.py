"""Counts the n-grams of a stream of words, exactly and in bounded memory, one length after the other.

An n-gram can only be frequent if the two (n - 1)-grams in it are, so each length counts pairs of neighbours in the
stream of the one before, infrequent ones left out. This holds across the ends of sentences too, as an occurrence of an
n-gram always holds one of each part. A first pass sieves most infrequent pairs out. The others are counted in a hash
table; a full one is sorted and put on disk, and in the end all of them are merged by ranges of keys.

The memory: that of sieve and table, about 100 bytes for each n-gram that is frequent, and as many pages of the streams
on disk as the system can spare; these are 4 bytes for each word of the corpus and length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mslm_data.data.ragged import Array
from mslm_data.kernels import ngrams as kernels
from mslm_data.lexicon.ngrams.stream import IN_MEMORY, Scratch, WordStream

MEMORY = 1 << 30
"""Bytes that counting may use."""
_PLACES_AT_ONCE = IN_MEMORY // 4
"""So that a stream that stays in memory is one block."""


@dataclass(frozen=True, slots=True, eq=False)
class Grams:
    """The frequent n-grams of one length, numbered by their words' numbers.

    Attributes:
        stream: int32 `[P]`: the n-gram that begins at each place, -1 where none or none that is frequent does.
        counts: int64 `[G]`; for n = 1 of all words, frequent or not.
        left: int32 `[G]`, the (n - 1)-gram of its first words; empty for n = 1.
        right: int32 `[G]`, the (n - 1)-gram of its last words; empty for n = 1.
    """

    stream: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int64]
    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Neighbours in a stream that are frequent.

    Attributes:
        keys: uint64 `[G]`, rising: `left << 32 | right`.
        counts: int64 `[G]`.
        stream: int32 `[P]`: the pair that begins at each place, -1 where none or none that is frequent does.
    """

    keys: npt.NDArray[np.uint64]
    counts: npt.NDArray[np.int64]
    stream: npt.NDArray[np.int32]


def count_ngrams(
    stream: WordStream,
    least: Sequence[int],
    *,
    kept: npt.NDArray[np.bool_] | None = None,
    memory: int = MEMORY,
) -> list[Grams]:
    """Count n-grams.

    Args:
        stream: The words.
        least: For n = 2, 3 and so on the occurrences that a frequent n-gram has at least.
        kept: bool `[W]`: word types that n-grams may have; others count as words but are in no n-gram. None: all.
        memory: Bytes that counting may use, see above; less than a few thousand is taken as that.

    Returns:
        For n at index n - 1: words first, then bigrams and so on. A length has all n-grams that are as frequent as
        `least` says of it or of a longer one, so all parts of a frequent n-gram are there too.
    """
    words, none = stream.words, np.empty(0, np.int32)
    floors = [min(least[n:]) for n in range(len(least))]
    frequent = words.counts >= floors[0]
    names = np.where(
        frequent if kept is None else frequent & kept, np.arange(len(words)), -1
    ).astype(np.int32)
    grams = [Grams(_renamed(stream.numbers, names), words.counts, none, none)]
    for floor in floors:
        pairs = count_pairs(grams[-1].stream, floor, memory)
        left, right = pairs.keys >> np.uint64(32), pairs.keys & np.uint64(0xFFFFFFFF)
        grams.append(
            Grams(pairs.stream, pairs.counts, left.astype(np.int32), right.astype(np.int32))
        )
    return grams


def spell(grams: Sequence[Grams], n: int) -> npt.NDArray[np.int32]:
    """Return the words of all n-grams of one length, int32 `[G, n]`."""
    if n == 1:
        return np.arange(len(grams[0].counts), dtype=np.int32)[:, None]
    shorter, these = spell(grams, n - 1), grams[n - 1]
    return np.concatenate([shorter[these.left], shorter[these.right, -1:]], axis=1)


def count_pairs(stream: Array, least: int, memory: int = MEMORY) -> Pairs:
    """Count neighbours in a stream.

    Args:
        stream: int32 `[P]`, -1 for none.
        least: Occurrences that a pair has at least.
        memory: Bytes of the sieve, of the table and of what sorting it takes.
    """
    sieve = np.zeros(_power(min(len(stream), memory // 8)), np.uint8)
    enough, room = min(least, 255), _room(stream)  # what a byte of the sieve can count up to
    only = [*_live(stream, room)] if len(stream) <= _PLACES_AT_ONCE else None
    for block, places, _ in only or _live(stream, room):
        kernels.fill_sieve(block, places, enough, sieve)
    table = PairTable(int(np.count_nonzero(sieve == enough)), most=_power(memory // 64))
    numbers = Scratch(np.int32, in_memory=IN_MEMORY)
    for block, places, size in only or _live(stream, room):
        kept = kernels.keep_frequent(block, enough, sieve, places)
        numbers.append(table.count(block, places[:kept], size))
    if not table.runs:
        return table.frequent(numbers.array(), least)
    keys, counts = merge_runs([*table.runs, table.drain()], least, table.most)
    return Pairs(keys, counts, _found(stream, keys))


class PairTable:
    """Counts pairs in a hash table that grows, and is put on disk as a sorted run when it may not.

    Attributes:
        most: Places of the table at most, a power of 2; half of them are used.
        runs: uint64 `[K, 2]` each: keys, rising, and counts.
    """

    def __init__(self, expected: int, *, most: int) -> None:
        """Begin with no pair, and room for as many as are expected, about."""
        self.most = most
        self.runs: list[Array] = []
        self._known = 0
        self._make(min(1 << max((3 * expected).bit_length(), 4), most))
        self._counts = np.zeros(len(self._table) // 2, np.int64)

    def count(self, block: Array, places: Array, size: int) -> npt.NDArray[np.int32]:
        """Count the pairs that begin at some of the first `size` places of a block.

        Returns:
            int32 `[size]`: the pair at each place, -1 for none; of use for `frequent` alone.
        """
        out = np.full(size, -1, np.int32)
        state = np.array([0, self._known])
        while True:
            kernels.count_pairs(block, places, self._table, self._numbers, self._counts, state, out)
            self._known = int(state[1])
            if state[0] == len(places):
                return out
            if len(self._table) < self.most:
                self._grow()
            else:
                run = Scratch(np.uint64)
                run.append(self.drain())
                self.runs.append(run.array().reshape(-1, 2))
                state[1] = 0

    def drain(self) -> npt.NDArray[np.uint64]:
        """Return keys, rising, and counts, `[K, 2]`, and forget them."""
        keys = self._keys()
        order = np.argsort(keys)
        pairs = np.stack([keys[order], self._counts[order].astype(np.uint64)], axis=1)
        self._known = 0
        self._numbers[:] = -1
        self._counts[:] = 0
        return pairs

    def frequent(self, stream: Array, least: int) -> Pairs:
        """Return the pairs that occur often enough, if there are no runs.

        Args:
            stream: int32 `[P]`, what `count` returned of all blocks; changed and kept where it can be.
            least: Occurrences at least.
        """
        keys = self._keys()
        kept = np.flatnonzero(self._counts[: len(keys)] >= least)
        kept = kept[np.argsort(keys[kept])]
        names = np.full(len(keys), -1, np.int32)
        names[kept] = np.arange(len(kept))
        return Pairs(keys[kept], self._counts[kept], _renamed(stream, names, into=stream))

    def _keys(self) -> npt.NDArray[np.uint64]:
        """Return the keys in order of their numbers."""
        keys = np.empty(self._known, np.uint64)
        kernels.list_keys(self._table, self._numbers, keys)
        return keys

    def _make(self, places: int) -> None:
        self._table, self._numbers = np.empty(places, np.uint64), np.full(places, -1, np.int32)

    def _grow(self) -> None:
        keys = self._keys()
        self._make(min(4 * len(self._table), self.most))
        self._counts = np.pad(self._counts, (0, len(self._table) // 2 - len(self._counts)))
        kernels.place_pairs(keys, self._table, self._numbers)


def merge_runs(
    runs: Sequence[Array], least: int, most: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Merge runs of pairs, a range of keys at a time.

    Args:
        runs: uint64 `[K, 2]` each: keys, rising, and counts.
        least: The count that a pair has at least, over all runs.
        most: How many pairs may be in memory, about, but one of each run at least.

    Returns:
        Keys, rising, and their counts.
    """
    step = max(most // (2 * len(runs)), 1)
    starts = [0] * len(runs)
    kept = [np.empty((0, 2), np.uint64)]
    while going := [
        (run, start) for run, start in zip(runs, starts, strict=True) if start < len(run)
    ]:
        last = min(run[min(start + step, len(run)) - 1, 0] for run, start in going)
        stops = [
            start + int(np.searchsorted(run[start : start + step, 0], last, side="right"))
            for run, start in zip(runs, starts, strict=True)
        ]
        pairs = np.concatenate(
            [run[start:stop] for run, start, stop in zip(runs, starts, stops, strict=True)]
        )
        pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
        firsts = np.flatnonzero(np.append(True, pairs[1:, 0] != pairs[:-1, 0]))
        counts = np.add.reduceat(pairs[:, 1], firsts)
        kept.append(np.stack([pairs[firsts, 0], counts], axis=1)[counts >= np.uint64(least)])
        starts = stops
    whole = np.concatenate(kept)
    return whole[:, 0].copy(), whole[:, 1].astype(np.int64)


def _found(stream: Array, pairs: Array) -> npt.NDArray[np.int32]:
    """Return the stream of pairs, each named by its place among these keys."""
    size = 1 << (2 * len(pairs)).bit_length()
    keys, numbers = np.empty(size, np.uint64), np.full(size, -1, np.int32)
    kernels.place_pairs(pairs, keys, numbers)
    out, room = Scratch(np.int32, in_memory=IN_MEMORY), _room(stream)
    for block, places, size in _live(stream, room):
        found = np.full(size, -1, np.int32)
        kernels.find_pairs(block, places, keys, numbers, found)
        out.append(found)
    return out.array()


def _renamed(
    stream: Array, names: npt.NDArray[np.int32], *, into: Array | None = None
) -> npt.NDArray[np.int32]:
    """Return a stream with other numbers, -1 for none; in memory of its own, or else `into` if that can be written."""
    names = np.append(names, np.int32(-1))
    if into is not None and into.flags.writeable:
        kernels.rename(names, stream, into)
        return into
    out = Scratch(np.int32, in_memory=IN_MEMORY)
    for start in range(0, len(stream), _PLACES_AT_ONCE):
        block = stream[start : start + _PLACES_AT_ONCE]
        renamed = np.empty_like(block)
        kernels.rename(names, block, renamed)
        out.append(renamed)
    return out.array()


def _room(stream: Array) -> npt.NDArray[np.int32]:
    """Return room for the places of a block."""
    return np.empty(min(len(stream), _PLACES_AT_ONCE), np.int32)


def _live(stream: Array, places: Array) -> Iterator[tuple[Array, Array, int]]:
    """Give blocks of a stream with the item after each, the places where pairs begin, and the number of all places."""
    for start in range(0, len(stream), _PLACES_AT_ONCE):
        block = stream[
            start : start + _PLACES_AT_ONCE + 1
        ]  # the last has no item after it: no pair begins at its end
        yield block, places[: kernels.find_live(block, places)], min(len(block), _PLACES_AT_ONCE)


def _power(number: int) -> int:
    """Return the greatest power of 2 that is not greater, 16 at least."""
    return 1 << max(number.bit_length() - 1, 4)
