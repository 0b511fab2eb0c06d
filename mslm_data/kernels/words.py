"""Finds words on a line of characters, looks them up by their characters, and lays out their pieces."""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel


@kernel
def is_space(character: int) -> bool:
    """Say whether a code point is white space as BERT's normaliser has it: U+001C to U+001F and U+0085 are not."""
    if character <= 0x20:
        return character in (0x20, 0x0A, 0x09, 0x0D)
    return 0x2000 <= character <= 0x200A or character in (
        0xA0,
        0x1680,
        0x2028,
        0x2029,
        0x202F,
        0x205F,
        0x3000,
    )


@kernel
def find_words(
    chars: Array, sentences: Array, given: Array, words: Array, bounds: Array, counts: Array
) -> None:
    """Give what of each sentence is tokenised at once: its given words, or its stretches between white space.

    Args:
        chars: uint32 `[C]`, code points.
        sentences: int64 `[N, 2]`, half open, in characters; rising, not overlapping.
        given: bool `[N]`, whether a sentence's words are given.
        words: int64 `[G, 2]`, these words, rising.
        bounds: int64 `[., 2]`, written: what was found, in order.
        counts: int64 `[N]`, written: how many of them in each sentence.
    """
    w, g = 0, 0
    for i in range(len(sentences)):
        start, end = sentences[i, 0], sentences[i, 1]
        before = w
        if given[i]:
            while g < len(words) and words[g, 0] < start:
                g += 1
            while g < len(words) and words[g, 0] < end:
                bounds[w, 0], bounds[w, 1] = words[g, 0], words[g, 1]
                w, g = w + 1, g + 1
        else:
            inside = False
            for c in range(start, end):
                if is_space(chars[c]) == inside:  # a stretch begins or ends here
                    bounds[w, int(inside)] = c
                    w += int(inside)
                    inside = not inside
            if inside:
                bounds[w, 1] = end
                w += 1
        counts[i] = w - before


@kernel
def hash_word(word: Array) -> np.uint64:
    """Return a hash of code points: FNV-1a, its high bits folded into the low."""
    state = np.uint64(0xCBF29CE484222325)
    for c in range(len(word)):
        state = (state ^ np.uint64(word[c])) * np.uint64(0x100000001B3)
    return state ^ (state >> np.uint64(32))


@kernel
def is_same(text: Array, start: int, stop: int, other: Array, first: int, last: int) -> bool:
    """Say whether `text[start:stop]` and `other[first:last]` are equal; a slice costs more than the comparison."""
    if stop - start != last - first:
        return False
    for c in range(stop - start):  # noqa: SIM110 - numba compiles no generator
        if text[start + c] != other[first + c]:
            return False
    return True


@kernel
def look_up(
    chars: Array, words: Array, slots: Array, known: Array, bounds: Array, hashes: Array, out: Array
) -> None:
    """Find words in a hash table with linear probing.

    Args:
        chars: uint32 `[C]`, code points.
        words: int64 `[W, 2]`, each word's characters, half open.
        slots: int64 `[2**k]`, a known word's number, or -1; at least one is -1.
        known: uint32 `[K]`, characters of the known words.
        bounds: int64 `[N, 2]`, each known word's characters in `known`, half open.
        hashes: uint64 `[N]`, theirs: compared first, which halves the time.
        out: int64 `[W]`, written: each word's number, or -1.
    """
    last = np.uint64(len(slots) - 1)
    for w in range(len(words)):
        start, stop = words[w, 0], words[w, 1]
        state = hash_word(chars[start:stop])
        s = state & last
        n = slots[s]
        while n >= 0 and not (
            hashes[n] == state and is_same(chars, start, stop, known, bounds[n, 0], bounds[n, 1])
        ):
            s = (s + np.uint64(1)) & last
            n = slots[s]
        out[w] = n


@kernel
def enter(chars: Array, words: Array, first: int, slots: Array, hashes: Array, out: Array) -> None:
    """Put words into a hash table, each as its number here; of equal words the first.

    Args:
        chars: uint32 `[C]`, code points.
        words: int64 `[W, 2]`, each word's characters, half open.
        first: The first word to put in; those before are in it, or none is.
        slots: int64 `[2**k]`, more than there are words; see `look_up`; written.
        hashes: uint64 `[W]`, written from `first` on.
        out: int64 `[W]`, written from `first` on: the number of the first word that equals each.
    """
    last = np.uint64(len(slots) - 1)
    for w in range(first, len(words)):
        start, stop = words[w, 0], words[w, 1]
        hashes[w] = hash_word(chars[start:stop])
        s = hashes[w] & last
        n = slots[s]
        while n >= 0 and not (
            hashes[n] == hashes[w] and is_same(chars, start, stop, chars, words[n, 0], words[n, 1])
        ):
            s = (s + np.uint64(1)) & last
            n = slots[s]
        if n < 0:
            n = slots[s] = w
        out[w] = n


@kernel
def count_pieces(counts: Array, rows: Array, offsets: Array, out: Array) -> None:
    """Count the pieces of sentences.

    Args:
        counts: int64 `[N]`, words of each sentence.
        rows: int64 `[W]`, each word's row in a table of words.
        offsets: int64 `[R + 1]`, pieces of each row of the table.
        out: int64 `[N + 1]`, written: the offsets of the sentences' pieces.
    """
    w, total = 0, 0
    out[0] = 0
    for i in range(len(counts)):
        for _ in range(counts[i]):
            total += offsets[rows[w] + 1] - offsets[rows[w]]
            w += 1
        out[i + 1] = total


@kernel
def lay_pieces(
    counts: Array,
    given: Array,
    rows: Array,
    bounds: Array,
    offsets: Array,
    pieces: Array,
    tokens: Array,
) -> None:
    """Lay out the pieces of words as tokens.

    Args:
        counts: int64 `[N]`, words of each sentence.
        given: bool `[N]`, whether each of them is one word by the source's word.
        rows: int64 `[W]`, each word's row in a table of words.
        bounds: int64 `[W, 2]`, its characters.
        offsets: int64 `[R + 1]`, pieces of each row of the table.
        pieces: int32 `[P, 4]`: id, first character within the word, character after the last, number of the word
            within a stretch of running text.
        tokens: int64 `[4, T]`, written: id, word counted over all sentences, first character and character after the
            last, neither ever falling.
    """
    w, t, word = 0, 0, 0
    low, high = np.int64(0), np.int64(0)
    for i in range(len(counts)):
        for _ in range(counts[i]):
            words_in = int(given[i])
            for p in range(offsets[rows[w]], offsets[rows[w] + 1]):
                number = 0 if given[i] else pieces[p, 3]
                low, high = (
                    max(low, bounds[w, 0] + pieces[p, 1]),
                    max(high, bounds[w, 0] + pieces[p, 2]),
                )
                tokens[0, t], tokens[1, t], tokens[2, t], tokens[3, t] = (
                    pieces[p, 0],
                    word + number,
                    low,
                    high,
                )
                words_in = number + 1
                t += 1
            word += words_in
            w += 1


@kernel
def wrap_rows(
    cuts: Array, ids: Array, words: Array, prefix: Array, suffix: Array, offsets: Array, out: Array
) -> None:
    """Put special tokens around rows of tokens, and count words within the row.

    Args:
        cuts: int64 `[N]`, each row's first token.
        ids: int64 `[T]`.
        words: int64 `[T]`, each token's word, counted over all rows.
        prefix: int64 `[.]`, special ids before a row.
        suffix: int64 `[.]`, special ids after it.
        offsets: int64 `[N + 1]` of the rows with their special tokens.
        out: int32 `[2, offsets[N]]`, written: ids, and words with -1 for special tokens.
    """
    for i in range(len(cuts)):
        row_ids, row_words = (
            out[0, offsets[i] : offsets[i + 1]],
            out[1, offsets[i] : offsets[i + 1]],
        )
        length = len(row_ids) - len(prefix) - len(suffix)
        first = words[cuts[i]]
        row_words[:] = -1
        row_ids[: len(prefix)] = prefix
        row_ids[len(prefix) + length :] = suffix
        for t in range(length):
            row_ids[len(prefix) + t] = ids[cuts[i] + t]
            row_words[len(prefix) + t] = words[cuts[i] + t] - first
