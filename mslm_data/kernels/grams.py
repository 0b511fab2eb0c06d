"""Mask listed n-grams: in the order of the list, as units, or by probability.

Matches come from `token_trie.match_entries`: M in all, ragged by row, each with its first token
within the row, the token after its last, and its entry in the list. Masked tokens are removed from
`pool`, so masked matches do not overlap.
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.rng import uniform
from mslm_data.kernels.rows import all_open, begins_word, draw_next, longest_row

_LOW = np.int64(2**32 - 1)
_FEW = 32
"""Maximum number of matches sorted by insertion, which is faster than a call of `sort`. Most
rows have no more."""


@kernel
def sort_matches(entries: Array, keys: Array) -> None:
    """Sort the matches of a row by entry, then from left to right.

    Args:
        entries: int32 `[m]`, entry of each match, from left to right.
        keys: int64, at least `[m]`, written: `entry << 32 | match`, ascending.
    """
    few = len(entries) <= _FEW
    for k in range(len(entries)):
        key = (np.int64(entries[k]) << 32) | k

        # Insertion sort: move larger keys one place to the right.
        place = k
        while few and place > 0 and keys[place - 1] > key:
            keys[place] = keys[place - 1]
            place -= 1
        keys[place] = key

    if not few:
        keys[: len(entries)].sort()


@kernel
def take_in_order(
    offsets: Array,
    match_offsets: Array,
    starts: Array,
    ends: Array,
    entries: Array,
    pool: Array,
    quota: Array,
    taken: Array,
) -> None:
    """Take matches in the order of the list, in several passes.

    A pass takes the leftmost match of each entry whose tokens are all still eligible. The last
    match of a row is cut to the remaining budget. A row ends when its budget is spent, or when a
    pass takes nothing.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        match_offsets: int64 `[N + 1]` of the matches.
        starts: int32 `[M]`, first token of each match, within its row.
        ends: int32 `[M]`, half open.
        entries: int32 `[M]`, entry of each match.
        pool: uint8 `[T]`, 1 for eligible tokens; 0 is written on taken tokens.
        quota: int64 `[N]`, number of tokens to mask; reduced by the tokens taken.
        taken: int32 `[M]`, written at matches that are taken: the number of tokens taken.
    """
    keys = np.empty(longest_row(match_offsets), np.int64)
    for i in range(len(quota)):
        begin = match_offsets[i]
        size = match_offsets[i + 1] - begin
        left = quota[i]
        if left > 0:
            sort_matches(entries[begin : begin + size], keys)

        took = True
        while left > 0 and took:
            took = False
            kept = 0
            last = np.int64(-1)  # last entry taken in this pass
            for k in range(size):
                m = begin + (keys[k] & _LOW)
                entry = keys[k] >> 32
                start, end = offsets[i] + starts[m], offsets[i] + ends[m]
                if not all_open(pool, start, end):
                    continue

                # This pass has taken a match of this entry already, so keep this one for the next
                # pass. Kept matches move to the front of `keys`: `kept <= k`, so none is lost.
                if entry == last or left == 0:
                    keys[kept] = keys[k]
                    kept += 1
                    continue

                taken[m] = min(left, end - start)
                pool[start : start + taken[m]] = 0
                left -= taken[m]
                took = True
                last = entry
            size = kept
        quota[i] = left


@kernel
def unite_words(
    offsets: Array,
    words: Array,
    match_offsets: Array,
    starts: Array,
    ends: Array,
    pool: Array,
    streams: Array,
    numbers: Array,
) -> None:
    """Cut rows into units: n-grams, and the words outside them.

    N-grams within a longer n-gram are dropped. The others are visited in random order, and kept if
    they do not overlap one kept before.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        words: int32 `[T]`, `word_ids`, -1 on special tokens.
        match_offsets: int64 `[N + 1]` of the matches, sorted by first token, then length.
        starts: int32 `[M]`, first token of each match, within its row.
        ends: int32 `[M]`, half open.
        pool: uint8 `[T]`, 1 for tokens that may be in an n-gram; 0 is written in kept n-grams.
        streams: uint64 `[N]`. Draw k of a row is step k of a shuffle of its longest n-grams.
        numbers: int32 `[T]`, written: first token of each token's unit, within the row; -1 on
            special tokens.
    """
    largest = np.empty(longest_row(match_offsets), np.int64)
    for i in range(len(streams)):
        start, stop = offsets[i], offsets[i + 1]
        row = words[start:stop]
        out = numbers[start:stop]

        # First, every word is a unit.
        first = np.int32(-1)
        before = np.int32(-1)
        for t in range(len(row)):
            if begins_word(row[t], before):
                first = np.int32(t)
            out[t] = first if row[t] >= 0 else -1
            before = row[t]

        # Keep matches that are not within another. Matches are sorted by first token, then length:
        # a match that ends no later than an earlier one lies within it, and a match replaces an
        # earlier one with the same first token.
        size = 0
        furthest = 0
        for m in range(match_offsets[i], match_offsets[i + 1]):
            if ends[m] <= furthest or not all_open(pool, start + starts[m], start + ends[m]):
                continue
            if size > 0 and starts[largest[size - 1]] == starts[m]:
                size -= 1
            largest[size] = m
            furthest = ends[m]
            size += 1

        # Visit these in random order.
        for k in range(size):
            m = draw_next(largest, streams[i], k, size)
            if all_open(pool, start + starts[m], start + ends[m]):
                out[starts[m] : ends[m]] = starts[m]
                pool[start + starts[m] : start + ends[m]] = 0


@kernel
def take_by_chance(
    offsets: Array,
    match_offsets: Array,
    starts: Array,
    ends: Array,
    entries: Array,
    chances: Array,
    max_masked: int,
    orders: Array,
    streams: Array,
    pool: Array,
    taken: Array,
) -> None:
    """Take each match with a probability, entry by entry in random order, until enough is masked.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        match_offsets: int64 `[N + 1]` of the matches.
        starts: int32 `[M]`, first token of each match, within its row.
        ends: int32 `[M]`, half open.
        entries: int32 `[M]`, entry of each match.
        chances: float64 `[N]`, probability of the matches of each row. Values above 1 count as 1.
        max_masked: Number of masked tokens in a row after which no further entry is tried.
        orders: uint64 `[N]`. Draw k of a row is step k of a shuffle of its entries.
        streams: uint64 `[N]`. Match m of a row uses draw m.
        pool: uint8 `[T]`, 1 for eligible tokens; 0 is written on taken tokens.
        taken: int32 `[M]`, written at matches that are taken: the number of tokens taken.
    """
    longest = longest_row(match_offsets)
    keys = np.empty(longest, np.int64)
    groups = np.empty(longest, np.int64)
    for i in range(len(streams)):
        begin = match_offsets[i]
        size = match_offsets[i + 1] - begin
        sort_matches(entries[begin : begin + size], keys)

        # Group the matches by entry. A group is represented by its first index in `keys`.
        # No branch: an index at which no group begins is overwritten by the next one.
        distinct = 0
        for k in range(size):
            groups[distinct] = k
            distinct += int(k == 0 or keys[k] >> 32 != keys[k - 1] >> 32)

        masked = 0
        for g in range(distinct):
            if masked >= max_masked:
                break

            # Try all matches of a random entry.
            k = draw_next(groups, orders[i], g, distinct)
            entry = keys[k] >> 32
            while k < size and keys[k] >> 32 == entry:
                u = keys[k] & _LOW
                start, end = offsets[i] + starts[begin + u], offsets[i] + ends[begin + u]
                if uniform(streams[i], u) < chances[i] and all_open(pool, start, end):
                    taken[begin + u] = end - start
                    pool[start:end] = 0
                    masked += end - start
                k += 1
