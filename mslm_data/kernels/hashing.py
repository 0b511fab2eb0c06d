"""Hash tables with linear probing: one for items of any length, one for 64-bit keys.

*Items* are ranges of one array of characters, bytes or ids, such as words. The table is `slots`,
integers `[2**k]`: the number of an item, or -1 for an empty slot. Whole items are compared, so
items with equal hashes are told apart.

*Keys* are 64-bit numbers. The table is `keys`, uint64 `[2**k]`: a key, or `EMPTY`. Values are in
other arrays, at the slot of their key.

A search ends at an empty slot, so a table must have one. Callers keep at least half of the slots
empty.
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, inlined, kernel
from mslm_data.kernels.rng import mix

EMPTY = np.uint64(2**64 - 1)
"""Marks an empty slot of a table of keys."""

_ONE = np.uint64(1)
_FNV_BASIS = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)


@inlined
def hash_item(items: Array, start: int, stop: int) -> np.uint64:
    """Return the FNV-1a hash of `items[start:stop]`, with the high bits folded into the low bits.

    Takes a range, since a slice costs more than the hash of a short word.
    """
    state = _FNV_BASIS
    for t in range(start, stop):
        state = (state ^ np.uint64(items[t])) * _FNV_PRIME

    # A table uses the low bits only. FNV-1a mixes the high bits better.
    return state ^ (state >> 32)


@kernel
def hash_beginnings(items: Array, start: int, count: int, out: Array) -> None:
    """Hash `items[start : start + n]` for each n from 1 to `count`.

    Args:
        items: integers.
        start: First index of all ranges.
        count: Number of hashes.
        out: uint64, at least `[count]`, written: `hash_item` of the range of length n at `n - 1`.
    """
    state = _FNV_BASIS
    for n in range(count):
        state = (state ^ np.uint64(items[start + n])) * _FNV_PRIME
        out[n] = state ^ (state >> 32)


@inlined
def is_same(items: Array, start: int, stop: int, others: Array, first: int, last: int) -> bool:
    """Return whether `items[start:stop]` equals `others[first:last]`, without slices.

    Args:
        items: integers.
        start: First index into `items`.
        stop: Half open.
        others: integers.
        first: First index into `others`.
        last: Half open.
    """
    if stop - start != last - first:
        return False
    for t in range(stop - start):  # noqa: SIM110 - numba compiles no generator
        if items[start + t] != others[first + t]:
            return False
    return True


@kernel
def find_slot(
    slots: Array,
    hashed: np.uint64,
    items: Array,
    start: int,
    stop: int,
    known: Array,
    starts: Array,
    ends: Array,
    hashes: Array | None,
) -> np.int64:
    """Return the slot of an item in a table, or the empty slot to put it into.

    Args:
        slots: integers `[2**k]`, the table.
        hashed: Hash of the item, from `hash_item`.
        items: integers, the array with the item.
        start: First index of the item.
        stop: Half open.
        known: integers, the array with the K items of the table.
        starts: integers `[K]`, first index of each of these in `known`.
        ends: integers `[K]`, half open.
        hashes: uint64 `[K]`, hashes of these, to compare first, which halves the time for words of
            characters. None compares the items at once.
    """
    # Without a `break`: it makes numba count references in the loop, which takes four times the
    # time. A call of the inlined `is_same` would do the same.
    last = np.uint64(len(slots) - 1)
    place = hashed & last
    n = slots[place]
    found = False
    while n >= 0 and not found:
        found = (hashes is None or hashes[n] == hashed) and ends[n] - starts[n] == stop - start
        if found:
            other = starts[n]
            t = start
            while found and t < stop:
                found = items[t] == known[other]
                t += 1
                other += 1
        if not found:
            place = (place + _ONE) & last
            n = slots[place]
    return np.int64(place)


@kernel
def hash_rows(items: Array, offsets: Array, out: Array) -> None:
    """Hash rows of integers.

    Args:
        items: integers `[T]`.
        offsets: integers `[N + 1]`.
        out: uint64 `[N]`, written: `hash_item` of each row.
    """
    for i in range(len(out)):
        out[i] = hash_item(items, offsets[i], offsets[i + 1])


@kernel
def hash_ranges(items: Array, starts: Array, ends: Array, out: Array) -> None:
    """Hash N ranges of one array, such as sentences of a line of text.

    Args:
        items: integers.
        starts: integers `[N]`, first index of each range.
        ends: integers `[N]`, index after the last.
        out: uint64 `[N]`, written: `hash_item` of each range.
    """
    for row in range(len(out)):
        out[row] = hash_item(items, starts[row], ends[row])


@kernel
def hash_ngrams(items: Array, offsets: Array, n: int, out: Array) -> None:
    """Hash the n-grams of rows: every n consecutive integers of a row.

    Args:
        items: integers `[T]`.
        offsets: integers `[N + 1]`.
        n: Length of an n-gram.
        out: uint64 `[G]`, written: `hash_item` of each n-gram. A row of length L has
            `max(L - n + 1, 0)` of them.
    """
    g = 0
    for i in range(len(offsets) - 1):
        for first in range(offsets[i], offsets[i + 1] - n + 1):
            out[g] = hash_item(items, first, first + n)
            g += 1


@kernel
def enter_words(
    chars: Array, words: Array, first: int, slots: Array, hashes: Array, out: Array
) -> None:
    """Add words to a table. The number of a word is the index of its first occurrence in `words`.

    Args:
        chars: uint32 `[C]`, code points.
        words: integers `[W, 2]` or wider, character range of each word.
        first: Index of the first word to add. Earlier words are in the table already.
        slots: integers `[2**k]` with `2**k > W`, the table; changed.
        hashes: uint64 `[W]`, written from `first` on.
        out: int64 `[W]`, written from `first` on: the number of each word.
    """
    starts = words[:, 0]
    ends = words[:, 1]
    for w in range(first, len(words)):
        hashes[w] = hash_item(chars, starts[w], ends[w])
        place = find_slot(slots, hashes[w], chars, starts[w], ends[w], chars, starts, ends, hashes)

        if slots[place] < 0:
            slots[place] = w
        out[w] = slots[place]


@kernel
def look_up_words(
    chars: Array, words: Array, slots: Array, known: Array, bounds: Array, hashes: Array, out: Array
) -> None:
    """Look up words in a table.

    Args:
        chars: uint32 `[C]`, code points.
        words: integers `[W, 2]` or wider, character range of each word.
        slots: integers `[2**k]`, the table from `enter_words`.
        known: uint32, code points of the K words of the table.
        bounds: integers `[K, 2]` or wider, range of each of these in `known`.
        hashes: uint64 `[K]`, hashes of these.
        out: int64 `[W]`, written: the number of each word, -1 for unknown words.
    """
    starts = bounds[:, 0]
    ends = bounds[:, 1]
    for w in range(len(words)):
        start = words[w, 0]
        stop = words[w, 1]
        hashed = hash_item(chars, start, stop)
        out[w] = slots[find_slot(slots, hashed, chars, start, stop, known, starts, ends, hashes)]


@inlined
def pair(left: int | np.int64, right: int | np.int64) -> np.uint64:
    """Return the key of two numbers in `[0, 2**32)`."""
    return (np.uint64(left) << 32) | np.uint64(right)


@kernel
def find_key(keys: Array, key: np.uint64) -> np.int64:
    """Return the slot of a key in a table, or the empty slot to put it into.

    Args:
        keys: uint64 `[2**k]`, the table.
        key: Any number other than `EMPTY`.
    """
    last = np.uint64(len(keys) - 1)
    place = mix(key) & last
    while keys[place] != key and keys[place] != EMPTY:
        place = (place + _ONE) & last
    return np.int64(place)
