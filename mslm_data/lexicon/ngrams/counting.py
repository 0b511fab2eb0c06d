"""Count the n-grams of a stream of words, exactly and in bounded memory.

An n-gram can only be frequent if the two (n - 1)-grams in it are. Each length therefore counts
pairs of neighbours in the stream of the length before, from which infrequent ones are left out.
This holds across the ends of sentences too, as an occurrence of an n-gram always holds one of each
part.

    words             the  p53  gene  and  the  p53  gene
    stream of n = 1     0    1     2   -1    0    1     2     `and` occurs once, and 2 are wanted
    stream of n = 2     0    1    -1   -1    0    1    -1     0 is "the p53", 1 is "p53 gene"
    stream of n = 3     0   -1    -1   -1    0   -1    -1     0 is the pair (0, 1) of n = 2

A first pass sieves most infrequent pairs out. The others are counted in a hash table. A full table
is sorted and put on disk, and in the end all of these runs are merged by ranges of keys.

Memory holds the sieve and the table, about 100 bytes for each frequent n-gram, and as many pages of
the streams on disk as the system can spare. Streams take 4 bytes for each word of the corpus and
each length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mslm_data.data.ragged import Array
from mslm_data.kernels import ngrams as kernels
from mslm_data.kernels.hashing import EMPTY
from mslm_data.lexicon.ngrams.stream import IN_MEMORY, Scratch, WordStream

MEMORY = 1 << 30
"""Bytes that counting may use."""
_PLACES_AT_ONCE = IN_MEMORY // 4
"""Words of a block: a stream that is small enough to stay in memory is one block."""


@dataclass(frozen=True, slots=True, eq=False)
class Grams:
    """The frequent n-grams of one length, numbered by their words' numbers.

    Attributes:
        stream: int32 `[P]`: the n-gram that begins at each place, -1 where no frequent one does.
        counts: int64 `[G]`; for n = 1 of all words, frequent or not.
        left: int32 `[G]`: the (n - 1)-gram of its first words; empty for n = 1.
        right: int32 `[G]`: the (n - 1)-gram of its last words; empty for n = 1.
    """

    stream: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int64]
    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Frequent pairs of neighbours in a stream.

    Attributes:
        keys: uint64 `[G]`, sorted: `left << 32 | right`.
        counts: int64 `[G]`.
        stream: int32 `[P]`: the pair that begins at each place, -1 where no frequent one does.
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
        least: For n = 2, 3 and so on the minimum number of occurrences of a frequent n-gram.
        kept: bool `[W]`: word types that n-grams may have; others count as words but are in no
            n-gram. None keeps all.
        memory: Bytes for sieve and table; at least some thousand are used.

    Returns:
        For n at index n - 1: words first, then bigrams and so on. A length has all n-grams that are
        as frequent as `least` says of it or of a longer one, so all parts of a frequent n-gram are
        there too.
    """
    words = stream.words

    # A part of an n-gram must be as frequent as the least frequent n-gram that it may be part of.
    floors = [min(least[n:]) for n in range(len(least))]
    usable = words.counts >= floors[0]
    if kept is not None:
        usable &= kept

    names = np.where(usable, np.arange(len(words)), -1).astype(np.int32)
    no_parts = np.empty(0, np.int32)
    grams = [Grams(_renamed(stream.numbers, names), words.counts, no_parts, no_parts)]

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
    these = grams[n - 1]
    return np.concatenate([shorter[these.left], shorter[these.right, -1:]], axis=1)


def count_pairs(stream: Array, least: int, memory: int = MEMORY) -> Pairs:
    """Count the pairs of neighbours in a stream.

    Args:
        stream: int32 `[P]`; -1 is a gap, and no pair has it.
        least: Minimum number of occurrences of a pair.
        memory: Bytes for the sieve, the table, and sorting the table.
    """
    room = _room(stream)
    only_block = [*_live(stream, room)] if len(stream) <= _PLACES_AT_ONCE else None

    # Pairs share the sieve's bytes by their hash, so a byte that stays low rules all of its pairs
    # out.
    enough = min(least, 255)  # the most that a byte can count
    sieve = np.zeros(_power(min(len(stream), memory // 8)), np.uint8)
    for block, places, _ in only_block or _live(stream, room):
        kernels.fill_sieve(block, places, enough, sieve)

    table = PairTable(int(np.count_nonzero(sieve == enough)), most=_power(memory // 64))
    numbers = Scratch(np.int32, in_memory=IN_MEMORY)
    for block, places, size in only_block or _live(stream, room):
        kept = kernels.keep_frequent(block, enough, sieve, places)
        numbers.append(table.count(block, places[:kept], size))

    if not table.runs:
        return table.frequent(numbers.array(), least)

    # Numbers of a table that was drained mean nothing any more: pairs are looked up once more.
    keys, counts = merge_runs([*table.runs, table.drain()], least, table.most)
    return Pairs(keys, counts, _found(stream, keys))


class PairTable:
    """A hash table of pair counts that grows.

    A table that may not grow is put on disk as a sorted run.

    Attributes:
        most: Maximum number of the table's places, a power of 2; half of them are used.
        runs: uint64 `[K, 2]` each: sorted keys, and their counts.
    """

    def __init__(self, expected: int, *, most: int) -> None:
        """Make an empty table with room for about as many pairs as are expected."""
        self.most = most
        self.runs: list[Array] = []
        self._known = 0
        self._make(min(1 << max((3 * expected).bit_length(), 4), most))
        self._counts = np.zeros(len(self._table) // 2, np.int64)

    def count(self, block: Array, places: Array, size: int) -> npt.NDArray[np.int32]:
        """Count the pairs that begin at some of the first `size` places of a block.

        Returns:
            int32 `[size]`: the pair at each place, -1 for none, in numbers that only `frequent`
            understands.
        """
        out = np.full(size, -1, np.int32)
        state = np.array([0, self._known])  # places that are done, and pairs that are known

        while True:
            kernels.count_pairs(block, places, self._table, self._numbers, self._counts, state, out)
            self._known = int(state[1])
            if state[0] == len(places):
                return out

            # The kernel stops at state[0] where the table is full, and goes on from there.
            if len(self._table) < self.most:
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

        self._known = 0
        self._table[:] = EMPTY
        self._numbers[:] = -1
        self._counts[:] = 0
        return pairs

    def frequent(self, stream: Array, least: int) -> Pairs:
        """Return the pairs with enough occurrences. There must be no runs.

        Args:
            stream: int32 `[P]`, what `count` returned for all blocks. It is overwritten if it is in
                memory.
            least: Minimum number of occurrences.
        """
        keys = self._keys()
        kept = np.flatnonzero(self._counts[: len(keys)] >= least)
        kept = kept[np.argsort(keys[kept])]

        names = np.full(len(keys), -1, np.int32)
        names[kept] = np.arange(len(kept))
        return Pairs(keys[kept], self._counts[kept], _renamed(stream, names, into=stream))

    def _keys(self) -> npt.NDArray[np.uint64]:
        """Return the keys in the order of their numbers."""
        keys = np.empty(self._known, np.uint64)
        kernels.list_keys(self._table, self._numbers, keys)
        return keys

    def _make(self, places: int) -> None:
        self._table = np.full(places, EMPTY, np.uint64)
        self._numbers = np.full(places, -1, np.int32)

    def _grow(self) -> None:
        keys = self._keys()

        self._make(min(4 * len(self._table), self.most))
        self._counts = np.pad(self._counts, (0, len(self._table) // 2 - len(self._counts)))
        kernels.place_pairs(keys, self._table, self._numbers)


def merge_runs(
    runs: Sequence[Array], least: int, most: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Merge sorted runs of pairs, a range of keys at a time.

    Args:
        runs: uint64 `[K, 2]` each: sorted keys, and their counts.
        least: Minimum count of a pair, over all runs.
        most: About how many pairs may be in memory; one of each run is in any case.

    Returns:
        The keys, sorted, and their counts.
    """
    step = max(most // (2 * len(runs)), 1)
    starts = [0] * len(runs)
    kept = [np.empty((0, 2), np.uint64)]

    while going := [
        (run, start) for run, start in zip(runs, starts, strict=True) if start < len(run)
    ]:
        # Every run has `step` items at hand. Keys up to the lowest of their ends are complete.
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
    """Return the stream of pairs as indices into the given keys."""
    table_size = 1 << (2 * len(pairs)).bit_length()
    keys = np.full(table_size, EMPTY, np.uint64)
    numbers = np.full(table_size, -1, np.int32)
    kernels.place_pairs(pairs, keys, numbers)

    out = Scratch(np.int32, in_memory=IN_MEMORY)
    for block, places, size in _live(stream, _room(stream)):
        found = np.full(size, -1, np.int32)
        kernels.find_pairs(block, places, keys, numbers, found)
        out.append(found)

    return out.array()


def _renamed(
    stream: Array, names: npt.NDArray[np.int32], *, into: Array | None = None
) -> npt.NDArray[np.int32]:
    """Renumber a stream, -1 for none; in `into` if it is writable."""
    names = np.append(names, np.int32(-1))  # so that index -1 finds -1

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
    """Allocate the places of a block."""
    return np.empty(min(len(stream), _PLACES_AT_ONCE), np.int32)


def _live(stream: Array, places: Array) -> Iterator[tuple[Array, Array, int]]:
    """Yield blocks of a stream with the item after each.

    With each block come the places where pairs begin and the number of all its places.
    """
    for start in range(0, len(stream), _PLACES_AT_ONCE):
        # The last block has no item after it, and no pair begins at its end.
        block = stream[start : start + _PLACES_AT_ONCE + 1]
        live = places[: kernels.find_live(block, places)]
        yield block, live, min(len(block), _PLACES_AT_ONCE)


def _power(number: int) -> int:
    """Return the largest power of 2 up to `number`, at least 16."""
    return 1 << max(number.bit_length() - 1, 4)
