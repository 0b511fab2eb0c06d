"""Count n-grams as pairs of (n - 1)-grams.

An n-gram is the pair of the (n - 1)-grams that begin at its first and at its second word. So all
lengths are counted by the same kernels:

* A stream, int32 `[P]`, has the number of the gram that begins at each place, or -1 for none, such
  as at the end of a sentence.
* A pair at place p is `stream[p]` and `stream[p + 1]`. Its key is `left << 32 | right`.
* A table of pairs is a table of keys (`hashing`), with `numbers` int32 `[2**n]`: the number of each
  slot's pair, or -1.
* A sieve, uint8 `[2**k]`, counts pairs by hash, up to a minimum. Most pairs of a corpus are rare,
  and a sieve excludes them in little memory. Its counts may be too high, but never too low.
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.hashing import find_key, pair
from mslm_data.kernels.rng import mix


@kernel
def key_at(stream: Array, p: int) -> np.uint64:
    """Return the key of the pair at place p of a stream."""
    return pair(stream[p], stream[p + 1])


@kernel
def place_pairs(pairs: Array, keys: Array, numbers: Array) -> None:
    """Add distinct pairs to an empty table, numbered in their order.

    Args:
        pairs: uint64 `[K]`, keys of the pairs.
        keys: uint64 `[2**n]`, all `EMPTY`; written.
        numbers: int32 `[2**n]`, written.
    """
    for k in range(len(pairs)):
        place = find_key(keys, pairs[k])
        keys[place] = pairs[k]
        numbers[place] = k


@kernel
def find_live(stream: Array, places: Array) -> int:
    """List the places at which pairs begin, and return their number.

    Args:
        stream: int32 `[P + 1]`.
        places: int32, at least `[P]`, written from the left. The item after the last place is
            scratch memory.
    """
    # No branch: a place without a pair is overwritten by the next place.
    size = 0
    for p in range(len(stream) - 1):
        places[size] = p
        size += int((stream[p] >= 0) & (stream[p + 1] >= 0))
    return size


@kernel
def fill_sieve(stream: Array, places: Array, min_count: int, sieve: Array) -> None:
    """Count pairs in a sieve.

    Args:
        stream: int32 `[P + 1]`.
        places: int32 `[M]`, places at which pairs begin.
        min_count: Count at which the sieve stops, in `[1, 255]`.
        sieve: uint8 `[2**k]`, changed.
    """
    last = np.uint64(len(sieve) - 1)
    for k in range(len(places)):
        place = mix(key_at(stream, places[k])) & last
        sieve[place] += np.uint8(sieve[place] < min_count)


@kernel
def keep_frequent(stream: Array, min_count: int, sieve: Array, places: Array) -> int:
    """Keep the places of pairs that may be frequent enough, and return their number.

    Args:
        stream: int32 `[P + 1]`.
        min_count: Minimum count of a pair, as in `fill_sieve`.
        sieve: uint8 `[2**k]`, from `fill_sieve`.
        places: int32 `[M]`, places at which pairs begin; filtered in place.
    """
    last = np.uint64(len(sieve) - 1)

    # No branch: a place that is not kept is overwritten by the next one. `size <= k`, so no place
    # is overwritten before it is read.
    size = 0
    for k in range(len(places)):
        places[size] = places[k]
        size += int(sieve[mix(key_at(stream, places[k])) & last] >= min_count)
    return size


@kernel
def count_pairs(
    stream: Array,
    places: Array,
    keys: Array,
    numbers: Array,
    counts: Array,
    state: Array,
    out: Array,
) -> None:
    """Count pairs, and number them in order of first appearance, until the table is half full.

    Args:
        stream: int32 `[P + 1]`.
        places: int32 `[M]`, places at which pairs begin.
        keys: uint64 `[2**n]`, the table; changed.
        numbers: int32 `[2**n]`, number of each slot's pair; changed.
        counts: int64 `[2**n / 2]`, number of occurrences of each pair; changed.
        state: int64 `[2]`, index into `places` at which to resume, and number of pairs in the
            table; changed. The caller enlarges the table and calls again if places are left.
        out: int32 `[P]`, written at these places: the number of the pair.
    """
    k = state[0]
    known = state[1]
    while k < len(places) and known < len(counts):
        key = key_at(stream, places[k])
        place = find_key(keys, key)
        if numbers[place] < 0:
            keys[place] = key
            numbers[place] = known
            known += 1

        number = numbers[place]
        counts[number] += 1
        out[places[k]] = number
        k += 1

    state[0] = k
    state[1] = known


@kernel
def list_keys(keys: Array, numbers: Array, out: Array) -> None:
    """List the keys of a table by number.

    Args:
        keys: uint64 `[2**n]`, the table.
        numbers: int32 `[2**n]`, number of each slot's pair.
        out: uint64 `[K]`, written.
    """
    for place in range(len(keys)):
        if numbers[place] >= 0:
            out[numbers[place]] = keys[place]


@kernel
def find_pairs(stream: Array, places: Array, keys: Array, numbers: Array, out: Array) -> None:
    """Look up the numbers of pairs in a table.

    Args:
        stream: int32 `[P + 1]`.
        places: int32 `[M]`, places at which pairs begin.
        keys: uint64 `[2**n]`, the table.
        numbers: int32 `[2**n]`, number of each slot's pair, -1 for empty slots.
        out: int32 `[P]`, written at these places: the number of the pair, or -1.
    """
    for k in range(len(places)):
        out[places[k]] = numbers[find_key(keys, key_at(stream, places[k]))]


@kernel
def lower_needs(stream: Array, n: int, listed: Array, needs: Array) -> None:
    """Find the size of the smallest list whose n-grams cover each word.

    Args:
        stream: int32 `[P]`, stream of n-grams.
        n: Length of the n-grams, in words.
        listed: int64 `[G]`, size of the smallest list that contains each n-gram.
        needs: int64, at least `[P + n - 1]`, lowered to the minimum `listed` of the n-grams that
            contain each word.
    """
    for p in range(len(stream)):
        if stream[p] < 0:
            continue
        size = listed[stream[p]]
        for q in range(p, p + n):
            needs[q] = min(needs[q], size)


@kernel
def add_needs(words: Array, sizes: Array, needs: Array, out: Array) -> None:
    """Count tokens by the size of the smallest list that covers them.

    Args:
        words: int32 `[P]`, word at each place, -1 for none.
        sizes: int64 `[W]`, number of tokens of each word.
        needs: int64, at least `[P]`, from `lower_needs`. For words that no list covers, the index
            of the last item of `out`.
        out: int64, increased: number of tokens by size of the list.
    """
    for p in range(len(words)):
        if words[p] >= 0:
            out[needs[p]] += sizes[words[p]]
