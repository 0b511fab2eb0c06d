"""Slow twin of `kernels/cover.py`: one document at a time, one character after the other."""

from __future__ import annotations

from collections.abc import Sequence

Range = tuple[int, int]


def sentences(
    text: str, begins: Sequence[int], mentions: Sequence[Range], words: Sequence[Range] | None
) -> list[Range]:
    """Return the sentences of one document.

    Args:
        text: The document.
        begins: Characters at which sentences begin, rising; the first one does not count.
        mentions: Characters of its mentions.
        words: Characters of its words, None for running text.
    """
    whole = [*mentions, *(words or ())]
    cuts = [cut for cut in begins[1:] if not any(start < cut < end for start, end in whole)]

    found = []
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        if words is None:
            inside = [(at, at + 1) for at in range(start, end) if not text[at].isspace()]
        else:
            inside = [(first, past) for first, past in words if start <= first < end]
        if inside:
            found.append((inside[0][0], inside[-1][1]))
    return found
