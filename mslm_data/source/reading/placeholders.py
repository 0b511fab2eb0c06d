"""Finds the placeholders for names and dates in de-identified notes.

MIMIC-III writes `[**Hospital1 18**]`, with the kind of the removed text. MIMIC-IV writes `___` for
everything: https://mimic.mit.edu/docs/iv/modules/note/.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from typing import Literal

from mslm_data.data.document import Placeholder
from mslm_data.io import resources

Handling = Literal["keep", "token", "drop"]
"""Text to tokenise for a placeholder: its characters, a word for its kind, or nothing."""
UNKNOWN = "unknown"
"""Kind of a placeholder in brackets without a known phrase."""

_LONGEST = 200
"""Maximum number of characters of a placeholder. The longest in MIMIC-III have about 60; more come
from a stray mark that is closed pages later."""
BLANK = "___"
"""A placeholder without a kind. A longer run of underscores is a ruler, not a placeholder."""
BLANK_WORD = "_"
"""Word for a blank. It has no kind, and room for three characters only."""


def _nested(levels: int) -> str:
    """Return the pattern of what is between two marks, with placeholders in so many levels."""
    characters = r"[^\[*]++|\[(?!\*\*)|\*(?!\*\])"
    if not levels:
        return rf"(?:{characters})*+"
    return rf"(?:{characters}|\[\*\*{_nested(levels - 1)}\*\*\])*+"


_PLACEHOLDER = re.compile(rf"___(?<!____)(?!_)|\[\*\*({_nested(3)})\*\*\]")
_DATE = re.compile(r"[\d/ -]*\d[\d/ -]*")


def placeholders(text: str, handling: Handling) -> tuple[Placeholder, ...]:
    """Find the outermost placeholders of a text, in order.

    A placeholder in brackets may have several lines, be empty, or contain others. An opening mark
    that is never closed is text.

    Args:
        text: The note.
        handling: Text to tokenise: "keep" the characters, "token" one word for the kind, "drop"
            nothing.
    """
    # Searching for literals is many times faster than matching.
    if "[**" not in text and BLANK not in text:
        return ()

    blank_word = {"keep": None, "token": BLANK_WORD, "drop": ""}[handling]
    found: list[Placeholder] = []
    position = 0
    while match := _PLACEHOLDER.search(text, position):
        start, position = match.span()
        if position - start > _LONGEST:
            # A stray mark, so the placeholders after it are not nested.
            position = start + 1
        elif match[1] is None:
            found.append(Placeholder(start, position, blank_word))
        else:
            found.append(Placeholder(start, position, _word(match[1], handling)))
    return tuple(found)


@functools.lru_cache(maxsize=1 << 14)
def kind(content: str) -> str:
    """Return the kind of a placeholder, the first in the table that matches its content."""
    words = " ".join(content.split()).casefold()
    if _DATE.fullmatch(words):
        return "date"
    return next((name for name, pattern in _kinds().items() if pattern.search(words)), UNKNOWN)


def _word(content: str, handling: Handling) -> str | None:
    if handling == "keep":
        return None
    if handling == "drop":
        return ""
    # Dates are frequent, and recognised without the table.
    return "date" if _DATE.fullmatch(content) else kind(content)


@functools.cache
def _kinds() -> Mapping[str, re.Pattern[str]]:
    """Return kind -> pattern of the content of its placeholders, from `vocab/placeholders.toml`."""
    table = tomllib.loads(resources.path("vocab", "placeholders.toml").read_text(encoding="utf-8"))
    return {
        name: re.compile(r"(?<![a-z])(?:" + "|".join(map(re.escape, phrases)) + ")")
        for name, phrases in table["kinds"].items()
    }
