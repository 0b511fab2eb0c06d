"""Number words, which are runs of sub-words, and count them.

The table is one of items (`hashing`): the items are the sub-words of the types. Words of one token,
most of a corpus, are not in it: they are numbered by `alone`, an array over all tokens.
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.hashing import find_slot, hash_item
from mslm_data.kernels.rows import begins_word


@kernel
def find_words(offsets: Array, word_ids: Array, bounds: Array, counts: Array) -> None:
    """Find the words of rows: runs of tokens with the same number other than -1.

    Args:
        offsets: int64 `[N + 1]`, from 0 on or within a longer array.
        word_ids: int32 `[T]`, -1 on special tokens.
        bounds: int64, at least `[tokens of the rows, 2]`; written from the first row on: first
            token of each word, and the token after its last. One row more may hold scratch data.
        counts: int64 `[N]`, written: words of each row.
    """
    w = 0
    for i in range(len(counts)):
        first = w
        before = -1
        for t in range(offsets[i], offsets[i + 1]):
            # No branch: where no word begins, the next one overwrites this.
            bounds[w, 0] = t
            w += begins_word(word_ids[t], before)

            if word_ids[t] >= 0:
                bounds[w - 1, 1] = t + 1
            before = word_ids[t]
        counts[i] = w - first


@kernel
def place_words(offsets: Array, values: Array, alone: Array, table: Array) -> None:
    """Put known words, no two of them equal, into an empty table, except those of one token.

    Args:
        offsets: int64 `[W + 1]`.
        values: int32, their sub-words.
        alone: int32 `[V]`: the word that each token is by itself, or -1. A word of a token that
            `alone` has no place for goes into the table.
        table: int32 `[2**n]`, all -1; written.
    """
    starts = offsets[:-1]
    ends = offsets[1:]
    for w in range(len(starts)):
        start, stop = starts[w], ends[w]
        if stop == start + 1 and 0 <= values[start] < len(alone):
            continue
        hashed = hash_item(values, start, stop)
        place = find_slot(table, hashed, values, start, stop, values, starts, ends, None)
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
        table: int32 `[2**n]`, of words of other tokens; written.
        offsets: int64, of the known words; written for new ones, with room for M more.
        values: int32, their sub-words; written for new ones, with room for those of all M.
        counts: int64, how often each word occurs; added to, with room for M more.
        size: int64 `[1]`: how many words are known; changed.
        out: int32 `[M]`, written: each word's number.
    """
    known = size[0]
    ends = offsets[1:]
    for w in range(len(bounds)):
        start, stop = bounds[w, 0], bounds[w, 1]

        # Written out here, because a function for it trebles the time (numba 0.68).
        single = stop == start + 1 and 0 <= tokens[start] < len(alone)
        place = np.int64(0)
        number = np.int64(-1)
        if single:
            number = np.int64(alone[tokens[start]])
        else:
            hashed = hash_item(tokens, start, stop)
            place = find_slot(table, hashed, tokens, start, stop, values, offsets, ends, None)
            number = np.int64(table[place])

        if number < 0:
            number = known
            if single:
                alone[tokens[start]] = number
            else:
                table[place] = number

            begin = offsets[known]
            offsets[known + 1] = begin + stop - start
            for t in range(start, stop):
                values[begin + t - start] = tokens[t]
            known += 1

        counts[number] += 1
        out[w] = number
    size[0] = known
