"""Where sentences of clinical text begin: one pure function of the text, used with spaCy and without.

Lines first: an item of a list, a section head and what follows an empty line begin a sentence, a line that was wrapped
at a width does not. Then full stops within lines. No sentence begins inside a placeholder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from mslm_data.data.document import Placeholder
from mslm_data.segment.lines import Line, goes_on, in_capitals, read_lines, wrap_width
from mslm_data.segment.stops import MASK, ends_line, inner_stops
from mslm_data.segment.wordlists import WordLists, word_lists

Heads = Literal["next", "own"]

_PLACEHOLDER = re.compile(r"\[\*\*[^\[\]]{0,200}?\*\*\]")


def sentence_starts(
    text: str, placeholders: Iterable[Placeholder] = (), *, heads: Heads = "next"
) -> list[int]:
    """Return the first character of each sentence, rising; white space comes before each but the first.

    Args:
        text: Of a note.
        placeholders: What was taken out of it, sorted; `[** **]` is found without.
        heads: Whether a section head on a line of its own begins the sentence after it, or is one.
    """
    words = word_lists()
    masked = _mask(text, placeholders)
    capitals = in_capitals(masked)
    lines = read_lines(masked, words, capitals=capitals)
    width = wrap_width(masked, lines, capitals=capitals)
    starts: list[int] = []
    before: Line | None = None
    number = 0
    for line in lines:
        if before is not None and line.number >= 0:
            _check_number(masked, before, line, number, words)
        if before is None or _begins(masked, before, line, width, heads, words):
            starts.append(line.start)
            number = line.number if line.item and line.number >= 0 else number
            before = line
        starts += inner_stops(
            masked, line.start, line.end, before.start, words
        )  # words of the line that goes on, too
        before = line
    return starts


def _check_number(text: str, before: Line, line: Line, number: int, words: WordLists) -> None:
    """Take a number at the beginning of a line for no list marker where it continues neither a list nor a sentence."""
    in_order = line.number in (0, 1, number, number + 1)
    unfinished = not (before.head or before.ruler or line.blank_before)
    if (
        unfinished
        and not in_order
        and not ends_line(text, before.start, before.end, line.start, words)
    ):
        line.item, line.loose = 0, True


def _begins(
    text: str, before: Line, line: Line, width: int, heads: Heads, words: WordLists
) -> bool:
    """Say whether a line begins a sentence, given the line with any text before it."""
    if before.ruler or line.ruler or line.head:
        return True
    if before.head:
        return heads == "own"
    if line.blank_before:
        return True
    if line.item or line.run_in:
        dangling = line.number >= 0 and goes_on(text, before, line, 0, words)
        return line.run_in or not dangling
    if ends_line(text, before.start, before.end, line.start, words):
        return True
    return not goes_on(text, before, line, width, words)


def _mask(text: str, placeholders: Iterable[Placeholder]) -> str:
    """Write `MASK` over what was taken out, so that lines broken in it are whole and nothing in it is read."""
    if "[**" in text:
        text = _PLACEHOLDER.sub(lambda match: MASK * len(match.group()), text)
    pieces: list[str] = []
    past = 0
    for start, end, *_ in placeholders:
        pieces += text[past:start], MASK * (end - start)
        past = end
    return "".join([*pieces, text[past:]]) if pieces else text
