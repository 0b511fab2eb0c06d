"""Counts n-grams as pairs: an n-gram is the (n - 1)-grams that begin at its first and at its second word.

A stream is int32 `[P]`: at each place the number of the gram that begins there, -1 where none does, as at the end of a
sentence. A pair's key is `left << 32 | right`. A table of pairs is two arrays, `keys` uint64 `[2**n]` and `numbers`
int32 `[2**n]`, -1 where it is empty; it is never more than half full. Most pairs of a corpus are rare, so a first pass
counts pairs by their hash alone, in a sieve: uint8 `[2**k]`, which counts up to a least number, and never less than
there are.
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.draws import mix


@kernel
def key_of(stream: Array, p: int) -> np.uint64:
    """Return the key of the pair at place p."""
    return (np.uint64(stream[p]) << np.uint64(32)) | np.uint64(stream[p + 1])


@kernel
def place_of(keys: Array, numbers: Array, key: np.uint64) -> np.uint64:
    """Return the place of a key in a table, or the empty one where it belongs."""
    last = np.uint64(len(keys) - 1)
    place = mix(key) & last
    while numbers[place] >= 0 and keys[place] != key:
        place = (place + np.uint64(1)) & last
    return place


@kernel
def place_pairs(pairs: Array, keys: Array, numbers: Array) -> None:
    """Put pairs, no two of them equal, into an empty table, and number them.

    Args:
        pairs: uint64 `[K]`, their keys.
        keys: uint64 `[2**n]`, see above; written.
        numbers: int32 `[2**n]`, see above; written.
    """
    for k in range(len(pairs)):
        place = place_of(keys, numbers, pairs[k])
        keys[place], numbers[place] = pairs[k], k


@kernel
def find_live(stream: Array, places: Array) -> int:
    """Find the places where a pair begins, and return how many there are.

    Args:
        stream: int32 `[P + 1]`, see above.
        places: int32 `[P]` or longer; so many are written, and the next is of no use.
    """
    size = 0
    for p in range(len(stream) - 1):  # no branch: a place that is none is overwritten by the next
        places[size] = p
        size += int((stream[p] >= 0) & (stream[p + 1] >= 0))
    return size


@kernel
def fill_sieve(stream: Array, places: Array, least: int, sieve: Array) -> None:
    """Count pairs together with all others whose hash is the same.

    Args:
        stream: int32 `[P + 1]`, see above.
        places: int32 `[M]`, where pairs begin.
        least: In `[1, 255]`; so far is counted.
        sieve: uint8 `[2**k]`; added to.
    """
    last = np.uint64(len(sieve) - 1)
    for k in range(len(places)):
        place = mix(key_of(stream, places[k])) & last
        sieve[place] += np.uint8(sieve[place] < least)


@kernel
def keep_frequent(stream: Array, least: int, sieve: Array, places: Array) -> int:
    """Keep the places whose pairs may occur often enough, by a sieve, and return how many there are.

    Args:
        stream: int32 `[P + 1]`, see above.
        least: What the sieve counted up to.
        sieve: uint8 `[2**k]`.
        places: int32 `[M]`, where pairs begin; so many are written.
    """
    last, size = np.uint64(len(sieve) - 1), 0
    for k in range(len(places)):
        places[size] = places[k]
        size += int(sieve[mix(key_of(stream, places[k])) & last] >= least)
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
    """Count pairs, and number them in order of first appearance, until they end or the table is half full.

    Args:
        stream: int32 `[P + 1]`, see above.
        places: int32 `[M]`, where pairs begin.
        keys: uint64 `[2**n]`, see above; written.
        numbers: int32 `[2**n]`, see above; written.
        counts: int64 `[2**n / 2]`: how often each numbered pair occurs; added to.
        state: int64 `[2]`: which of the places to go on at, and how many pairs the table has; written.
        out: int32 `[P]`: the number of the pair that begins there; elsewhere as it was.
    """
    k, known = state[0], state[1]
    while k < len(places) and known < len(counts):
        key = key_of(stream, places[k])
        place = place_of(keys, numbers, key)
        if numbers[place] < 0:
            keys[place], numbers[place] = key, known
            known += 1
        number = numbers[place]
        counts[number] += 1
        out[places[k]] = number
        k += 1
    state[0], state[1] = k, known


@kernel
def list_keys(keys: Array, numbers: Array, out: Array) -> None:
    """List the keys of a table in the order of their numbers.

    Args:
        keys: uint64 `[2**n]`, see above.
        numbers: int32 `[2**n]`, see above.
        out: uint64 `[K]`, written.
    """
    for place in range(len(keys)):
        if numbers[place] >= 0:
            out[numbers[place]] = keys[place]


@kernel
def rename(names: Array, stream: Array, out: Array) -> None:
    """Replace numbers in a stream.

    Args:
        names: int32 `[G + 1]`, the new number of each, -1 for none; the last is -1, and so -1 stays, without a branch.
        stream: int32 `[P]`, -1 for none.
        out: int32 `[P]`, written.
    """
    for p in range(len(stream)):
        out[p] = names[stream[p]]


@kernel
def find_pairs(stream: Array, places: Array, keys: Array, numbers: Array, out: Array) -> None:
    """Write the number of each pair that a table has.

    Args:
        stream: int32 `[P + 1]`, see above.
        places: int32 `[M]`, where pairs begin.
        keys: uint64 `[2**n]`, see above.
        numbers: int32 `[2**n]`, see above.
        out: int32 `[P]`: the number of the pair that begins there, -1 where the table has it not; elsewhere as it was.
    """
    for k in range(len(places)):
        out[places[k]] = numbers[place_of(keys, numbers, key_of(stream, places[k]))]


@kernel
def mark_mentions(
    offsets: Array,
    word_ids: Array,
    words: Array,
    spans: Array,
    starts: Array,
    ends: Array,
    out: Array,
) -> None:
    """Mark the words that lie, at least in part, in a mention.

    Args:
        offsets: int64 `[N + 1]`.
        word_ids: int32 `[T]`, -1 on special tokens.
        words: int64 `[N + 1]`, offsets of the words.
        spans: int64 `[N + 1]`, offsets of the mentions.
        starts: int32 `[S]`: a mention's first token, counted within its row; rising, not overlapping.
        ends: int32 `[S]`, half open.
        out: uint8, one for each word of all rows, 0 throughout; written: 1 at a mention's first word, 2 at its others;
            a word of two mentions is the first one's.
    """
    longest = 0
    for i in range(len(offsets) - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    word_of = np.empty(longest, np.int64)
    for i in range(len(offsets) - 1):
        row, w, last = word_ids[offsets[i] : offsets[i + 1]], words[i] - 1, -1
        for t in range(
            ends[spans[i + 1] - 1] if spans[i] < spans[i + 1] else 0
        ):  # as far as there are mentions
            w += int((row[t] >= 0) & (row[t] != last))
            word_of[t] = w
            last = row[t]
        for s in range(spans[i], spans[i + 1]):
            mark = 1
            for t in range(starts[s], ends[s]):
                if row[t] >= 0 and out[word_of[t]] == 0:
                    out[word_of[t]] = mark
                    mark = 2


@kernel
def match_mentions(stream: Array, n: int, marks: Array, out: Array) -> None:
    """Find the grams that are a mention somewhere, or lie within one.

    Args:
        stream: int32 `[P]`, of n-grams.
        n: Their number of words.
        marks: uint8 `[P]`, see `mark_mentions`.
        out: uint8 `[G]`, 0 or written: 1 where an occurrence lies within a mention, 2 where one is a whole mention.
    """
    for p in range(len(stream) - n + 1):
        if stream[p] >= 0 and marks[p] > 0 and out[stream[p]] < 2:
            q = p + 1
            while q < p + n and marks[q] == 2:
                q += 1
            if q == p + n:
                whole = marks[p] == 1 and (q == len(marks) or marks[q] != 2)
                out[stream[p]] = 2 if whole else 1


@kernel
def lower_needs(stream: Array, n: int, listed: Array, needs: Array) -> None:
    """Note at each word the least list that has an n-gram over it.

    Args:
        stream: int32 `[P]`, of n-grams.
        n: Their number of words.
        listed: int64 `[G]`: the size of the least list that has a gram.
        needs: int64 `[P + n - 1]` or longer, lowered to the least `listed` of the grams over each place.
    """
    for p in range(len(stream)):
        if stream[p] >= 0:
            size = listed[stream[p]]
            for q in range(p, p + n):
                needs[q] = min(needs[q], size)


@kernel
def add_needs(words: Array, sizes: Array, needs: Array, out: Array) -> None:
    """Count tokens by the least list that covers them.

    Args:
        words: int32 `[P]`: the word at each place, -1 for none.
        sizes: int64 `[W]`: tokens of each word.
        needs: int64 `[P]` or longer, see `lower_needs`; those that no list covers have the last item of `out`.
        out: int64: added to.
    """
    for p in range(len(words)):
        if words[p] >= 0:
            out[needs[p]] += sizes[words[p]]
