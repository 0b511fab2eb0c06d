"""Find the chunks of text that are tokenized at once, and write their pieces as tokens.

A *stretch* is a word given by the source, or a range of text between white space.
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, inlined, kernel


@inlined
def is_space(character: int) -> bool:
    """Return whether a code point is white space for BERT's normalizer.

    Unlike for Python's `str.isspace`, U+001C to U+001F and U+0085 are not.
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
    """Find the stretches of each sentence: its words if given, otherwise text between white space.

    Args:
        chars: uint32 `[C]`, code points.
        sentences: int64 `[N, 2]`, character range of each sentence, ascending, not overlapping.
        given: bool `[N]`, whether the words of a sentence are given.
        words: int64 `[G, 2]`, character ranges of the given words, ascending.
        bounds: int64 `[., 2]`, written from the top: character ranges of the stretches, ascending.
        counts: int64 `[N]`, written: number of stretches of each sentence.
    """
    w = 0
    g = 0
    for i in range(len(sentences)):
        start, end = sentences[i, 0], sentences[i, 1]
        first = w
        if given[i]:
            # Skip words between two sentences.
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
                # A stretch begins or ends here: write column 0 or 1 of its range.
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
    """Write the pieces of stretches as tokens.

    Args:
        counts: int64 `[N]`, number of stretches of each sentence.
        given: bool `[N]`, whether the stretches of a sentence are given words, one word each.
        rows: int64 `[W]`, row of each stretch in the table of distinct stretches.
        bounds: int64 `[W, 2]`, character range of each stretch.
        offsets: int64 `[R + 1]`, offsets of each row's pieces in the table.
        pieces: int32 `[P, 4]`, pieces of the table: token id, first character within the stretch,
            character after the last, and number of the word within the stretch.
        tokens: int64 `[4, T]`, written: token id, word number over all sentences, first character,
            and character after the last, both nondecreasing.
    """
    w = 0
    t = 0
    word = 0  # number of words before this stretch
    low = np.int64(0)
    high = np.int64(0)
    for i in range(len(counts)):
        for _ in range(counts[i]):
            words_in = int(given[i])
            for p in range(offsets[rows[w]], offsets[rows[w] + 1]):
                number = 0 if given[i] else pieces[p, 3]

                # Pieces of some tokenizers overlap or go back. Ranges of tokens must not.
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
    """Add special tokens to rows, and number words within each row.

    Args:
        cuts: int64 `[N]`, first token of each row.
        ids: int64 `[T]`, token ids.
        words: int64 `[T]`, word number of each token over all rows.
        prefix: int64 `[.]`, special ids before a row.
        suffix: int64 `[.]`, special ids after a row.
        offsets: int64 `[N + 1]`, including special tokens.
        out: int32 `[2, offsets[N]]`, written: token ids, and word ids, -1 on special tokens.
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
