"""Find words, tags and sentences in lines of columns, which are bytes of UTF-8."""

from __future__ import annotations

from mslm_data.kernels._jit import Array, inlined, kernel
from mslm_data.kernels.hashing import find_slot, hash_item, is_same

TAB, NEWLINE, SPACE = 9, 10, 32


@inlined
def is_blank(byte: int) -> bool:
    """Return whether a byte other than a newline may stand in a line without a word.

    These are space, TAB, CR, VT and FF.
    """
    return (byte == SPACE) | ((byte >= TAB) & (byte <= 13))


@kernel
def count_lines(text: Array, out: Array) -> None:
    """Count the lines of a text, those with a word, and the blocks that blank lines divide it into.

    Args:
        text: uint8; a last line without a newline is not counted.
        out: int64 `[3]`, written: lines, lines that are not blank, and blocks of such lines.
    """
    begin = 0
    while begin < len(text) and text[begin] == NEWLINE:
        begin += 1
    past = len(text)
    while past > begin and text[past - 1] != NEWLINE:
        past -= 1
    if begin == past:
        out[:] = (begin, 0, 0)
        return

    has_blanks = _count_newlines(text[begin:past], out)
    out[0] += begin
    if has_blanks or text[begin] <= SPACE:  # lines of blanks alone are rare
        _count_lines_with_blanks(text, out)


@kernel
def _count_newlines(text: Array, out: Array) -> bool:
    """Count lines by their newlines alone; without a branch, so many bytes at a time.

    Args:
        text: uint8; it begins with a line that is not empty, and ends with a newline.
        out: int64 `[3]`, written as by `count_lines`; right if all blank lines are empty.

    Returns:
        Whether a line after the first begins as lines of blanks do.
    """
    lines = 1
    empty = 0
    blocks = 1
    may_be_blank = 0
    for c in range(1, len(text) - 1):  # nothing follows the last newline
        ends = text[c] == NEWLINE
        is_empty = ends & (text[c - 1] == NEWLINE)
        lines += ends
        empty += is_empty
        blocks += is_empty & (text[c + 1] != NEWLINE)
        may_be_blank += ends & (text[c + 1] <= SPACE) & (text[c + 1] != NEWLINE)
    out[0] = lines
    out[1] = lines - empty - (text[-2] == NEWLINE)
    out[2] = blocks
    return may_be_blank > 0


@kernel
def _count_lines_with_blanks(text: Array, out: Array) -> None:
    """Count as `count_lines`, byte by byte."""
    lines = 0
    filled = 0
    blocks = 0
    has_word = False  # this line, so far
    inside = False  # of a block, at the line before
    for c in range(len(text)):
        if text[c] != NEWLINE:
            has_word |= not is_blank(text[c])
            continue

        lines += 1
        filled += int(has_word)
        blocks += int(has_word and not inside)
        inside = has_word
        has_word = False
    out[0] = lines
    out[1] = filled
    out[2] = blocks


@kernel
def skip_blanks(text: Array, start: int, stop: int) -> int:
    """Return the first byte of a range that is not blank; `stop` if all are."""
    while start < stop and is_blank(text[start]):
        start += 1
    return start


@inlined
def split_spaces(text: Array, start: int, stop: int, fields: Array) -> int:
    """Find the fields between runs of spaces, and return how many there are.

    A space at the beginning of the line has an empty field before it.

    Args:
        text: uint8.
        start: The first byte of a line that is not blank.
        stop: The byte after its last.
        fields: int64 `[F + 1, 2]`, written: the bounds of the first F. The last row takes all
            other fields, one over the other.
    """
    last_field = len(fields) - 1
    count = 0
    begin = start
    for c in range(start, stop + 1):
        if c < stop and text[c] != SPACE:
            continue

        # A field ends here; a second space in a row ends none, but for one at the line's beginning.
        if c > begin or c == start:
            row = count if count < last_field else last_field
            fields[row, 0] = begin
            fields[row, 1] = c
            count += 1
        begin = c + 1
    return count


@inlined
def number_tag(text: Array, start: int, stop: int, names: Array, slots: Array, known: int) -> int:
    """Return the number of a tag: `known` for a new one, -1 for a new one without room.

    Args:
        text: uint8.
        start: The tag's first byte.
        stop: The byte after its last.
        names: int64 `[M, 2]`: where each distinct tag stands first; a new one is written.
        slots: int64 `[2**k]`, more than M: a table of tags, see `hashing`; a new one is written.
        known: Number of tags met.
    """
    hashed = hash_item(text, start, stop)
    place = find_slot(slots, hashed, text, start, stop, text, names[:, 0], names[:, 1], None)
    if slots[place] < 0 and known < len(names):
        slots[place] = known
        names[known, 0] = start
        names[known, 1] = stop
    return int(slots[place])


@kernel
def scan_lines(  # noqa: PLR0912, PLR0915 - a function for each part takes 1.7 times as long
    text: Array,
    columns: Array,
    names: Array,
    slots: Array,
    fields: Array,
    laid: Array,
    words: Array,
    sentences: Array,
    sizes: Array,
) -> None:
    """Take lines apart: each holds a word and a tag, and a blank line ends a sentence.

    Args:
        text: uint8, UTF-8, ends with a newline.
        columns: int64 `[2]`: which fields, from 0, hold the word and the tag.
        names: int64 `[M, 2]`, written: where each distinct tag stands first in `text`.
        slots: int64 `[2**k]`, more than M, all -1; changed.
        fields: int64 `[F + 2, 2]`, where F is the higher of the two columns; zeros, scratch data.
        laid: uint8, as long as `text`, written: the words, a space after each, or a newline after
            the last word of a sentence that another one follows.
        words: integers `[lines, 3]`, written: for each line that is not blank the word's first
            character in `laid`, the one after its last, and the number of its tag; -1 where the
            line is broken, or where `names` is full.
        sentences: integers `[lines + 1, 2]`, written: of each sentence the first word and the first
            line; after the last sentence, the number of words and of lines.
        sizes: int64 `[4]`, written: words, sentences, bytes laid, and distinct tags.
    """
    word_field = columns[0]
    tag_field = columns[1]
    last_field = len(fields) - 1

    num_words = 0
    num_sentences = 0
    num_tags = 0
    num_bytes = 0  # of `laid`
    num_chars = 0  # of `laid`
    line = 0
    tabs = 0  # in this line so far
    number = -1  # of the last tag
    inside = False  # of a sentence

    for c in range(len(text)):
        if text[c] > NEWLINE:  # nearly all bytes
            continue

        # A tab ends one field and begins the next, of those up to the last that is wanted.
        if text[c] == TAB:
            tabs += 1
            if tabs <= last_field:
                fields[tabs - 1, 1] = c
                fields[tabs, 0] = c + 1
        if text[c] != NEWLINE:
            continue

        is_filled = skip_blanks(text, fields[0, 0], c) < c
        if is_filled:
            if not inside:
                sentences[num_sentences, 0] = num_words
                sentences[num_sentences, 1] = line
                num_sentences += 1
                if num_bytes > 0:
                    laid[num_bytes - 1] = NEWLINE  # in place of the space after the last word

            # A line without tabs has spaces between its fields.
            fields[tabs if tabs < last_field else last_field, 1] = c
            count = tabs + 1 if tabs > 0 else split_spaces(text, fields[0, 0], c, fields)

            # Until the line turns out to be whole, its word is empty and has no tag.
            words[num_words, 0] = num_chars
            words[num_words, 2] = -1
            if count >= last_field:
                first = fields[word_field, 0]
                last = fields[word_field, 1]
                stop = fields[tag_field, 1]
                start = skip_blanks(text, fields[tag_field, 0], stop)
                if skip_blanks(text, first, last) < last and start < stop:
                    # The word is laid as it stands, with blanks at its ends.
                    for b in range(first, last):
                        laid[num_bytes] = text[b]
                        num_bytes += 1
                        num_chars += (text[b] & 0xC0) != 0x80  # first bytes of characters

                    while is_blank(text[stop - 1]):
                        stop -= 1

                    # Most tags are the same as the one before, and need no table.
                    if number < 0 or not is_same(
                        text, start, stop, text, names[number, 0], names[number, 1]
                    ):
                        number = number_tag(text, start, stop, names, slots, num_tags)
                        num_tags += number == num_tags
                    words[num_words, 2] = number
            words[num_words, 1] = num_chars

            laid[num_bytes] = SPACE
            num_bytes += 1
            num_chars += 1
            num_words += 1

        inside = is_filled
        line += 1
        tabs = 0
        fields[0, 0] = c + 1

    sentences[num_sentences, 0] = num_words
    sentences[num_sentences, 1] = line
    sizes[0] = num_words
    sizes[1] = num_sentences
    sizes[2] = num_bytes
    sizes[3] = num_tags
