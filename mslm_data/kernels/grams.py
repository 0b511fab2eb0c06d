"""Listed n-grams in rows: in the order of their list, scattered over a row, as units beside words, and by chance.

Matches are those of `match_entries`: ragged by row, each with its first token within the row, one past its last, and
its entry. What is hidden is taken off a `pool` over tokens, so no two overlap.
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.draws import below, uniform
from mslm_data.kernels.gather import most_of_a_row

_LOW = np.int64(2**32 - 1)
_FEW = 32
"""Matches that are sorted by insertion, which costs less than the call of a sort; most rows have no more."""


@kernel
def sort_matches(entries: Array, keys: Array) -> None:
    """Order the matches of a row by entry, those of one entry from left to right.

    Args:
        entries: int32 `[m]`, the entry of each match; matches from left to right.
        keys: int64, `[0, m)` written: `entry << 32 | match`, rising.
    """
    for k in range(len(entries)):
        key = (np.int64(entries[k]) << 32) | k
        place = k
        while len(entries) <= _FEW and place > 0 and keys[place - 1] > key:
            keys[place] = keys[place - 1]
            place -= 1
        keys[place] = key
    if len(entries) > _FEW:
        keys[: len(entries)].sort()


@kernel
def all_open(pool: Array, start: int, end: int) -> bool:
    """Return whether all tokens of `[start, end)` may be hidden."""
    t = start
    while t < end and pool[t] != 0:
        t += 1
    return t == end


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
    """Take matches in the order of the list, pass after pass: in a pass, the left-most one of each entry.

    Only matches are taken all of whose tokens are still to be had; the last of a row is cut to what is left. A row is
    done when its budget is spent or a whole pass took nothing.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        match_offsets: int64 `[N + 1]` of the matches.
        starts: int32 `[M]`.
        ends: int32 `[M]`, half open.
        entries: int32 `[M]`.
        pool: uint8 `[T]`: 1 where a token may be hidden; 0 afterwards where it is.
        quota: int64 `[N]`: tokens to hide; what is left of it afterwards.
        taken: int64 `[M]`: how many tokens of a match were taken; elsewhere as it was.
    """
    keys = np.empty(most_of_a_row(match_offsets), np.int64)
    for i in range(len(quota)):
        begin, size, left = match_offsets[i], match_offsets[i + 1] - match_offsets[i], quota[i]
        if left > 0:
            sort_matches(entries[begin : begin + size], keys)
        took = True
        while left > 0 and took:
            took, kept, last = False, 0, np.int64(-1)
            for k in range(size):
                m, entry = begin + (keys[k] & _LOW), keys[k] >> 32
                start, end = offsets[i] + starts[m], offsets[i] + ends[m]
                if not all_open(pool, start, end):
                    continue
                if entry == last or left == 0:
                    keys[kept] = keys[k]
                    kept += 1
                    continue
                taken[m] = min(left, end - start)
                pool[start : start + taken[m]] = 0
                left -= taken[m]
                took, last = True, entry
            size = kept
        quota[i] = left


@kernel
def is_scattered(tokens: Array, row: Array, pool: Array) -> bool:
    """Return whether tokens stand in a row in their order, with any tokens that may not be hidden or others between.

    Args:
        tokens: int32, of an entry.
        row: int32 `[L]`.
        pool: uint8 `[L]`: 1 where a token may be hidden; only there one counts.
    """
    found = 0
    for t in range(len(row)):
        if found < len(tokens) and pool[t] != 0 and row[t] == tokens[found]:
            found += 1
    return found == len(tokens)


@kernel
def first_place(tokens: Array, row: Array, pool: Array) -> int:
    """Return where tokens first stand side by side in a row, all of them to be had, or -1; see `is_scattered`."""
    for first in range(len(row) - len(tokens) + 1):
        t = 0
        while t < len(tokens) and pool[first + t] != 0 and row[first + t] == tokens[t]:
            t += 1
        if t == len(tokens):
            return first
    return -1


@kernel
def take_scattered(
    offsets: Array,
    ids: Array,
    tokens: Array,
    bounds: Array,
    word_offsets: Array,
    listed: Array,
    listed_offsets: Array,
    pool: Array,
    quota: Array,
) -> None:
    """Take the words of entries that stand scattered in a row, in the order of the list, each entry once.

    Where all tokens of an entry stand in the row in their order, each of its words is taken where its tokens first
    stand side by side, wherever that is. The last word is cut to what is left.

    Args:
        offsets: int64 `[N + 1]`.
        ids: int32 `[T]`.
        tokens: int32, those of all entries.
        bounds: int64 `[W + 1]`: where each word of each entry begins in `tokens`, and the end.
        word_offsets: int64 `[E + 1]`: the words of each entry.
        listed: int32 `[E]`, all entries, ordered by one token of each.
        listed_offsets: int64 `[V + 1]`: the entries of each token, in `listed`.
        pool: uint8 `[T]`: 1 where a token may be hidden; 0 afterwards where it is.
        quota: int64 `[N]`: tokens to hide; what is left of it afterwards.
    """
    candidates = np.empty(0, np.int32)
    for i in range(len(quota)):
        row, open_ = ids[offsets[i] : offsets[i + 1]], pool[offsets[i] : offsets[i + 1]]
        size = 0
        for token in row:
            if not 0 <= token < len(listed_offsets) - 1:
                continue
            for place in range(listed_offsets[token], listed_offsets[token + 1]):
                if size == len(candidates):
                    candidates = np.append(candidates, np.zeros(size + 64, np.int32))
                candidates[size] = listed[place]
                size += 1
        candidates[:size].sort()
        left, last = quota[i], -1
        for entry in candidates[:size]:
            first, stop = word_offsets[entry], word_offsets[entry + 1]
            if (
                left == 0
                or entry == last
                or not is_scattered(tokens[bounds[first] : bounds[stop]], row, open_)
            ):
                continue
            last = entry
            for w in range(first, stop):
                start = first_place(tokens[bounds[w] : bounds[w + 1]], row, open_)
                if start >= 0:
                    some = min(left, bounds[w + 1] - bounds[w])
                    open_[start : start + some] = 0
                    left -= some
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
    """Number units: n-grams, and the words that are in none.

    Of an n-gram within another the larger is kept; then, of overlapping ones, each in random order that overlaps none
    kept before it.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        words: int32 `[T]`, `word_ids`.
        match_offsets: int64 `[N + 1]` of the matches, which are ordered by first token, then length.
        starts: int32 `[M]`.
        ends: int32 `[M]`, half open.
        pool: uint8 `[T]`: 1 where an n-gram may lie; 0 afterwards also where one was kept.
        streams: uint64 `[N]`; draw k of a row is step k of a shuffle.
        numbers: int32 `[T]`, written: the first token of each token's unit, counted within the row; -1 on special ones.
    """
    largest = np.empty(most_of_a_row(match_offsets), np.int64)
    for i in range(len(streams)):
        row, out = words[offsets[i] : offsets[i + 1]], numbers[offsets[i] : offsets[i + 1]]
        for t in range(len(row)):
            out[t] = -1 if row[t] < 0 else out[t - 1] if t > 0 and row[t] == row[t - 1] else t
        size, furthest = 0, 0
        for m in range(match_offsets[i], match_offsets[i + 1]):
            if ends[m] <= furthest or not all_open(
                pool, offsets[i] + starts[m], offsets[i] + ends[m]
            ):
                continue
            size -= int(size > 0 and starts[largest[size - 1]] == starts[m])
            largest[size], furthest = m, ends[m]
            size += 1
        for k in range(size):
            j = k + below(streams[i], k, size - k)
            m, largest[j] = largest[j], largest[k]
            if all_open(pool, offsets[i] + starts[m], offsets[i] + ends[m]):
                out[starts[m] : ends[m]] = starts[m]
                pool[offsets[i] + starts[m] : offsets[i] + ends[m]] = 0


@kernel
def take_by_chance(
    offsets: Array,
    match_offsets: Array,
    starts: Array,
    ends: Array,
    entries: Array,
    chances: Array,
    most: int,
    orders: Array,
    coins: Array,
    pool: Array,
    taken: Array,
) -> None:
    """Take matches by coins, one entry after the other in random order, until enough is hidden.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        match_offsets: int64 `[N + 1]` of the matches.
        starts: int32 `[M]`.
        ends: int32 `[M]`, half open.
        entries: int32 `[M]`.
        chances: float64 `[N]`, of each match of a row; 1 and more is always.
        most: Once so many tokens of a row are hidden, no further entry is tried.
        orders: uint64 `[N]`; draw k of a row is step k of a shuffle of its entries.
        coins: uint64 `[N]`; match m of a row takes draw m.
        pool: uint8 `[T]`: 1 where a token may be hidden; 0 afterwards where it is.
        taken: int64 `[M]`: the tokens of a match that was taken; elsewhere as it was.
    """
    longest = most_of_a_row(match_offsets)
    keys, groups = np.empty(longest, np.int64), np.empty(longest, np.int64)
    for i in range(len(coins)):
        begin, size = match_offsets[i], match_offsets[i + 1] - match_offsets[i]
        sort_matches(entries[begin : begin + size], keys)
        distinct, hidden = 0, 0
        for k in range(size):
            groups[distinct] = k
            distinct += int(k == 0 or keys[k] >> 32 != keys[k - 1] >> 32)
        for g in range(distinct):
            if hidden >= most:
                break
            j = g + below(orders[i], g, distinct - g)
            k, groups[j] = groups[j], groups[g]
            entry = keys[k] >> 32
            while k < size and keys[k] >> 32 == entry:
                u = keys[k] & _LOW
                start, end = offsets[i] + starts[begin + u], offsets[i] + ends[begin + u]
                if uniform(coins[i], u) < chances[i] and all_open(pool, start, end):
                    taken[begin + u] = end - start
                    pool[start:end] = 0
                    hidden += end - start
                k += 1
