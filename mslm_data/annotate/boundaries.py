"""Keeps mentions within lines and outside placeholders.

Concept matchers skip punctuation and line ends between the words of a name: they find a heart
failure in `Heart; failure`, or in two words separated by a blank line.
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
    """Return the reason to drop a mention; "" to keep it.

    Args:
        text: Text of the mention.
        not_inside: Characters not allowed in a mention.
        max_line_breaks: Maximum number of line ends in a mention.
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


def touches(start: int, end: int, placeholders: Sequence[Placeholder]) -> bool:
    """Return whether characters `[start, end)` overlap a placeholder; placeholders are sorted."""
    # The last placeholder that starts before the end also has the greatest end.
    before = bisect_left(placeholders, (end,))
    return before > 0 and placeholders[before - 1].end > start
