"""Finds the starts of sentences in clinical text by rules.

The rules of the segmenter `clinical` look for starts in two ways:

* By lines: list items, section heads and text after an empty line start a sentence. A continuation
  of a wrapped line does not.
* By full stops within lines.

No sentence starts inside a placeholder. The result depends on the text and its placeholders only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from mslm_data.data.document import Placeholder, overwrite
from mslm_data.segment.lines import NoteLine, goes_on, in_capitals, read_lines, wrap_width
from mslm_data.segment.stops import MASK, ends_sentence, stops

Heads = Literal["next", "own"]

_PLACEHOLDER = re.compile(r"\[\*\*[^\[\]]{0,200}?\*\*\]|___(?<!____)(?!_)")

_LONGEST_END = 8
"""Maximum length of a mark at the end of a line, with closing quotes and brackets."""


def sentence_starts(
    text: str, placeholders: Sequence[Placeholder] = (), *, heads: Heads = "next"
) -> list[int]:
    """Return the sorted first characters of sentences.

    A sentence starts after white space, or after a mark as in `pain.Denies`.

    Args:
        text: Text of a note.
        placeholders: Sorted placeholders. Without any, marks `[** **]` and `___` are found.
        heads: "next" makes a section head the start of the next sentence, "own" a sentence by
            itself. Default: "next".
    """
    masked = _mask(text, placeholders)
    capitals = in_capitals(masked)
    lines = read_lines(masked, capitals=capitals)
    width = wrap_width(masked, lines, capitals=capitals)

    starts: list[int] = []
    before: NoteLine | None = None
    number = 0  # number of the last list item

    # Walk through lines and possible sentence ends together; both are sorted.
    no_stop = (len(masked), len(masked) + 1)
    remaining_stops = iter(stops(masked))
    mark, follows = next(remaining_stops, no_stop)
    for line in lines:
        # A mark at the end of the line before is judged together with the line break.
        if follows == line.start:
            line.mark_before = mark
            mark, follows = next(remaining_stops, no_stop)

        if before is not None and line.number >= 0:
            _check_number(masked, before, line, number)

        if before is None or _begins(masked, before, line, width, heads):
            starts.append(line.start)
            if line.number >= 0 and line.item:
                number = line.number
            before = line

        # Marks within the line. `before` is still the previous line if this line continues it, so
        # that the word before a mark may be at the end of the previous line.
        while follows < line.end:
            if ends_sentence(masked, mark, follows, before.start):
                starts.append(follows)
            mark, follows = next(remaining_stops, no_stop)
        before = line
    return starts


def _check_number(text: str, before: NoteLine, line: NoteLine, number: int) -> None:
    """Mark a line as no list item if its number cannot be a list marker.

    The number of an item continues a list or follows the end of a sentence. The 10 in `a score of 2
    out of` / `10. Follow up` does neither.

    Args:
        text: Masked text.
        before: The line before.
        line: A line that starts with a number; changed.
        number: Number of the last list item.
    """
    in_order = line.number in (0, 1, number, number + 1)
    unfinished = not (before.head or before.ruler or line.blank_before)
    if not unfinished or in_order:
        return
    if not _is_ended(text, before, line):
        line.item = 0
        line.loose = True


def _begins(text: str, before: NoteLine, line: NoteLine, width: int, heads: Heads) -> bool:
    """Return whether a line starts a sentence."""
    if before.ruler or line.ruler or line.head:
        return True
    if before.head:
        return heads == "own"
    if line.blank_before or line.run_in:
        return True
    if line.item:
        # A number after an unfinished line is not a list marker: `a dose of` / `2. Then`.
        return line.number < 0 or not goes_on(text, before, line, 0)
    if _is_ended(text, before, line):
        return True
    return not goes_on(text, before, line, width)


def _is_ended(text: str, before: NoteLine, line: NoteLine) -> bool:
    """Return whether the mark at the end of the line before ends a sentence."""
    if line.mark_before < max(0, before.end - _LONGEST_END):
        return False
    return ends_sentence(text, line.mark_before, line.start, before.start)


def _mask(text: str, placeholders: Sequence[Placeholder]) -> str:
    """Replace each character of placeholders by `MASK`, including line ends inside."""
    # Sources of notes give all placeholders, other sources give none.
    marks = placeholders or [Placeholder(*match.span()) for match in _PLACEHOLDER.finditer(text)]
    return overwrite(text, marks, _repeat_mask)


def _repeat_mask(length: int) -> str:
    return MASK * length
