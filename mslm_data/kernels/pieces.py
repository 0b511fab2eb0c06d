"""Find the stretches of a line that are tokenised at once, and lay out the pieces they become."""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, inlined, kernel


@inlined
def is_space(character: int) -> bool:
    """Return whether a code point is white space for BERT's normaliser.

    U+001C to U+001F and U+0085 are not, although Python's `str.isspace` has them.
    """
    if character <= 0x20:
        return (character == 0x20) | (character == 0x0A) | (character == 0x09) | (character == 0x0D)
    return (
        (character == 0xA0)
        | (character == 0x1680)
        | ((character >= 0x2000) & (character <= 0x200A))
        | (character == 0x2028)
        | (character == 0x2029)
        | (character == 0x202F)
        | (character == 0x205F)
        | (character == 0x3000)
    )


@kernel
def find_stretches(
    chars: Array, sentences: Array, given: Array, words: Array, bounds: Array, counts: Array
) -> None:
    """Find the stretches of each sentence that are tokenised at once.

    These are the sentence's words where the source gives words, else what stands between white
    space.

    Args:
        chars: uint32 `[C]`, code points.
        sentences: int64 `[N, 2]`, half open, in characters; rising, not overlapping.
        given: bool `[N]`, whether a sentence's words are given.
        words: int64 `[G, 2]`, these words, rising.
        bounds: int64 `[., 2]`, written: the stretches, rising, with room for all of them.
        counts: int64 `[N]`, written: stretches of each sentence.
    """
    w = 0
    g = 0
    for i in range(len(sentences)):
        start, end = sentences[i, 0], sentences[i, 1]
        first = w
        if given[i]:
            # Words between two sentences are in neither.
            while g < len(words) and words[g, 0] < start:
                g += 1
            while g < len(words) and words[g, 0] < end:
                bounds[w, 0] = words[g, 0]
                bounds[w, 1] = words[g, 1]
                w += 1
                g += 1
        else:
            inside = False
            for c in range(start, end):
                # A stretch begins or ends here: column 0 or 1 of its bounds.
                if is_space(chars[c]) == inside:
                    bounds[w, 1 if inside else 0] = c
                    w += inside
                    inside = not inside
            if inside:
                bounds[w, 1] = end
                w += 1
        counts[i] = w - first


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
    """Lay out the pieces of stretches as tokens.

    Args:
        counts: int64 `[N]`, stretches of each sentence.
        given: bool `[N]`, whether each stretch of a sentence is one word, as the source gives it.
        rows: int64 `[W]`, each stretch's row in the table of words.
        bounds: int64 `[W, 2]`, its characters.
        offsets: int64 `[R + 1]`, pieces of each row of the table.
        pieces: int32 `[P, 4]`: id, first character within the stretch, character after the last,
            and number of the word within a stretch of running text.
        tokens: int64 `[4, T]`, written: id, word counted over all sentences, first character and
            character after the last, neither ever falling.
    """
    w = 0
    t = 0
    word = 0  # words before this stretch
    low = np.int64(0)
    high = np.int64(0)
    for i in range(len(counts)):
        for _ in range(counts[i]):
            words_in = int(given[i])
            for p in range(offsets[rows[w]], offsets[rows[w] + 1]):
                number = 0 if given[i] else pieces[p, 3]

                # A tokenizer's pieces may overlap or step back; tokens never do.
                low = max(low, bounds[w, 0] + pieces[p, 1])
                high = max(high, bounds[w, 0] + pieces[p, 2])

                tokens[0, t] = pieces[p, 0]
                tokens[1, t] = word + number
                tokens[2, t] = low
                tokens[3, t] = high
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
    lead = len(prefix)
    for i in range(len(cuts)):
        begin = offsets[i] + lead
        end = offsets[i + 1] - len(suffix)
        for t in range(lead):
            out[0, offsets[i] + t] = prefix[t]
            out[1, offsets[i] + t] = -1
        for t in range(len(suffix)):
            out[0, end + t] = suffix[t]
            out[1, end + t] = -1

        first = words[cuts[i]]
        row_ids = out[0, begin:end]
        row_words = out[1, begin:end]
        for t in range(end - begin):
            row_ids[t] = ids[cuts[i] + t]
            row_words[t] = words[cuts[i] + t] - first
