"""Decides whether a full stop ends a sentence, from its neighbours.

Text comes masked: every character of a placeholder is `MASK`, which counts as a capitalised word of
unknown content.
"""

from __future__ import annotations

import re

from mslm_data.segment.wordlists import WordLists

MASK = "\x01"
"""Character that stands for each one of a placeholder."""

_CLOSERS = "\"')]}\u201d\u2019*"
_STOP = re.compile(
    # One class of characters comes first, as the scan for candidates is then many times faster.
    rf"""[.!?](?<![.!?][.!?])
        (?: [.!?]*+ [{re.escape(_CLOSERS)}]*+ (?:\s++ | \Z)      # and any white space after it
          | (?<=\w\w\.)(?=[A-Z][a-z])                            # pain.Denies
        )""",
    re.VERBOSE,
)
_WORD = re.compile(r"\w+")
_DOTTED = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]")
_STAYS = frozenset(",;:/)]}%=")
"""Characters before which no sentence ends."""
_ADDRESSES = ("http", "www")

_FARTHEST = 32
"""Characters of a word before a mark that are looked at, so that time grows with length only."""


def stops(text: str) -> list[tuple[int, int]]:
    """Find possible sentence ends: marks before white space, or as in `pain.Denies`.

    Args:
        text: Masked.

    Returns:
        For each, the first character of one or more of `.!?`, and the first one that follows, after
        quotes, brackets and white space; past the text if none does.
    """
    return [match.span() for match in _STOP.finditer(text)]


def ends_sentence(text: str, mark: int, follows: int, start: int, words: WordLists) -> bool:
    """Return whether a mark ends a sentence.

    Args:
        text: Masked.
        mark: First character of one or more of `.!?`.
        follows: First character that follows, as `stops` gives it.
        start: The first character that is looked at for words before.
        words: The word lists.
    """
    after = text[follows]
    if after in _STAYS:
        return False

    before = _word_before(text, mark, start)
    next_to_mark = text[mark + 1]
    if text[mark] != "." or next_to_mark in ".!?":
        return bool(before) and not after.islower()

    # A lone full stop, which may belong to an abbreviation; most words are not one.
    word = before.lstrip("([{\"'\u201c\u2018*").lower()
    if is_plain(word, words):
        return True
    if not word or word in words.never or (word == "no" and after.isdigit()):
        return False
    # A quote or bracket closes after it.
    if next_to_mark in _CLOSERS and not (after.islower() or after == MASK):
        return True
    return _follows_well(text, word, mark - len(before), follows, start, words)


def is_plain(word: str, words: WordLists) -> bool:
    """Return whether a lone full stop after this word ends a sentence, whatever follows."""
    return (
        len(word) > 2
        and word.isalpha()
        and word not in words.abbreviations
        and not word.startswith(_ADDRESSES)
    )


def _follows_well(
    text: str, word: str, at: int, follows: int, start: int, words: WordLists
) -> bool:
    """Return whether the text after a lone full stop begins a sentence.

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
    if len(word) < 3 and word.isdigit() and _opens_list(text, at, start):
        return False

    if word in words.rarely:
        return _next_word(text, follows).lower() in words.starters and after.isupper()

    if word in words.sometimes or ("." in word and _DOTTED.fullmatch(word)):
        # `b.i.d. PO` goes on: a word in capitals is rarely the first of a sentence.
        following = _next_word(text, follows)
        in_capitals = len(following) > 1 and following.isupper()
        return following[:1].isupper() and (not in_capitals or word in words.sometimes)

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
    """Return whether a number at `at` numbers a list item.

    It does where it is first on its line, or after the end of a sentence or a colon.
    """
    at = _back(text, at, start)
    return at == start or text[at - 1] in ".:;!?)"


def _next_word(text: str, follows: int) -> str:
    match = _WORD.match(text, follows)
    return match.group() if match else ""
