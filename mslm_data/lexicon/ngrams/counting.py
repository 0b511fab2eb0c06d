"""Count the n-grams of a stream of words, exactly and in bounded memory.

An n-gram can only be frequent if both of its (n - 1)-grams are. Each length is therefore counted as
pairs of adjacent items in the stream of frequent (n - 1)-grams. This also holds across sentence
ends, since each occurrence of an n-gram contains an occurrence of both parts.

    words             the  p53  gene  and  the  p53  gene
    stream of n = 1     0    1     2   -1    0    1     2     `and` occurs once; the minimum is 2
    stream of n = 2     0    1    -1   -1    0    1    -1     0 is "the p53", 1 is "p53 gene"
    stream of n = 3     0   -1    -1   -1    0   -1    -1     0 is the pair (0, 1) of n = 2

Pairs are sorted and counted a block at a time. The counts of a block are a run on disk, and runs
are merged by ranges of keys.

Memory is needed for a block, about 200 MB, and about 100 bytes per frequent n-gram. Streams on disk
have 4 bytes per word of the corpus and length, runs 16 bytes per distinct pair of each block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mslm_data.data.ragged import Array
from mslm_data.lexicon.ngrams.stream import IN_MEMORY, Scratch, WordStream

_POSITIONS_AT_ONCE = 1 << 21
"""Number of positions in a block."""


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


def count_ngrams(
    stream: WordStream,
    min_counts: Sequence[int],
    *,
    kept: npt.NDArray[np.bool_] | None = None,
) -> list[Grams]:
    """Count n-grams.

    Args:
        stream: The words.
        min_counts: Minimum number of occurrences for n = 2, 3, ….
        kept: bool `[W]`, word types allowed in n-grams. Default: all.

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
        grams.append(count_pairs(grams[-1].stream, floor))

    return grams


def spell(grams: Sequence[Grams], n: int) -> npt.NDArray[np.int32]:
    """Return the words of all n-grams of one length, int32 `[G, n]`."""
    if n == 1:
        return np.arange(len(grams[0].counts), dtype=np.int32)[:, None]

    shorter = spell(grams, n - 1)
    longest = grams[n - 1]
    return np.concatenate([shorter[longest.left], shorter[longest.right, -1:]], axis=1)


def count_pairs(stream: Array, min_count: int) -> Grams:
    """Count the pairs of adjacent (n - 1)-grams in a stream, which are n-grams.

    Args:
        stream: int32 `[P]`; -1 is a gap, which is in no pair.
        min_count: Minimum number of occurrences.
    """
    runs = []
    for block in _iter_keys(stream):
        run = Scratch(np.int64)
        run.append(np.stack(np.unique(block[block >= 0], return_counts=True), axis=1))
        runs.append(run.array().reshape(-1, 2))

    keys, counts = merge_runs(runs, min_count, _POSITIONS_AT_ONCE)

    # The number of a pair is the index of its key.
    numbers = Scratch(np.int32, in_memory=IN_MEMORY)
    value_set = pa.array(keys)
    for block in _iter_keys(stream):
        found = pc.index_in(pa.array(block), value_set=value_set)
        numbers.append(found.fill_null(-1).to_numpy())

    left = (keys >> 32).astype(np.int32)
    right = (keys & 0xFFFFFFFF).astype(np.int32)
    return Grams(numbers.array(), counts, left, right)


def merge_runs(
    runs: Sequence[Array], min_count: int, max_pairs: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Merge sorted runs of pairs, one range of keys at a time.

    Args:
        runs: int64 `[K, 2]` each, sorted keys and their counts.
        min_count: Minimum count of a pair over all runs.
        max_pairs: Approximate maximum number of pairs in memory; at least one per run.

    Returns:
        Sorted keys, and their counts.
    """
    step = max(max_pairs // max(len(runs), 1), 1)
    starts = [0] * len(runs)
    kept = [np.empty((0, 2), np.int64)]

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
        kept.append(np.stack([pairs[firsts, 0], counts], axis=1)[counts >= min_count])
        starts = stops

    merged = np.concatenate(kept)
    return merged[:, 0].copy(), merged[:, 1].copy()


def _iter_keys(stream: Array) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the keys `left << 32 | right` of the pairs at all positions, a block at a time.

    The key of a pair with a gap is negative, as is that of the last position.
    """
    for start in range(0, len(stream), _POSITIONS_AT_ONCE):
        stop = start + _POSITIONS_AT_ONCE
        left = stream[start:stop].astype(np.int64)
        right = np.append(stream[start + 1 : stop + 1], -1)[: len(left)]
        yield left << 32 | right


def _renumber(stream: Array, new_numbers: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Renumber a stream; -1 stays -1."""
    new_numbers = np.append(new_numbers, np.int32(-1))  # index -1 gives -1

    out = Scratch(np.int32, in_memory=IN_MEMORY)
    for start in range(0, len(stream), _POSITIONS_AT_ONCE):
        out.append(new_numbers[stream[start : start + _POSITIONS_AT_ONCE]])

    return out.array()
