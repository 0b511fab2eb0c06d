"""Scores against the hand-made gold of sentence starts; see gold/README.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "gold"


class Snippet(NamedTuple):
    text: str
    starts: frozenset[int]  # Sentence starts except the first.
    headed: frozenset[int]  # Starts after a heading on its own line.


class Score(NamedTuple):
    precision: float
    recall: float
    f1: float


def snippets(part: str) -> dict[str, Snippet]:
    return {
        path.name: read(path.read_text(encoding="utf-8"))
        for path in sorted((FOLDER / part).glob("*.txt"))
    }


def read(marked: str) -> Snippet:
    text, starts, headed = "", set(), set()
    for character in marked:
        if character == "‖":
            starts.add(len(text))
        elif character == "¦":
            headed.add(len(text))
        else:
            text += character
    return Snippet(text, frozenset(starts), frozenset(headed))


def score(part: str, starts_of: Callable[[str], Iterable[int]], *, heads: str) -> Score:
    """Compare the sentence starts of all snippets, without the first of each snippet."""
    right = found = wanted = 0
    for text, starts, headed in snippets(part).values():
        gold = starts | headed if heads == "own" else starts
        first = len(text) - len(text.lstrip())
        got = set(starts_of(text)) - {first}
        right, found, wanted = right + len(got & gold), found + len(got), wanted + len(gold)
    precision, recall = right / found, right / wanted
    return Score(
        *(round(x, 3) for x in (precision, recall, 2 * precision * recall / (precision + recall)))
    )
