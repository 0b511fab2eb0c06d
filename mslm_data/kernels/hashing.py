"""The hash table of all kernels: linear probing, in one form for items and in one for numbers.

*Items* have unequal lengths, such as words. Their characters, bytes or ids lie end to end in one
array. The table is `slots`, integers `[2**k]`: the number of an item, or -1 for an empty place.
Whole items are compared, so equal hashes do no harm.

*Keys* are numbers of 64 bits. The table is `keys`, uint64 `[2**k]`: the key itself, or `EMPTY`.
What belongs to a key stands at the same place in arrays beside it.

A search ends at an empty place, so every table has one. Callers keep half of the places empty.
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, inlined, kernel
from mslm_data.kernels.rng import mix

EMPTY = np.uint64(2**64 - 1)
"""A place without a key."""

_ONE = np.uint64(1)
_FNV_BASIS = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)


@inlined
def hash_item(items: Array, start: int, stop: int) -> np.uint64:
    """Return the FNV-1a hash of `items[start:stop]`, its high bits folded into the low ones.

    A range in place of a slice: making the slice costs more than the hash of a short word.
    """
    state = _FNV_BASIS
    for t in range(start, stop):
        state = (state ^ np.uint64(items[t])) * _FNV_PRIME
    return state ^ (state >> 32)


@kernel
def hash_beginnings(items: Array, start: int, count: int, out: Array) -> None:
    """Hash `items[start : start + n]` for each n from 1 to `count`.

    Args:
        items: integers.
        start: The first item.
        count: Number of hashes.
        out: uint64, `count` or longer; `hash_item` of n items is written at n - 1.
    """
    state = _FNV_BASIS
    for n in range(count):
        state = (state ^ np.uint64(items[start + n])) * _FNV_PRIME
        out[n] = state ^ (state >> 32)


@inlined
def is_same(items: Array, start: int, stop: int, others: Array, first: int, last: int) -> bool:
    """Return whether `items[start:stop]` equals `others[first:last]`, without making slices.

    Args:
        items: integers.
        start: First item.
        stop: Half open.
        others: integers.
        first: First item.
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
    """Return the place of an item in a table, or the empty place where it belongs.

    Args:
        slots: integers `[2**k]`, the table.
        hashed: `hash_item` of the item.
        items: The array that holds the item, at `[start, stop)`.
        start: Its first place.
        stop: Half open.
        known: The array that holds the K items of the table.
        starts: integers `[K]`: where each of them begins in `known`.
        ends: integers `[K]`, half open.
        hashes: uint64 `[K]`, of the items of the table. They are compared first, which halves the
            time for words of characters. None: items are compared at once.
    """
    # Without a `break`: with one, numba counts references in the loop, at four times the time. So
    # it does for a call of `is_same` that is copied into this loop.
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
    """Hash rows of items.

    Args:
        items: integers `[T]`.
        offsets: integers `[N + 1]`, the items of each row.
        out: uint64 `[N]`, written.
    """
    for i in range(len(out)):
        out[i] = hash_item(items, offsets[i], offsets[i + 1])


@kernel
def hash_ngrams(items: Array, offsets: Array, n: int, out: Array) -> None:
    """Hash the n-grams of rows: every n items that stand side by side in one row.

    Args:
        items: integers `[T]`.
        offsets: integers `[N + 1]`, the items of each row.
        n: Items of an n-gram.
        out: uint64 `[G]`, written: a row of L items has L - n + 1 n-grams, or none if it is
            shorter.
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
    """Put words into a table, and number them by where they stand here; of equal words the first.

    Args:
        chars: uint32 `[C]`, code points.
        words: integers `[W, 2]` or wider: each word's characters, half open.
        first: The first word to put in. Those before it are in the table already.
        slots: integers `[2**k]`, more than W; written.
        hashes: uint64 `[W]`, written from `first` on.
        out: int64 `[W]`, written from `first` on: the number of the first word that equals each.
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
    """Find the numbers of words.

    Args:
        chars: uint32 `[C]`, code points.
        words: integers `[W, 2]` or wider: each word's characters, half open.
        slots: integers `[2**k]`, filled by `enter_words`.
        known: uint32, characters of the K words of the table.
        bounds: integers `[K, 2]` or wider: each known word's characters in `known`, half open.
        hashes: uint64 `[K]`, of the known words.
        out: int64 `[W]`, written: each word's number, -1 for a word that the table does not have.
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
    """Return two numbers, each in `[0, 2**32)`, as one key."""
    return (np.uint64(left) << 32) | np.uint64(right)


@kernel
def find_key(keys: Array, key: np.uint64) -> np.int64:
    """Return the place of a key in a table, or the empty place where it belongs.

    Args:
        keys: uint64 `[2**k]`, the table.
        key: Not `EMPTY`.
    """
    last = np.uint64(len(keys) - 1)
    place = mix(key) & last
    while keys[place] != key and keys[place] != EMPTY:
        place = (place + _ONE) & last
    return np.int64(place)
