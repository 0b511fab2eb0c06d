"""Lines of columns, as bytes of UTF-8: where words, tags and sentences are, with no object made for any of them."""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.words import hash_word, is_same

TAB, NEWLINE, SPACE = 9, 10, 32
MOST_FIELDS = 5


@kernel
def is_blank(byte: int) -> bool:
    """Say whether a byte, no newline, is one of those that a line without a word may hold: space, TAB, CR, VT, FF."""
    return (byte == SPACE) | ((byte >= TAB) & (byte <= 13))


@kernel
def trim(text: Array, start: int, stop: int) -> tuple[int, int]:
    """Return the range without blanks at its ends; an empty one where it has nothing else."""
    while start < stop and is_blank(text[start]):
        start += 1
    while stop > start and is_blank(text[stop - 1]):
        stop -= 1
    return start, stop


@kernel
def split_spaces(text: Array, start: int, stop: int, fields: Array) -> int:
    """Find the fields between runs of spaces; a space at the line's beginning has an empty field before it.

    Args:
        text: uint8.
        start: The line's first byte; it is not blank as a whole.
        stop: Byte after its last.
        fields: int64 `[MOST_FIELDS + 1, 2]`, written: their bounds; the last row is any of those that are too many.

    Returns:
        How many there are.
    """
    count, begin = 0, start
    for c in range(start, stop + 1):
        if c == stop or text[c] == SPACE:
            if c > begin or c == start:
                row = min(count, MOST_FIELDS)
                fields[row, 0], fields[row, 1] = begin, c
                count += 1
            begin = c + 1
    return count


@kernel
def number_tag(text: Array, start: int, stop: int, names: Array, slots: Array, known: int) -> int:
    """Return the number of a tag, a new one for one that was not met; -1 where there is no room for it.

    Args:
        text: uint8.
        start: The tag's first byte.
        stop: Byte after its last.
        names: int64 `[M, 2]`: where each distinct tag stands first; a new one is written.
        slots: int64 `[2**k]`, more than M: a hash table of tags' numbers, -1 where there is none.
        known: Tags met.
    """
    last = np.uint64(len(slots) - 1)
    s = hash_word(text[start:stop]) & last
    while slots[s] >= 0 and not is_same(
        text, start, stop, text, names[slots[s], 0], names[slots[s], 1]
    ):
        s = (s + np.uint64(1)) & last
    if slots[s] < 0 and known < len(names):
        slots[s], names[known, 0], names[known, 1] = known, start, stop
    return int(slots[s])


@kernel
def scan_lines(
    text: Array,
    columns: Array,
    names: Array,
    slots: Array,
    laid: Array,
    words: Array,
    sentences: Array,
    sizes: Array,
) -> None:
    """Take lines apart: a word and a tag from each, a sentence's end at each blank one.

    Args:
        text: uint8, UTF-8, ends with a newline.
        columns: int64 `[2]`: which fields, from 0, are the word and the tag.
        names: int64 `[M, 2]`, written: where each distinct tag stands first in `text`.
        slots: int64 `[2**k]`, more than M, all -1; changed.
        laid: uint8, as long as `text`, written: the words, a space after each, but a newline between sentences.
        words: integers `[lines, 3]`, written: of each line that is not blank, the word's first character in `laid`, the
            one after its last, and the number of its tag, -1 where the line is broken or `names` is full.
        sentences: integers `[lines + 1, 2]`, written: of each sentence the first word and line; then the ends.
        sizes: int64 `[4]`, written: words, sentences, bytes laid, and distinct tags.
    """
    fields, word, tag = np.zeros((MOST_FIELDS + 1, 2), np.int64), columns[0], columns[1]
    w = s = line = tabs = place = at = known = 0
    number, inside = -1, False
    for c in range(len(text)):
        if text[c] > NEWLINE:  # nearly all
            continue
        if text[c] == TAB:
            tabs += 1
            row = min(tabs, MOST_FIELDS)
            fields[row - 1, 1], fields[row, 0] = c, c + 1
        if text[c] != NEWLINE:
            continue
        begin, end = trim(text, fields[0, 0], c)
        if begin < end:
            if not inside:
                sentences[s, 0], sentences[s, 1] = w, line
                laid[max(place - 1, 0)] = NEWLINE
                s += 1
            words[w, 0], words[w, 2] = at, -1
            fields[min(tabs, MOST_FIELDS), 1] = c
            count = tabs + 1 if tabs > 0 else split_spaces(text, fields[0, 0], c, fields)
            if 2 <= count <= MOST_FIELDS and count > word and count > tag:
                first, last = trim(text, fields[word, 0], fields[word, 1])
                start, stop = trim(text, fields[tag, 0], fields[tag, 1])
                if first < last and start < stop:
                    for i in range(fields[word, 0], fields[word, 1]):
                        laid[place] = text[i]
                        place += 1
                        at += int((text[i] & 0xC0) != 0x80)  # the first byte of a character
                    if number < 0 or not is_same(
                        text, start, stop, text, names[number, 0], names[number, 1]
                    ):
                        number = number_tag(text, start, stop, names, slots, known)
                        known = max(known, number + 1)
                    words[w, 2] = number
            words[w, 1], laid[place] = at, SPACE
            w, place, at = w + 1, place + 1, at + 1
        inside = begin < end
        fields[0, 0], line, tabs = c + 1, line + 1, 0
    sentences[s, 0], sentences[s, 1] = w, line
    sizes[0], sizes[1], sizes[2], sizes[3] = w, s, place, known
