"""Keeps mentions within lines and outside placeholders, and masks placeholders from matchers.

Concept matchers skip punctuation and line ends between the words of a name. To them `Heart;
failure` is a heart failure, and the last word above a blank line joins the first below it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

from mslm_data.data.document import Placeholder

_LINE_END = re.compile(r"\r\n?|\n")
_BLANK_LINE = re.compile(r"(?>\r\n?|\n)[^\S\r\n]*[\r\n]")
_LIST_MARK = re.compile(r"[\r\n][^\S\r\n]*(?:[-*+\u2022#>]|(?:\(?\d{1,3}|[A-Za-z])[.)]\s)")


def crossing(text: str, *, not_inside: str, max_line_breaks: int) -> str:
    """Return why a mention of this text is dropped, or "".

    Args:
        text: The mention's characters.
        not_inside: Characters that may not stand in it.
        max_line_breaks: Number of line ends that may stand in it, where lines are wrapped.
    """
    if any(character in not_inside for character in text):
        return "reaches across punctuation"

    line_ends = len(_LINE_END.findall(text))
    if not line_ends:
        return ""
    if _BLANK_LINE.search(text):
        return "reaches across a blank line"
    if _LIST_MARK.search(text):
        return "reaches across a list mark"
    if line_ends > max_line_breaks:
        return "reaches across a line end"
    return ""


def hide(text: str, placeholders: Sequence[Placeholder]) -> str:
    """Overwrite placeholders so that no name matches in or across them, at the same length.

    `.000.` takes the place of a placeholder of five characters. MedCAT never skips full stops
    within a name, and digits in one token take one place in its windows of context.
    """
    if not placeholders:
        return text

    pieces: list[str] = []
    past = 0
    for start, end, *_ in placeholders:
        length = end - start
        pieces.append(text[past:start])
        pieces.append("." + "0" * (length - 2) + "." if length > 1 else "." * length)
        past = end
    pieces.append(text[past:])
    return "".join(pieces)


def touches(start: int, end: int, placeholders: Sequence[Placeholder]) -> bool:
    """Return whether characters `[start, end)` overlap a placeholder; placeholders are sorted."""
    # Of those that begin before the end, the last one reaches farthest.
    before = bisect_left(placeholders, (end,))
    return before > 0 and placeholders[before - 1].end > start
