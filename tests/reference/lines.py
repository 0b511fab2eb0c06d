"""The slow twin of `kernels/lines.py`: a line after the other, as strings."""

from __future__ import annotations

import re

BLANKS = " \t\r\f\v"
Pair = tuple[str, str]


def sentences(text: str, *, word: int, tag: int) -> list[tuple[int, list[Pair | None]]]:
    """Return for each sentence its first line, from 0, and the word and tag of each line.

    A broken line is None.
    """
    found: list[tuple[int, list[Pair | None]]] = []
    inside = False
    for number, line in enumerate(text.split("\n")):
        if not line.strip(BLANKS):
            inside = False
            continue
        if not inside:
            found.append((number, []))
            inside = True
        found[-1][1].append(pair(line, word=word, tag=tag))
    return found


def pair(line: str, *, word: int, tag: int) -> Pair | None:
    fields = line.split("\t") if "\t" in line else re.split(" +", line.rstrip(" "))
    if len(fields) <= max(word, tag):
        return None
    parts = fields[word], fields[tag].strip(BLANKS)
    return parts if parts[0].strip(BLANKS) and parts[1] else None
