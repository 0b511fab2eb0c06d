"""Splits lines of notes that were joined by commas.

Some public collections of transcriptions have commas in place of line ends, as in `Lungs
clear.,PLAN:,1. Rest.,2. Fluids.` These commas follow a full stop or a section head, where normal
text has no comma.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mslm_data.segment.stops import MASK, is_plain
from mslm_data.segment.wordlists import WordLists

_COMMAS = re.compile(r",(?:[ \t]*+,)*+")
_STOP = re.compile(r"[.?!][\"')\]\u201d]?\Z")
_LAST_WORD = re.compile(r"[^\s,:]+\Z")
_MARKER = re.compile(
    r"(?:\d{1,2}[.)]|[-*\u2022\u25cf\u25aa\u25e6\u00b7])\s{0,4}[A-Z\x01]"  # 1. Rest, - Rest
)
_HEAD = re.compile(r"[A-Z][A-Za-z0-9/&()'-]*(?: [A-Za-z0-9/&()'-]+){0,5} ?:(?!\d)")
_HEAD_IN_CAPITALS = re.compile(r"[A-Z][A-Z0-9 /&()'-]{2,40}: ?,")

_FEWEST = 2
"""Minimum number of sentences ending with a full stop and a comma, in a note without heads ending
with a comma."""


def part_lines(text: str, words: WordLists) -> str:
    """Replace commas between joined lines by line breaks; the length stays the same.

    Args:
        text: Masked text. Returned unchanged if its lines were not joined.
        words: Word lists.
    """
    # Fast exit for most notes.
    if ".," not in text and ":," not in text and ": ," not in text:
        return text

    commas = [match.span() for match in _COMMAS.finditer(text)]
    if not _were_joined(text, commas, words):
        return text

    pieces: list[str] = []
    past = 0
    for start, end in commas:
        if _joins_lines(text, start, end, words):
            pieces += (text[past:start], text[start:end].replace(",", "\n"))
            past = end
    pieces.append(text[past:])
    return "".join(pieces)


def _were_joined(text: str, commas: Sequence[tuple[int, int]], words: WordLists) -> bool:
    """Return whether a note has commas as in `PLAN:,` or `clear.,Neck`."""
    sentences = 0
    for start, end in commas:
        before = _before(text, start)
        if before.endswith(":"):
            return True
        if end < len(text) and _begins(text, end) and _ends_plainly(before, words):
            sentences += 1
            if sentences == _FEWEST:
                return True
    return False


def _joins_lines(text: str, start: int, end: int, words: WordLists) -> bool:
    """Return whether the commas `[start, end)` of a joined note replace a line break."""
    before = _before(text, start)
    follows = end
    while text[follows : follows + 1] in (" ", "\t"):
        follows += 1
    if not before or follows == len(text):
        return False

    # Two commas replace an empty line.
    was_empty_line = text.count(",", start, end) > 1
    if before.endswith(":") or (was_empty_line and _begins(text, follows)):
        return True
    if follows == end:
        return _joins_at_once(text, before, follows)

    # With a space, the full stop may belong to an abbreviation: `seen by J. Doe, M.D., Chief`.
    if _STOP.search(before):
        return _is_capital(text[follows]) and _ends_plainly(before, words)
    return _HEAD_IN_CAPITALS.match(text, follows) is not None


def _joins_at_once(text: str, before: str, follows: int) -> bool:
    """Return whether a comma without a following space replaces a line break."""
    if _STOP.search(before) and (_begins(text, follows) or text[follows].isdigit()):
        return True
    if _HEAD.match(text, follows):
        return True
    # A list item, but not a decimal comma as in `1,2. Fluids`.
    return _MARKER.match(text, follows) is not None and not before[-1].isdigit()


def _begins(text: str, follows: int) -> bool:
    """Return whether text starts like a sentence or a list item."""
    return _is_capital(text[follows]) or _MARKER.match(text, follows) is not None


def _is_capital(character: str) -> bool:
    return character.isupper() or character == MASK


def _ends_plainly(before: str, words: WordLists) -> bool:
    """Return whether text ends with a full stop, but not that of an abbreviation."""
    stop = _STOP.search(before)
    word = _LAST_WORD.search(before, 0, stop.start()) if stop else None
    return word is not None and is_plain(word.group().lower(), words)


def _before(text: str, start: int) -> str:
    """Return the last 32 characters before commas, without trailing white space."""
    return text[max(0, start - 32) : start].rstrip(" \t")
