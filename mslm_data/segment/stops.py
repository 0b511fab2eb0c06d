"""Decides whether a full stop ends a sentence, by the characters and words around it.

Text is masked: all characters of placeholders are replaced by `MASK`. A placeholder counts as a
capitalised word.
"""

from __future__ import annotations

import re

from mslm_data.segment.wordlists import ABBREVIATIONS, LETTERED, NEVER, RARELY, SOMETIMES, STARTERS

MASK = "\x01"
"""Replacement for each character of a placeholder."""

_CLOSERS = "\"')]}\u201d\u2019*"
_STOP = re.compile(
    # The pattern starts with a single character class, which makes the search many times faster.
    rf"""[.!?](?<![.!?][.!?])
        (?: [.!?]*+ [{re.escape(_CLOSERS)}]*+ (?:\s++ | \Z)      # followed by white space
          | (?<=\w\w\.)(?=[A-Z][a-z])                            # pain.Denies
        )""",
    re.VERBOSE,
)
_WORD = re.compile(r"\w+")
_DOTTED = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]")
_STAYS = frozenset(",;:/)]}%=")
"""A mark before one of these does not end a sentence."""
_ADDRESSES = ("http", "www")

_FARTHEST = 32
"""Maximum number of characters read before a mark, so that run time is linear in the length."""


def stops(text: str) -> list[tuple[int, int]]:
    """Find possible sentence ends: marks (`.!?`) before white space, or as in `pain.Denies`.

    Args:
        text: Masked text.

    Returns:
        Positions of the mark, and of the next character after quotes, brackets and white space, or
        the end of the text.
    """
    return [match.span() for match in _STOP.finditer(text)]


def ends_sentence(text: str, mark: int, follows: int, start: int) -> bool:
    """Return whether a mark ends a sentence.

    Args:
        text: Masked text.
        mark: Position of the mark, from `stops`.
        follows: Position of the next character, from `stops`.
        start: First character of the sentence; the search for words before the mark ends here.
    """
    after = text[follows]
    if after in _STAYS:
        return False

    before = _word_before(text, mark, start)
    next_to_mark = text[mark + 1]
    if text[mark] != "." or next_to_mark in ".!?":
        return bool(before) and not after.islower()

    # A single full stop may belong to an abbreviation, but not after most words.
    word = before.lstrip("([{\"'\u201c\u2018*").lower()
    if _is_plain(word):
        return True
    if not word or word in NEVER or (word == "no" and after.isdigit()):
        return False
    # A closing quote or bracket follows.
    if next_to_mark in _CLOSERS and not (after.islower() or after == MASK):
        return True
    return _follows_well(text, word, mark - len(before), follows, start)


def _is_plain(word: str) -> bool:
    """Return whether a single full stop after this word always ends a sentence."""
    return (
        len(word) > 2
        and word.isalpha()
        and word not in ABBREVIATIONS
        and not word.startswith(_ADDRESSES)
    )


def _follows_well(text: str, word: str, at: int, follows: int, start: int) -> bool:
    """Return whether the text after a single full stop starts a sentence.

    Args:
        text: Masked text.
        word: Lower-case word before the full stop.
        at: First character of this word.
        follows: Position of the next character that is not white space.
        start: First character of the sentence; the search for words before the mark ends here.
    """
    after = text[follows]

    # `J. Smith` is not a sentence end, `hepatitis C. Labs` is.
    if len(word) == 1 and word.isalpha():
        kind = _word_before(text, _back(text, at, start), start).lower()
        return kind in LETTERED and after.isupper()

    # The number of a list item: `Plan: 1. Rest`.
    if len(word) < 3 and word.isdigit() and _opens_list(text, at, start):
        return False

    if word in RARELY:
        return _next_word(text, follows).lower() in STARTERS and after.isupper()

    if word in SOMETIMES or ("." in word and _DOTTED.fullmatch(word)):
        # `b.i.d. PO` is not a sentence end: a word in capitals is rarely the first of a sentence.
        following = _next_word(text, follows)
        in_capitals = len(following) > 1 and following.isupper()
        return following[:1].isupper() and (not in_capitals or word in SOMETIMES)

    if after.islower():
        return len(word) > 2 or word[-1].isdigit()

    is_address = "@" in word or "\\" in word or word.startswith(_ADDRESSES)
    return not is_address


def _word_before(text: str, mark: int, start: int) -> str:
    """Return the characters from the last white space to `mark`, at most `_FARTHEST`."""
    farthest = mark - _FARTHEST
    before = text[farthest if farthest > start else start : mark]
    if not before or before[-1].isspace():
        return ""
    return before.rsplit(None, 1)[-1]


def _back(text: str, at: int, start: int) -> int:
    """Return the position after the last character before `at` that is not white space."""
    while at > start and text[at - 1].isspace():
        at -= 1
    return at


def _opens_list(text: str, at: int, start: int) -> bool:
    """Return whether a number is the number of a list item: first, or after a mark or colon."""
    at = _back(text, at, start)
    return at == start or text[at - 1] in ".:;!?)"


def _next_word(text: str, follows: int) -> str:
    match = _WORD.match(text, follows)
    return match.group() if match else ""
