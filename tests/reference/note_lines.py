"""The slow twins of `segment/lines.py` and `segment/stops.py`: a character after the other."""

from __future__ import annotations

BREAKS = "\n\r\v\f\x85\u2028\u2029"
MARKS = ".!?"
CLOSERS = "\"')]}\u201d\u2019*"


def lines(text: str) -> list[tuple[int, int, int, bool]]:
    """Return for each line with any character but white space where it starts and ends.

    Then come the first character of the line itself, and whether an empty line, or a new page,
    comes before.
    """
    found = []
    gap = ""
    first = 0
    while first <= len(text):
        past = first
        while past < len(text) and text[past] not in BREAKS:
            past += 1
        visible = [at for at in range(first, past) if not text[at].isspace()]
        if visible:
            gap += text[first : visible[0]]
            blank = gap.count("\n") > 1 or gap.count("\r") > 1 or "\f" in gap
            found.append((visible[0], visible[-1] + 1, first, blank))
            gap = text[visible[-1] + 1 : past + 1]
        else:
            gap += text[first : past + 1]
        first = past + 1
    return found


def stops(text: str) -> list[tuple[int, int]]:
    """Return each mark that may end a sentence, and the first character that follows it."""
    found = []
    for mark, character in enumerate(text):
        if character not in MARKS or text[mark - 1 : mark] in tuple(MARKS):
            continue

        past = mark
        while text[past : past + 1] in tuple(MARKS):
            past += 1
        while text[past : past + 1] in tuple(CLOSERS):
            past += 1

        follows = past
        while follows < len(text) and text[follows].isspace():
            follows += 1
        if follows > past or past == len(text):
            found.append((mark, follows))
        elif _is_glued(text, mark):
            found.append((mark, mark + 1))
    return found


def _is_glued(text: str, mark: int) -> bool:
    """Return whether a full stop is between two words, as in `pain.Denies`."""
    before = text[max(0, mark - 2) : mark]
    after = text[mark + 1 : mark + 3]
    is_word = len(before) == 2 and all(c.isalnum() or c == "_" for c in before)
    is_name = len(after) == 2 and after.isascii() and after[0].isupper() and after[1].islower()
    return text[mark] == "." and is_word and is_name
