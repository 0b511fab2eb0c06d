"""Does a sentence end at this full stop? Marks are judged by the word before them and the character after.

Text comes masked: every character of a placeholder is `MASK`, which counts as a capitalised word of unknown content.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mslm_data.segment.wordlists import WordLists

MASK = "\x01"
"""What stands for each character of a placeholder."""

_CLOSERS = r"[\"')\]}\u201d\u2019*]*+"
_INNER = re.compile(rf"(?<![.!?])[.!?]++{_CLOSERS}(?=[^\S\r\n])|(?<=\w\w)\.(?=[A-Z][a-z])")
_LAST = re.compile(rf"(?<![.!?])[.!?]++{_CLOSERS}$")
_MARKS = re.compile(r"[.!?]+")
_SPACE = re.compile(r"\s*")
_WORD = re.compile(r"\w+")
_DOTTED = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]")
_STAYS = frozenset(",;:/)]}%=")


def inner_stops(text: str, start: int, end: int, since: int, words: WordLists) -> Iterator[int]:
    """Give where sentences begin within a line.

    Args:
        text: Masked.
        start: First character of the line, which is not white space.
        end: Half open; the last character is not white space.
        since: How far back words before a mark are looked at: the line's start, or that of the line that it goes on.
        words: The word lists.
    """
    for match in _INNER.finditer(text, start, end):
        follows = _SPACE.match(text, match.end(), end).end()  # type: ignore[union-attr]  # it matches ""
        if follows < end and ends_sentence(text, match.start(), match.end(), follows, since, words):
            yield follows


def ends_line(text: str, start: int, end: int, follows: int, words: WordLists) -> bool:
    """Say whether a sentence ends at the mark that ends a line.

    Args:
        text: Masked.
        start: First character of the line.
        end: Past its last character that is not white space.
        follows: First character of the next line with any.
        words: The word lists.
    """
    match = _LAST.search(text, max(start, end - 8), end)
    return bool(match) and ends_sentence(text, match.start(), end, follows, start, words)  # type: ignore[union-attr]


def ends_sentence(
    text: str, mark: int, past: int, follows: int, start: int, words: WordLists
) -> bool:
    """Say whether a sentence ends at a mark.

    Args:
        text: Masked.
        mark: First character of one or more of `.!?`.
        past: Past the marks and what closes after them.
        follows: First character that is not white space after them.
        start: How far back words are looked at.
        words: The word lists.
    """
    after = text[follows]
    if after in _STAYS:
        return False
    marks = _MARKS.match(text, mark).group()  # type: ignore[union-attr]  # the caller found marks there
    before = _word_before(text, mark, start)
    if marks != ".":
        return bool(before) and not after.islower()
    word = before.lstrip("([{\"'\u201c\u2018*").lower()
    if not word or word in words.never:
        return False
    if word == "no" and after.isdigit():
        return False
    if past - mark > 1 and not (after.islower() or after == MASK):
        return True
    return _follows_well(text, word, mark - len(before), follows, start, words)


def _follows_well(
    text: str, word: str, at: int, follows: int, start: int, words: WordLists
) -> bool:
    """Judge a lone full stop after `word`, which begins at `at`, by what follows."""
    after = text[follows]
    if len(word) == 1 and word.isalpha():
        kind = _word_before(text, _back(text, at, start), start).lower()
        return kind in words.lettered and after.isupper()
    if word.isdigit() and len(word) < 3 and _opens_list(text, at, start):
        return False
    if word in words.rarely:
        return _next_word(text, follows).lower() in words.starters and after.isupper()
    if word in words.sometimes or _DOTTED.fullmatch(word):
        following = _next_word(text, follows)
        return following[:1].isupper() and (
            len(following) == 1 or not following.isupper() or word in words.sometimes
        )
    if after.islower():
        return len(word) > 2 or word[-1].isdigit()
    return not any(c in word for c in "@\\") and not word.startswith(("http", "www"))


def _word_before(text: str, mark: int, start: int) -> str:
    """Return the characters, up to 32, between the last white space and `mark`; "" if there are none."""
    at = mark
    start = max(start, mark - 32)
    while at > start and not text[at - 1].isspace():
        at -= 1
    return text[at:mark]


def _back(text: str, at: int, start: int) -> int:
    """Return the place past the last character before `at` that is not white space."""
    while at > start and text[at - 1].isspace():
        at -= 1
    return at


def _opens_list(text: str, at: int, start: int) -> bool:
    """Say whether a number at `at` counts an item: first on its line, or after the end of a sentence or a colon."""
    at = _back(text, at, start)
    return at == start or text[at - 1] in ".:;!?)"


def _next_word(text: str, follows: int) -> str:
    match = _WORD.match(text, follows)
    return match.group() if match else ""
