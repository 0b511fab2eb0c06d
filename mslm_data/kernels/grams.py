"""Take listed n-grams of rows: in the order of their list, scattered, as units, or by chance.

Matches are those of `token_trie.match_entries`: ragged by row, each with its first token within the
row, the token after its last, and its entry. Tokens that are masked leave a `pool`, so that no two
matches that are taken overlap.
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.rng import uniform
from mslm_data.kernels.rows import begins_word, draw_next, longest_row

_LOW = np.int64(2**32 - 1)
_FEW = 32
"""Up to so many matches are sorted by insertion, which is faster than the call of a sort. Most rows
have no more."""


@kernel
def sort_matches(entries: Array, keys: Array) -> None:
    """Order the matches of a row by entry, those of one entry from left to right.

    Args:
        entries: int32 `[m]`, the entry of each match; matches from left to right.
        keys: int64, at least `[m]`, written: `entry << 32 | match`, rising.
    """
    few = len(entries) <= _FEW
    for k in range(len(entries)):
        key = (np.int64(entries[k]) << 32) | k

        # Insertion: larger keys move one place to the right.
        place = k
        while few and place > 0 and keys[place - 1] > key:
            keys[place] = keys[place - 1]
            place -= 1
        keys[place] = key

    if not few:
        keys[: len(entries)].sort()


@kernel
def all_open(pool: Array, start: int, end: int) -> bool:
    """Return whether all tokens of `[start, end)` may be masked.

    Args:
        pool: uint8: 1 where a token may be masked, 0 elsewhere.
        start: First token.
        end: Half open.
    """
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
    """Take matches in the order of the list, pass after pass.

    A pass takes the left-most match of each entry, if all of its tokens may still be masked. The
    last match of a row is cut to what is left of the budget. A row is done when its budget is spent
    or a pass took nothing.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        match_offsets: int64 `[N + 1]` of the matches.
        starts: int32 `[M]`.
        ends: int32 `[M]`, half open.
        entries: int32 `[M]`.
        pool: uint8 `[T]`, 1 where a token may be masked; 0 afterwards where one is.
        quota: int64 `[N]`, tokens to mask; reduced by the tokens masked.
        taken: int64 `[M]`: how many tokens of a match were taken; elsewhere as it was.
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
            last = np.int64(-1)  # the entry that was taken last in this pass
            for k in range(size):
                m = begin + (keys[k] & _LOW)
                entry = keys[k] >> 32
                start, end = offsets[i] + starts[m], offsets[i] + ends[m]
                if not all_open(pool, start, end):
                    continue

                # The entry has had its turn, so this match waits for the next pass. Matches that
                # wait move to the front of `keys`, behind the one that is read.
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
def is_scattered(tokens: Array, row: Array, pool: Array) -> bool:
    """Return whether tokens stand in a row in their order, with any other tokens between them.

    Args:
        tokens: int32, of an entry.
        row: int32 `[L]`.
        pool: uint8 `[L]`, 1 where a token may be masked; only open tokens count.
    """
    found = 0
    for t in range(len(row)):
        if found < len(tokens) and pool[t] != 0 and row[t] == tokens[found]:
            found += 1
    return found == len(tokens)


@kernel
def first_place(tokens: Array, row: Array, pool: Array) -> int:
    """Return where tokens first stand side by side in a row, all of them open, or -1.

    Args:
        tokens: int32, of a word.
        row: int32 `[L]`.
        pool: uint8 `[L]`, 1 where a token may be masked.
    """
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
    """Take the words of entries that stand scattered in a row, each entry once, in list order.

    If all tokens of an entry stand in the row in their order, each of its words is taken where the
    word's tokens first stand side by side, wherever that is. The last word is cut to what is left
    of the budget.

    Args:
        offsets: int64 `[N + 1]`.
        ids: int32 `[T]`.
        tokens: int32, those of all entries.
        bounds: int64 `[W + 1]`: where each word of each entry begins in `tokens`, and the end.
        word_offsets: int64 `[E + 1]`: the words of each entry.
        listed: int32 `[E]`, all entries, ordered by one token of each.
        listed_offsets: int64 `[V + 1]`: the entries of each token, in `listed`.
        pool: uint8 `[T]`, 1 where a token may be masked; 0 afterwards where one is.
        quota: int64 `[N]`, tokens to mask; reduced by the tokens masked.
    """
    candidates = np.empty(0, np.int32)
    for i in range(len(quota)):
        start, stop = offsets[i], offsets[i + 1]
        row = ids[start:stop]
        row_pool = pool[start:stop]

        # Only entries one of whose tokens stands in the row can be scattered in it.
        size = 0
        for token in row:
            if not 0 <= token < len(listed_offsets) - 1:
                continue
            for place in range(listed_offsets[token], listed_offsets[token + 1]):
                if size == len(candidates):
                    candidates = np.append(candidates, np.zeros(size + 64, np.int32))
                candidates[size] = listed[place]
                size += 1

        # Sorted, equal candidates stand side by side, and the first of the list comes first.
        candidates[:size].sort()
        left = quota[i]
        last = -1  # the entry that was taken last
        for entry in candidates[:size]:
            if left == 0 or entry == last:
                continue
            first, past = word_offsets[entry], word_offsets[entry + 1]
            if not is_scattered(tokens[bounds[first] : bounds[past]], row, row_pool):
                continue

            last = entry
            for w in range(first, past):
                place = first_place(tokens[bounds[w] : bounds[w + 1]], row, row_pool)
                if place >= 0:
                    some = min(left, bounds[w + 1] - bounds[w])
                    row_pool[place : place + some] = 0
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
    """Number the units of rows: n-grams, and the words that are in none.

    Of n-grams within one another the largest is kept. The rest are visited in random order, and
    each is kept that overlaps none kept before it.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        words: int32 `[T]`, `word_ids`.
        match_offsets: int64 `[N + 1]` of the matches, ordered by first token, then length.
        starts: int32 `[M]`.
        ends: int32 `[M]`, half open.
        pool: uint8 `[T]`: 1 where an n-gram may lie, 0 elsewhere; 0 afterwards where one was kept.
        streams: uint64 `[N]`; draw k of a row is step k of a shuffle of its largest n-grams.
        numbers: int32 `[T]`, written: the first token of each token's unit, counted within the row;
            -1 on special tokens.
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

        # Matches come by first token, then length. So a match that ends no further than one before
        # it lies within that one, and the last match of a first token is its longest.
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
        starts: int32 `[M]`.
        ends: int32 `[M]`, half open.
        entries: int32 `[M]`.
        chances: float64 `[N]`, probability of each match of a row; 1 or more is always.
        max_masked: Number of masked tokens of a row after which no further entry is tried.
        orders: uint64 `[N]`; draw k of a row is step k of a shuffle of its entries.
        streams: uint64 `[N]`; match m of a row takes draw m.
        pool: uint8 `[T]`, 1 where a token may be masked; 0 afterwards where one is.
        taken: int64 `[M]`: the tokens of a match that was taken; elsewhere as it was.
    """
    longest = longest_row(match_offsets)
    keys = np.empty(longest, np.int64)
    groups = np.empty(longest, np.int64)
    for i in range(len(streams)):
        begin = match_offsets[i]
        size = match_offsets[i + 1] - begin
        sort_matches(entries[begin : begin + size], keys)

        # A group is the matches of one entry; it is known by its first place in `keys`.
        # No branch: a place where no group begins is overwritten by the next one.
        distinct = 0
        for k in range(size):
            groups[distinct] = k
            distinct += int(k == 0 or keys[k] >> 32 != keys[k - 1] >> 32)

        masked = 0
        for g in range(distinct):
            if masked >= max_masked:
                break
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
