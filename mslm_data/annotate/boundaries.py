"""What no mention may reach across, and what is put where a placeholder stands.

Concept matchers skip punctuation and line ends between the words of a name, so `Heart; failure` is a heart failure to
them, and the last word above a blank line joins the first below it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mslm_data.data.document import Placeholder

_LINE = re.compile(r"\r\n?|\n")
_BLANK = re.compile(r"(?>\r\n?|\n)[^\S\r\n]*[\r\n]")
_ITEM = re.compile(r"[\r\n][^\S\r\n]*(?:[-*+\u2022#>]|(?:\(?\d{1,3}|[A-Za-z])[.)]\s)")


def crossing(text: str, *, not_inside: str, max_line_breaks: int) -> str | None:
    """Return why a mention of this text is none, or None.

    Args:
        text: From its first character to its last.
        not_inside: Characters that may not stand in it.
        max_line_breaks: Line ends that may: wrapped lines.
    """
    if any(character in not_inside for character in text):
        return "reaches across punctuation"
    lines = len(_LINE.findall(text))
    if lines:
        if _BLANK.search(text):
            return "reaches across a blank line"
        if _ITEM.search(text):
            return "reaches across a list mark"
        if lines > max_line_breaks:
            return "reaches across a line end"
    return None


def hide(text: str, placeholders: Sequence[Placeholder]) -> str:
    """Return a text of the same length in which no name can stand in a placeholder or reach across one.

    `.000.` stands in its place: full stops are tokens that MedCAT never skips within a name, and digits in one token
    take one place in its windows of context.
    """
    if not placeholders:
        return text
    pieces, at = [], 0
    for start, end, *_ in placeholders:
        pieces += [
            text[at:start],
            "." + "0" * (end - start - 2) + "." if end - start > 1 else "." * (end - start),
        ]
        at = end
    return "".join([*pieces, text[at:]])


def touches(start: int, end: int, placeholders: Sequence[Placeholder]) -> bool:
    """Return whether characters `[start, end)` overlap a placeholder."""
    return any(place.start < end and start < place.end for place in placeholders)
