"""Count n-grams as pairs: an n-gram is the two (n - 1)-grams at its first and at its second word.

A stream is int32 `[P]`: at each place the number of the gram that begins there, or -1 where none
does, as at the end of a sentence. The key of a pair is `left << 32 | right`.

A table of pairs is a table of keys (`hashing`) with `numbers` beside it, int32 `[2**n]`: the number
of each key, -1 where there is none.

Most pairs of a corpus are rare. So a first pass counts pairs by their hash alone, in a sieve:
uint8 `[2**k]`, which counts up to a minimum and never counts less than there are.
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.hashing import find_key, pair
from mslm_data.kernels.rng import mix
from mslm_data.kernels.rows import begins_word, longest_row


@kernel
def key_at(stream: Array, p: int) -> np.uint64:
    """Return the key of the pair at place p."""
    return pair(stream[p], stream[p + 1])


@kernel
def place_pairs(pairs: Array, keys: Array, numbers: Array) -> None:
    """Put pairs, no two of them equal, into an empty table, and number them in this order.

    Args:
        pairs: uint64 `[K]`, their keys.
        keys: uint64 `[2**n]`, all `EMPTY`; written.
        numbers: int32 `[2**n]`, written.
    """
    for k in range(len(pairs)):
        place = find_key(keys, pairs[k])
        keys[place] = pairs[k]
        numbers[place] = k


@kernel
def find_live(stream: Array, places: Array) -> int:
    """Find the places where a pair begins, and return how many there are.

    Args:
        stream: int32 `[P + 1]`.
        places: int32 `[P]` or longer. Written up to the returned number; the item after that may
            hold scratch data.
    """
    # No branch: a place where no pair begins is overwritten by the next place.
    size = 0
    for p in range(len(stream) - 1):
        places[size] = p
        size += int((stream[p] >= 0) & (stream[p + 1] >= 0))
    return size


@kernel
def fill_sieve(stream: Array, places: Array, least: int, sieve: Array) -> None:
    """Count each pair together with all pairs of the same hash.

    Args:
        stream: int32 `[P + 1]`.
        places: int32 `[M]`, where pairs begin.
        least: In `[1, 255]`; the sieve counts up to this.
        sieve: uint8 `[2**k]`; added to.
    """
    last = np.uint64(len(sieve) - 1)
    for k in range(len(places)):
        place = mix(key_at(stream, places[k])) & last
        sieve[place] += np.uint8(sieve[place] < least)


@kernel
def keep_frequent(stream: Array, least: int, sieve: Array, places: Array) -> int:
    """Keep the places whose pairs may occur often enough, and return how many there are.

    Args:
        stream: int32 `[P + 1]`.
        least: What the sieve counted up to.
        sieve: uint8 `[2**k]`, filled by `fill_sieve`.
        places: int32 `[M]`, where pairs begin; written up to the returned number.
    """
    last = np.uint64(len(sieve) - 1)

    # No branch: a place that is not kept is overwritten by the next one. `size` never passes k, so
    # no place is overwritten before it is read.
    size = 0
    for k in range(len(places)):
        places[size] = places[k]
        size += int(sieve[mix(key_at(stream, places[k])) & last] >= least)
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
    """Count pairs and number them in order of first appearance, until the table is half full.

    Args:
        stream: int32 `[P + 1]`.
        places: int32 `[M]`, where pairs begin.
        keys: uint64 `[2**n]`, written.
        numbers: int32 `[2**n]`, written.
        counts: int64 `[2**n / 2]`: how often each numbered pair occurs; added to.
        state: int64 `[2]`: index into `places` at which to continue, and number of pairs in the
            table; changed.
        out: int32 `[P]`: the number of the pair that begins at each place; elsewhere as it was.
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
    """List the keys of a table in the order of their numbers.

    Args:
        keys: uint64 `[2**n]`.
        numbers: int32 `[2**n]`.
        out: uint64 `[K]`, written.
    """
    for place in range(len(keys)):
        if numbers[place] >= 0:
            out[numbers[place]] = keys[place]


@kernel
def rename(names: Array, stream: Array, out: Array) -> None:
    """Replace the numbers of a stream.

    Args:
        names: int32 `[G + 1]`: the new number of each gram, -1 for none. The last item must be -1.
        stream: int32 `[P]`.
        out: int32 `[P]`, written; may be `stream`.
    """
    # A place without a gram, -1, takes the last item of `names`, which is -1: no branch.
    for p in range(len(stream)):
        out[p] = names[stream[p]]


@kernel
def find_pairs(stream: Array, places: Array, keys: Array, numbers: Array, out: Array) -> None:
    """Write the number of each pair that a table has.

    Args:
        stream: int32 `[P + 1]`.
        places: int32 `[M]`, where pairs begin.
        keys: uint64 `[2**n]`.
        numbers: int32 `[2**n]`, -1 where there is no key.
        out: int32 `[P]`: the number of the pair that begins at each of the places, -1 where the
            table does not have it; elsewhere as it was.
    """
    for k in range(len(places)):
        out[places[k]] = numbers[find_key(keys, key_at(stream, places[k]))]


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
    """Mark the words that lie in a mention, at least in part.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        word_ids: int32 `[T]`, -1 on special tokens.
        words: int64 `[N + 1]` of the words.
        spans: int64 `[N + 1]` of the mentions.
        starts: int32 `[S]`: a mention's first token, counted within its row; rising, not
            overlapping.
        ends: int32 `[S]`, half open.
        out: uint8 `[W]`, all 0; written: 1 at a mention's first word, 2 at its other words. A word
            that two mentions share belongs to the first.
    """
    word_of = np.empty(longest_row(offsets), np.int64)
    for i in range(len(offsets) - 1):
        if spans[i] == spans[i + 1]:
            continue
        row = word_ids[offsets[i] : offsets[i + 1]]

        # Number the words as far as the last mention reaches. A special token has the number of the
        # word before it, and is passed over below.
        w = words[i] - 1
        before = -1
        for t in range(ends[spans[i + 1] - 1]):
            w += begins_word(row[t], before)
            word_of[t] = w
            before = row[t]

        for s in range(spans[i], spans[i + 1]):
            mark = 1
            for t in range(starts[s], ends[s]):
                if row[t] >= 0 and out[word_of[t]] == 0:
                    out[word_of[t]] = mark
                    mark = 2


@kernel
def match_mentions(stream: Array, n: int, marks: Array, out: Array) -> None:
    """Find the n-grams that are a mention somewhere, or lie within one.

    Args:
        stream: int32 `[P]`, of n-grams.
        n: Number of their words.
        marks: uint8 `[P]`, as `mark_mentions` writes them.
        out: uint8 `[G]`, raised: 1 where an occurrence lies within a mention, 2 where an occurrence
            is a whole mention.
    """
    for p in range(len(stream) - n + 1):
        gram = stream[p]
        if gram < 0 or marks[p] == 0 or out[gram] == 2:
            continue

        # Words after the first must go on with the mention of the word before them: mark 2.
        q = p + 1
        while q < p + n and marks[q] == 2:
            q += 1
        if q == p + n:
            ends_here = q == len(marks) or marks[q] != 2
            whole = marks[p] == 1 and ends_here
            out[gram] = 2 if whole else 1


@kernel
def lower_needs(stream: Array, n: int, listed: Array, needs: Array) -> None:
    """Note at each word the size of the smallest list that has an n-gram over it.

    Args:
        stream: int32 `[P]`, of n-grams.
        n: Number of their words.
        listed: int64 `[G]`: the size of the smallest list that has a gram.
        needs: int64 `[P + n - 1]` or longer, lowered to the smallest `listed` of the grams over
            each place.
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
        words: int32 `[P]`: the word at each place, -1 for none.
        sizes: int64 `[W]`: number of tokens of each word.
        needs: int64 `[P]` or longer, as `lower_needs` writes them. Words that no list covers need
            the last item of `out`.
        out: int64; tokens are added at the size that they need.
    """
    for p in range(len(words)):
        if words[p] >= 0:
            out[needs[p]] += sizes[words[p]]
