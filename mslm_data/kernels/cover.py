"""Cut documents into sentences at given beginnings."""

from __future__ import annotations

from mslm_data.kernels._jit import Array, inlined, kernel
from mslm_data.kernels.pieces import is_space


@kernel
def is_white(character: int) -> bool:
    """Return whether a code point is white space for Python's `str.isspace`.

    BERT's normalizer knows fewer kinds of white space, see `is_space`.
    """
    if character <= 0x20:
        return 0x09 <= character <= 0x0D or character >= 0x1C
    return character == 0x85 or is_space(character)


@inlined
def trim_white(chars: Array, start: int, end: int) -> tuple[int, int]:
    """Return a range without white space at its ends; an empty range if there is nothing else."""
    while start < end and is_white(chars[start]):
        start += 1
    while end > start and is_white(chars[end - 1]):
        end -= 1
    return start, end


@kernel
def cover_documents(
    chars: Array,
    documents: Array,
    begin_offsets: Array,
    begins: Array,
    mentions: Array,
    has_words: Array,
    words: Array,
    out: Array,
    counts: Array,
) -> None:
    """Cut documents into sentences that cover all text, without cutting a mention or a word.

    A beginning within a mention or word is ignored. Sentences do not begin or end with white space.
    If words are given, sentences begin and end with words, since a word may be white space.

    All positions are characters on the common line of all documents.

    Args:
        chars: uint32 `[C]`, code points. Only read for documents without words.
        documents: int64 `[D, 2]`, range of each document, ascending.
        begin_offsets: int64 `[D + 1]`, offsets of each document's items in `begins`.
        begins: int64 `[B]`, beginnings of sentences, ascending within a document. The first of each
            document is ignored, since the first sentence begins with the document.
        mentions: int64 `[S, 2]`, ranges of all mentions, ascending, not overlapping.
        has_words: bool `[D]`, whether the words of a document are given.
        words: int64 `[W, 2]`, ranges of all words, ascending.
        out: int64 `[B + D, 2]`, written from the top: range of each sentence.
        counts: int64 `[D]`, written: number of sentences of each document.
    """
    n = 0  # number of sentences
    m = 0  # first mention that ends after `place`
    w = 0  # first word that begins at or after `place`
    for d in range(len(documents)):
        before = n
        start = documents[d, 0]
        while w < len(words) and words[w, 0] < start:
            w += 1
        first_word = w  # first word of the sentence that begins at `start`

        # The last iteration is for the end of the document, which always ends a sentence.
        first = begin_offsets[d] + 1
        stop = max(begin_offsets[d + 1], first)
        for b in range(first, stop + 1):
            place = documents[d, 1] if b == stop else begins[b]
            while w < len(words) and words[w, 0] < place:
                w += 1
            while m < len(mentions) and mentions[m, 1] <= place:
                m += 1

            in_mention = m < len(mentions) and mentions[m, 0] < place
            in_word = has_words[d] and w > 0 and words[w - 1, 1] > place
            if b < stop and (in_mention or in_word):
                continue

            # Write the sentence `[start, place)`, trimmed to its text.
            left, right = start, start
            if not has_words[d]:
                left, right = trim_white(chars, start, place)
            elif first_word < w:
                left = words[first_word, 0]
                right = words[w - 1, 1]

            if left < right:
                out[n, 0] = left
                out[n, 1] = right
                n += 1
            start = place
            first_word = w
        counts[d] = n - before
