"""Numbers words, which are runs of sub-words, by a hash table of what it meets.

A table is int32 `[2**n]` of numbers, -1 where it is empty, and never more than half full. Whole keys are compared, so
equal hashes do no harm. Words of one token, most of a corpus, are numbered by a table of all tokens instead.
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.draws import GOLDEN, mix


@kernel
def find_words(offsets: Array, word_ids: Array, bounds: Array, counts: Array) -> None:
    """Find the words of rows: runs of tokens with the same number that is not -1.

    Args:
        offsets: int64 `[N + 1]`, from 0 on or within a longer array.
        word_ids: int32 `[T]`, -1 on special tokens.
        bounds: int64, as many as there are tokens at least; the first rows are written: first token of each word and
            the token after it, and one row more is of no use.
        counts: int64 `[N]`, written: words of each row.
    """
    w = 0
    for i in range(len(counts)):
        before, last = w, -1
        for t in range(offsets[i], offsets[i + 1]):
            bounds[w, 0] = t  # overwritten by the next if no word begins here
            w += int((word_ids[t] >= 0) & (word_ids[t] != last))
            if word_ids[t] >= 0:
                bounds[w - 1, 1] = t + 1
            last = word_ids[t]
        counts[i] = w - before


@kernel
def hash_tokens(tokens: Array, start: int, stop: int) -> np.uint64:
    """Return a hash of the token ids at `[start, stop)`. Ranges in place of slices, which cost five times as much."""
    state = np.uint64(stop - start)
    for t in range(start, stop):
        state = (state ^ np.uint64(tokens[t])) * GOLDEN
    return mix(state)


@kernel
def same_tokens(tokens: Array, start: int, stop: int, others: Array, begin: int, end: int) -> bool:
    """Say whether the token ids at `[start, stop)` are those of `others` at `[begin, end)`."""
    if end - begin != stop - start:
        return False
    t = 0
    while t < stop - start and tokens[start + t] == others[begin + t]:
        t += 1
    return t == stop - start


@kernel
def place_words(offsets: Array, values: Array, alone: Array, table: Array) -> None:
    """Put known words, no two of them equal, into an empty table, but for those that `alone` has.

    Args:
        offsets: int64 `[W + 1]`.
        values: int32, their sub-words.
        alone: int32 `[V]`: the word that each token is by itself, or -1.
        table: int32 `[2**n]` of -1; written.
    """
    for w in range(len(offsets) - 1):
        if offsets[w + 1] == offsets[w] + 1 and 0 <= values[offsets[w]] < len(alone):
            continue
        place = np.int64(
            hash_tokens(values, offsets[w], offsets[w + 1]) & np.uint64(len(table) - 1)
        )
        while table[place] >= 0:
            place = (place + 1) & (len(table) - 1)
        table[place] = w


@kernel
def number_words(
    tokens: Array,
    bounds: Array,
    alone: Array,
    table: Array,
    offsets: Array,
    values: Array,
    counts: Array,
    size: Array,
    out: Array,
) -> None:
    """Number words by their sub-words, in order of first appearance, and count them.

    Args:
        tokens: int32 `[T]`.
        bounds: int64 `[M, 2]`: the tokens of each word, half open.
        alone: int32 `[V]`: the word that each token is by itself, or -1; written.
        table: int32 `[2**n]`, see above; written.
        offsets: int64, of the known words; written for new ones, with room for M more.
        values: int32, their sub-words; written for new ones, with room for those of all M.
        counts: int64, how often each occurs; added to, with room for M more.
        size: int64 `[1]`: how many words are known; written.
        out: int32 `[M]`, written: each word's number.
    """
    known = size[0]
    for w in range(len(bounds)):
        start, stop = bounds[w, 0], bounds[w, 1]
        single = stop == start + 1 and 0 <= tokens[start] < len(
            alone
        )  # said here, as a function trebles the time
        place, number = np.int64(0), np.int64(-1)
        if single:
            number = np.int64(alone[tokens[start]])
        else:
            place = np.int64(hash_tokens(tokens, start, stop) & np.uint64(len(table) - 1))
            while table[place] >= 0:
                if same_tokens(
                    tokens, start, stop, values, offsets[table[place]], offsets[table[place] + 1]
                ):
                    break
                place = (place + 1) & (len(table) - 1)
            number = np.int64(table[place])
        if number < 0:
            number = known
            if single:
                alone[tokens[start]] = number
            else:
                table[place] = number
            offsets[known + 1] = offsets[known] + stop - start
            for t in range(start, stop):
                values[offsets[known] + t - start] = tokens[t]
            known += 1
        counts[number] += 1
        out[w] = number
    size[0] = known
