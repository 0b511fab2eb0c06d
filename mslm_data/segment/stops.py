"""Decides whether a sentence ends at a full stop, by the word before and the character after.

Text comes masked: every character of a placeholder is `MASK`, which counts as a capitalised word of
unknown content.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mslm_data.segment.wordlists import WordLists

MASK = "\x01"
"""Character that stands for each one of a placeholder."""

_CLOSERS = r"[\"')\]}\u201d\u2019*]*+"
_INNER = re.compile(rf"(?<![.!?])[.!?]++{_CLOSERS}(?=[^\S\r\n])|(?<=\w\w)\.(?=[A-Z][a-z])")
_LAST = re.compile(rf"(?<![.!?])[.!?]++{_CLOSERS}$")
_MARKS = re.compile(r"[.!?]+")
_SPACE = re.compile(r"\s*")
_WORD = re.compile(r"\w+")
_DOTTED = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]")
_STAYS = frozenset(",;:/)]}%=")
"""Characters before which no sentence ends."""

_FARTHEST = 32
"""Characters of a word before a mark that are looked at, so that time grows with length only."""


def inner_stops(text: str, start: int, end: int, since: int, words: WordLists) -> Iterator[int]:
    """Give the places where sentences begin within a line.

    Args:
        text: Masked.
        start: First character of the line, which is not white space.
        end: Half open; the last character is not white space.
        since: The first character that is looked at for words before a mark: the line's start, or
            the start of the line before where this one continues it.
        words: The word lists.
    """
    for match in _INNER.finditer(text, start, end):
        space = _SPACE.match(text, match.end(), end)  # it matches "" too
        follows = space.end()  # type: ignore[union-attr]
        if follows < end and ends_sentence(text, match.start(), match.end(), follows, since, words):
            yield follows


def ends_line(text: str, start: int, end: int, follows: int, words: WordLists) -> bool:
    """Return whether a sentence ends at the mark that ends a line.

    Args:
        text: Masked.
        start: First character of the line.
        end: Past its last character that is not white space.
        follows: First character of the next line that has any but white space.
        words: The word lists.
    """
    match = _LAST.search(text, max(start, end - 8), end)
    if match is None:
        return False
    return ends_sentence(text, match.start(), end, follows, start, words)


def ends_sentence(
    text: str, mark: int, past: int, follows: int, start: int, words: WordLists
) -> bool:
    """Return whether a sentence ends at a mark.

    Args:
        text: Masked.
        mark: First character of one or more of `.!?`.
        past: Past the marks and the quotes and brackets that close after them.
        follows: First character after them that is not white space.
        start: The first character that is looked at for words before.
        words: The word lists.
    """
    after = text[follows]
    if after in _STAYS:
        return False

    marks = _MARKS.match(text, mark).group()  # type: ignore[union-attr]  # there is one at `mark`
    before = _word_before(text, mark, start)
    if marks != ".":
        return bool(before) and not after.islower()

    # A lone full stop, which may belong to an abbreviation.
    word = before.lstrip("([{\"'\u201c\u2018*").lower()
    if not word or word in words.never:
        return False
    if word == "no" and after.isdigit():
        return False
    # A quote or bracket closes after it.
    if past - mark > 1 and not (after.islower() or after == MASK):
        return True
    return _follows_well(text, word, mark - len(before), follows, start, words)


def _follows_well(
    text: str, word: str, at: int, follows: int, start: int, words: WordLists
) -> bool:
    """Return whether a lone full stop ends a sentence, by what follows.

    Args:
        text: Masked.
        word: The word before the full stop, in lower case.
        at: First character of that word.
        follows: First character after the full stop that is not white space.
        start: The first character that is looked at for words before.
        words: The word lists.
    """
    after = text[follows]

    # `J. Smith` goes on, `hepatitis C. Labs` does not.
    if len(word) == 1 and word.isalpha():
        kind = _word_before(text, _back(text, at, start), start).lower()
        return kind in words.lettered and after.isupper()

    # `Plan: 1. Rest`.
    if word.isdigit() and len(word) < 3 and _opens_list(text, at, start):
        return False

    if word in words.rarely:
        return _next_word(text, follows).lower() in words.starters and after.isupper()

    if word in words.sometimes or _DOTTED.fullmatch(word):
        # `b.i.d. PO` goes on: a word in capitals is rarely the first of a sentence.
        following = _next_word(text, follows)
        in_capitals = len(following) > 1 and following.isupper()
        return following[:1].isupper() and (not in_capitals or word in words.sometimes)

    if after.islower():
        return len(word) > 2 or word[-1].isdigit()

    is_address = "@" in word or "\\" in word or word.startswith(("http", "www"))
    return not is_address


def _word_before(text: str, mark: int, start: int) -> str:
    """Return the characters between the last white space and `mark`, at most `_FARTHEST`."""
    at = mark
    start = max(start, mark - _FARTHEST)
    while at > start and not text[at - 1].isspace():
        at -= 1
    return text[at:mark]


def _back(text: str, at: int, start: int) -> int:
    """Return the place past the last character before `at` that is not white space."""
    while at > start and text[at - 1].isspace():
        at -= 1
    return at


def _opens_list(text: str, at: int, start: int) -> bool:
    """Return whether a number at `at` counts an item of a list.

    It does where it is first on its line, or after the end of a sentence or a colon.
    """
    at = _back(text, at, start)
    return at == start or text[at - 1] in ".:;!?)"


def _next_word(text: str, follows: int) -> str:
    match = _WORD.match(text, follows)
    return match.group() if match else ""
