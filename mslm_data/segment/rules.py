"""Finds the starts of sentences in clinical text: a pure function of the text.

Both segmenters of clinical text, with spaCy and without, use it. Lines come first. An item of a
list, a section head, and text after an empty line begin a sentence; a line that was wrapped at a
width does not. Then come full stops within lines. No sentence begins inside a placeholder.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from mslm_data.data.document import Placeholder
from mslm_data.segment.joined import part_lines
from mslm_data.segment.lines import NoteLine, goes_on, in_capitals, read_lines, wrap_width
from mslm_data.segment.stops import MASK, ends_sentence, stops
from mslm_data.segment.wordlists import WordLists, word_lists

Heads = Literal["next", "own"]

_PLACEHOLDER = re.compile(r"\[\*\*[^\[\]]{0,200}?\*\*\]|___(?<!____)(?!_)")
_MARKS = ("[**", "**]", "___")

_LONGEST_END = 8
"""Most characters of a mark that ends a line, with the quotes and brackets that close after it."""


def sentence_starts(
    text: str, placeholders: Sequence[Placeholder] = (), *, heads: Heads = "next"
) -> list[int]:
    """Return the first character of each sentence, sorted.

    White space comes before each sentence but the first, or a mark without it (`pain.Denies`), or
    the commas by which lines were joined.

    Args:
        text: The text of a note.
        placeholders: Places where something was taken out of it, sorted. `[** **]` and `___` are
            found without.
        heads: Whether a section head on a line of its own begins the sentence after it, or is one.
    """
    words = word_lists()
    masked = part_lines(_mask(text, placeholders), words)
    capitals = in_capitals(masked)
    lines = read_lines(masked, words, capitals=capitals)
    width = wrap_width(masked, lines, capitals=capitals)

    starts: list[int] = []
    before: NoteLine | None = None
    number = 0  # of the last item of the list, if there is one

    no_stop = (len(masked), len(masked) + 1)
    rest = iter(stops(masked))
    mark, follows = next(rest, no_stop)
    for line in lines:
        if follows == line.start:
            line.mark_before = mark
            mark, follows = next(rest, no_stop)

        if before is not None and line.number >= 0:
            _check_number(masked, before, line, number, words)

        if before is None or _begins(masked, before, line, width, heads, words):
            starts.append(line.start)
            if line.number >= 0 and line.item:
                number = line.number
            before = line

        # Where this line goes on from the one before, words of that line are looked at too.
        while follows < line.end:
            if ends_sentence(masked, mark, follows, before.start, words):
                starts.append(follows)
            mark, follows = next(rest, no_stop)
        before = line
    return starts


def _check_number(
    text: str, before: NoteLine, line: NoteLine, number: int, words: WordLists
) -> None:
    """Unmark a list item whose number cannot be a list marker.

    It cannot where it continues neither the list nor stands after the end of a sentence: `a score
    of 2 out of` / `10. Follow up`.

    Args:
        text: Masked.
        before: The line with any text before.
        line: A line that begins with a number; changed.
        number: The number of the last item of the list.
        words: The word lists.
    """
    in_order = line.number in (0, 1, number, number + 1)
    unfinished = not (before.head or before.ruler or line.blank_before)
    if not unfinished or in_order:
        return
    if not _is_ended(text, before, line, words):
        line.item = 0
        line.loose = True


def _begins(
    text: str, before: NoteLine, line: NoteLine, width: int, heads: Heads, words: WordLists
) -> bool:
    """Return whether a line begins a sentence, given the line before."""
    if before.ruler or line.ruler or line.head:
        return True
    if before.head:
        return heads == "own"
    if line.blank_before or line.run_in:
        return True
    if line.item:
        # A number that hangs on the line before counts nothing: `a dose of` / `2. Then`.
        return line.number < 0 or not goes_on(text, before, line, 0, words)
    if _is_ended(text, before, line, words):
        return True
    return not goes_on(text, before, line, width, words)


def _is_ended(text: str, before: NoteLine, line: NoteLine, words: WordLists) -> bool:
    """Return whether the final mark of the line before ends a sentence."""
    if line.mark_before < max(0, before.end - _LONGEST_END):
        return False
    return ends_sentence(text, line.mark_before, line.start, before.start, words)


def _mask(text: str, placeholders: Sequence[Placeholder]) -> str:
    """Overwrite placeholders of a text with `MASK`.

    Lines that were broken in a placeholder are then whole, and nothing in it is read. Sources of
    notes give each placeholder, so these are looked for only where a mark of one is left over.
    """
    masked = _written_over(text, placeholders)
    if not any(mark in masked for mark in _MARKS):
        return masked

    found = [Placeholder(*match.span()) for match in _PLACEHOLDER.finditer(text)]
    return _written_over(_written_over(text, found), placeholders)


def _written_over(text: str, places: Sequence[Placeholder]) -> str:
    pieces: list[str] = []
    past = 0
    for start, end, _ in places:
        pieces.append(text[past:start])
        pieces.append(MASK * (end - start))
        past = end
    pieces.append(text[past:])
    return "".join(pieces)
