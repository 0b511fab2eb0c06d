"""Parse tagged lines: find the words, tags and sentences in columns of UTF-8 text."""

from __future__ import annotations

from mslm_data.kernels._jit import Array, inlined, kernel
from mslm_data.kernels.hashing import find_slot, hash_item, is_same

TAB, NEWLINE, SPACE = 9, 10, 32


@inlined
def is_blank(byte: int) -> bool:
    """Return whether a byte is a blank: space, TAB, CR, VT or FF. Newlines are not passed here."""
    return (byte == SPACE) | ((byte >= TAB) & (byte <= 13))


@kernel
def count_lines(text: Array, out: Array) -> None:
    """Count lines, lines with a word, and blocks of these between blank lines.

    Args:
        text: uint8. A last line without a newline is not counted.
        out: int64 `[3]`, written: number of lines, of lines that are not blank, and of blocks.
    """
    # Skip empty lines at the beginning, and an incomplete line at the end.
    begin = 0
    while begin < len(text) and text[begin] == NEWLINE:
        begin += 1
    past = len(text)
    while past > begin and text[past - 1] != NEWLINE:
        past -= 1
    if begin == past:
        out[:] = (begin, 0, 0)
        return

    # Count by newlines alone, which is fast. Count again in the rare case that a line may have
    # blanks but no word.
    has_blanks = _count_newlines(text[begin:past], out)
    out[0] += begin
    if has_blanks or text[begin] <= SPACE:
        _count_lines_with_blanks(text, out)


@kernel
def _count_newlines(text: Array, out: Array) -> bool:
    """Count lines by newlines alone, as if all blank lines were empty.

    Args:
        text: uint8, begins with a line that is not empty, and ends with a newline.
        out: int64 `[3]`, written as by `count_lines`.

    Returns:
        Whether a line after the first begins with a blank, so the counts may be wrong.
    """
    # No branch, so that it compiles to SIMD.
    lines = 1
    empty = 0
    blocks = 1
    may_be_blank = 0
    for c in range(1, len(text) - 1):  # without the last newline, as the loop reads the next byte
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
    """Count as `count_lines`, but byte by byte."""
    lines = 0
    filled = 0
    blocks = 0
    has_word = False  # whether this line has had a word
    inside = False  # whether the line before is in a block
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
    """Return the index of the first byte in a range that is not a blank, or `stop`."""
    while start < stop and is_blank(text[start]):
        start += 1
    return start


@inlined
def split_spaces(text: Array, start: int, stop: int, fields: Array) -> int:
    """Split a line at runs of spaces, and return the number of fields.

    If the line begins with a space, its first field is empty.

    Args:
        text: uint8.
        start: First byte of the line.
        stop: Half open.
        fields: int64 `[F + 1, 2]`, written: byte ranges of the first F fields. The last item is
            scratch memory for further fields.
    """
    last_field = len(fields) - 1
    count = 0
    begin = start
    for c in range(start, stop + 1):
        if c < stop and text[c] != SPACE:
            continue

        # A field ends here. A second space ends none, except at the beginning of the line.
        if c > begin or c == start:
            row = count if count < last_field else last_field
            fields[row, 0] = begin
            fields[row, 1] = c
            count += 1
        begin = c + 1
    return count


@inlined
def number_tag(text: Array, start: int, stop: int, names: Array, slots: Array, known: int) -> int:
    """Return the number of a tag: `known` for a new tag, -1 for a new tag without room.

    Args:
        text: uint8.
        start: First byte of the tag.
        stop: Half open.
        names: int64 `[M, 2]`, byte range of the first occurrence of each tag; changed.
        slots: int64 `[2**k]` with `2**k > M`, a table of items (`hashing`); changed.
        known: Number of tags so far.
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
    """Parse lines with a word and a tag each, and a blank line after each sentence.

    Args:
        text: uint8, UTF-8, ends with a newline.
        columns: int64 `[2]`, index of the word's field and of the tag's field, from 0.
        names: int64 `[M, 2]`, written: byte range of the first occurrence of each distinct tag.
        slots: int64 `[2**k]` with `2**k > M`, all -1; scratch memory.
        fields: int64 `[F + 2, 2]`, with F the larger of `columns`, all 0; scratch memory.
        laid: uint8, as long as `text`, written: the words joined by spaces, sentences by newlines.
        words: integers `[lines, 3]`, written for each line that is not blank: first character of
            the word in `laid`, character after the last, and number of the tag. The number is -1
            if the line is malformed or `names` is full.
        sentences: integers `[lines + 1, 2]`, written: first word and first line of each sentence;
            then the number of words and of lines.
        sizes: int64 `[4]`, written: number of words, sentences, bytes of `laid`, and distinct tags.
    """
    word_field = columns[0]
    tag_field = columns[1]
    last_field = len(fields) - 1

    num_words = 0
    num_sentences = 0
    num_tags = 0
    num_bytes = 0  # written to `laid`
    num_chars = 0  # written to `laid`
    line = 0
    tabs = 0  # number of tabs in this line so far
    number = -1  # number of the last tag
    inside = False  # whether the last line is in a sentence

    for c in range(len(text)):
        if text[c] > NEWLINE:  # nearly all bytes
            continue

        # A tab ends a field and begins the next. Fields after the last column are ignored.
        if text[c] == TAB:
            tabs += 1
            if tabs <= last_field:
                fields[tabs - 1, 1] = c
                fields[tabs, 0] = c + 1
        if text[c] != NEWLINE:
            continue

        # The end of a line.
        is_filled = skip_blanks(text, fields[0, 0], c) < c
        if is_filled:
            # Begin a sentence after a blank line.
            if not inside:
                sentences[num_sentences, 0] = num_words
                sentences[num_sentences, 1] = line
                num_sentences += 1
                if num_bytes > 0:
                    laid[num_bytes - 1] = NEWLINE  # in place of the space after the last word

            # End the last field; a line without tabs is split at spaces.
            fields[tabs if tabs < last_field else last_field, 1] = c
            count = tabs + 1 if tabs > 0 else split_spaces(text, fields[0, 0], c, fields)

            # An empty word without a tag, unless the line has both fields.
            words[num_words, 0] = num_chars
            words[num_words, 2] = -1
            if count >= last_field:
                first = fields[word_field, 0]
                last = fields[word_field, 1]
                stop = fields[tag_field, 1]
                start = skip_blanks(text, fields[tag_field, 0], stop)
                if skip_blanks(text, first, last) < last and start < stop:
                    # Copy the word, including blanks at its ends.
                    for b in range(first, last):
                        laid[num_bytes] = text[b]
                        num_bytes += 1
                        num_chars += (text[b] & 0xC0) != 0x80  # count first bytes of characters

                    while is_blank(text[stop - 1]):
                        stop -= 1

                    # Most tags equal the last one, and need no lookup.
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
