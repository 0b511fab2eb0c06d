"""Make sentences of the places where they begin."""

from __future__ import annotations

from mslm_data.kernels._jit import Array, inlined, kernel
from mslm_data.kernels.pieces import is_space


@kernel
def is_white(character: int) -> bool:
    """Return whether a code point is white space for Python's `str.isspace`.

    This is more than BERT's normaliser takes for white space; see `is_space`.
    """
    if character <= 0x20:
        return 0x09 <= character <= 0x0D or character >= 0x1C
    return character == 0x85 or is_space(character)


@inlined
def trim_white(chars: Array, start: int, end: int) -> tuple[int, int]:
    """Return a range without white space at its ends; an empty one where it holds nothing else."""
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
    """Cut documents into sentences that hold all of their text, and cut no mention and no word.

    All positions are places on one line of characters. White space at the ends of a sentence is in
    no sentence. Where a document has words, its sentences begin and end with words, as these may be
    white space.

    Args:
        chars: uint32 `[C]`, code points; read for documents without words only.
        documents: int64 `[D, 2]`, half open, rising.
        begin_offsets: int64 `[D + 1]`, the beginnings of each document.
        begins: int64 `[B]`, where sentences begin, rising within a document. The first of a
            document is not looked at: its first sentence begins with its text.
        mentions: int64 `[S, 2]`, half open, of all documents, rising and not overlapping.
        has_words: bool `[D]`, whether a document has words.
        words: int64 `[W, 2]`, half open, of all documents, rising.
        out: int64 `[B + D, 2]`, written: the sentences.
        counts: int64 `[D]`, written: the sentences of each document.
    """
    n = 0  # sentences written
    m = 0  # the first mention that ends past the place looked at
    w = 0  # the first word that begins at or past it
    for d in range(len(documents)):
        before = n
        start = documents[d, 0]
        while w < len(words) and words[w, 0] < start:
            w += 1
        first_word = w  # of the sentence that begins at `start`

        # The last round of a document is for its end, which always closes a sentence.
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
