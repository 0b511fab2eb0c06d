"""Number words by their sub-words, and count them.

Words of several tokens are in a table of items (`hashing`). Words of one token, most of a corpus,
are looked up in `alone`, an array over the vocabulary, which needs no hash.
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.hashing import find_slot, hash_item
from mslm_data.kernels.rows import begins_word


@kernel
def find_words(offsets: Array, word_ids: Array, bounds: Array, counts: Array) -> None:
    """Find the words of rows: runs of tokens with the same word id.

    Args:
        offsets: int64 `[N + 1]`, from 0 or another index.
        word_ids: int32 `[T]`, -1 on special tokens.
        bounds: int64 `[., 2]`, at least as long as the tokens of the rows, written from the top:
            token range of each word. One more item is scratch memory.
        counts: int64 `[N]`, written: number of words of each row.
    """
    w = 0
    for i in range(len(counts)):
        first = w
        before = -1
        for t in range(offsets[i], offsets[i + 1]):
            # No branch: if no word begins here, the next one overwrites this item.
            bounds[w, 0] = t
            w += begins_word(word_ids[t], before)

            if word_ids[t] >= 0:
                bounds[w - 1, 1] = t + 1
            before = word_ids[t]
        counts[i] = w - first


@kernel
def place_words(offsets: Array, values: Array, alone: Array, table: Array) -> None:
    """Add distinct words of several tokens to an empty table.

    Args:
        offsets: int64 `[W + 1]`.
        values: int32, sub-words of the words.
        alone: int32 `[V]`, number of each one-token word, or -1. One-token words of ids outside
            `[0, V)` are added to the table too.
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
    """Number words in order of first appearance, and count them.

    Args:
        tokens: int32 `[T]`, token ids.
        bounds: int64 `[M, 2]`, token range of each word.
        alone: int32 `[V]`, number of each one-token word, or -1; changed.
        table: int32 `[2**n]`, table of all other words; changed.
        offsets: int64, offsets of the known words into `values`, with room for M more; changed.
        values: int32, sub-words of the known words, with room for those of M more; changed.
        counts: int64, number of occurrences of each known word, with room for M more; changed.
        size: int64 `[1]`, number of known words; changed.
        out: int32 `[M]`, written: number of each word.
    """
    known = size[0]
    ends = offsets[1:]
    for w in range(len(bounds)):
        start, stop = bounds[w, 0], bounds[w, 1]

        # Look up the word. Written out here, since a function triples the time (numba 0.68).
        single = stop == start + 1 and 0 <= tokens[start] < len(alone)
        place = np.int64(0)
        number = np.int64(-1)
        if single:
            number = np.int64(alone[tokens[start]])
        else:
            hashed = hash_item(tokens, start, stop)
            place = find_slot(table, hashed, tokens, start, stop, values, offsets, ends, None)
            number = np.int64(table[place])

        # Add a new word.
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
