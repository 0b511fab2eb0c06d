"""Slow twin of `annotate/terms.py`: words one by one, each term tried at each word."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence, Set
from typing import NamedTuple

from mslm_data.data.document import Document

LINE_END = re.compile(
    "\r[\n\v\f\x1c\x1d\x1e\x85\u2028\u2029]?|[\n\v\f\x1c\x1d\x1e\x85\u2028\u2029]"
)


class Word(NamedTuple):
    start: int
    end: int
    text: str
    gap: int = 2  # 0 none, 1 white space, 2 more than one line end
    hidden: bool = False


def words_of(text: str, hidden: Set[int] = frozenset()) -> list[Word]:
    words: list[Word] = []
    inside = False
    for i, character in enumerate(text):
        if i in hidden:
            words.append(Word(i, i + 1, "", hidden=True))
            inside = False
        elif character.isspace():
            inside = False
        elif inside and (character.isalnum() or unicodedata.category(character)[0] == "M"):
            words[-1] = words[-1]._replace(end=i + 1, text=words[-1].text + character)
        else:
            words.append(Word(i, i + 1, character))
            inside = character.isalnum()
    for w in range(1, len(words)):
        words[w] = words[w]._replace(gap=gap(text[words[w - 1].end : words[w].start]))
    return words


def gap(space: str) -> int:
    return 2 if len(LINE_END.findall(space)) > 1 else min(len(space), 1)


def fold(text: str) -> str:
    return "".join(
        c.casefold() if len(c.casefold()) == 1 else c.lower() if len(c.lower()) == 1 else c
        for c in text
    )


def annotate(
    document: Document, terms: Sequence[tuple[str, str, str]], match_case: Sequence[bool]
) -> list[tuple[int, int, str, str]]:
    """Return start, end, label and concept of each mention, sorted."""
    hidden = {i for start, end, _ in document.placeholders for i in range(start, end)}
    words = words_of(document.text, hidden)
    for sentence in document.sentences or ():
        first = next((i for i, word in enumerate(words) if word.start >= sentence.start), None)
        if first is not None:
            words[first] = words[first]._replace(gap=2)
    found = []
    at = 0
    while at < len(words):
        here = [
            (length, label, concept)
            for (name, label, concept), matters in zip(terms, match_case, strict=True)
            if (length := matches(words[at:], words_of(name), matters))
        ]
        longest = max((length for length, _, _ in here), default=0)
        end = words[at + longest - 1].end
        found += [
            (words[at].start, end, label, concept)
            for length, label, concept in here
            if length == longest
        ]
        at += max(longest, 1)
    return sorted(found)


def matches(words: Sequence[Word], name: Sequence[Word], match_case: bool) -> int:
    """Return the number of words if they begin with a name, else 0."""
    if len(words) < len(name) or any(word.hidden for word in words[: len(name)]):
        return 0
    for i, (a, b) in enumerate(zip(words, name, strict=False)):
        if i and (a.gap == 2 or a.gap != min(b.gap, 1)):
            return 0
        if (a.text != b.text) if match_case else (fold(a.text) != fold(b.text)):
            return 0
    return len(name)
