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

# Literals come first in the patterns, which makes the search many times faster.
_BLANK = re.compile(r"___(?<!____)(?!_)")
_MARK = re.compile(rf"\[\*\*|\*\*\]|{_BLANK.pattern}")
_SIMPLE = re.compile(r"\[\*\*([^\[\]]*)\*\*\]")
"""A placeholder without a nested placeholder."""
_DATE = re.compile(r"[\d/ -]*\d[\d/ -]*")


def placeholders(text: str, handling: Handling) -> tuple[Placeholder, ...]:
    """Find the outermost placeholders of a text, in order.

    A placeholder in brackets may have several lines, be empty, or contain another. An opening mark
    that is never closed is text.

    Args:
        text: The note.
        handling: Text to tokenise: "keep" the characters, "token" one word for the kind, "drop"
            nothing.
    """
    if _BLANK.search(text):
        return _outermost(text, handling)
    opening = text.count("[**")
    if not opening:
        return ()

    # Fast path for nearly all notes: no placeholder is nested, and no mark is unmatched.
    simple = list(_SIMPLE.finditer(text))
    if len(simple) == opening == text.count("**]"):
        return tuple(
            [
                Placeholder(match.start(), match.end(), _word(match[1], handling))
                for match in simple
                if len(match[0]) <= _LONGEST
            ]
        )
    return _outermost(text, handling)


def _outermost(text: str, handling: Handling) -> tuple[Placeholder, ...]:
    found: list[Placeholder] = []
    opened: list[int] = []  # starts of unmatched opening marks
    for mark in _MARK.finditer(text):
        if mark[0] == BLANK:
            found.append(Placeholder(*mark.span(), _blank_word(handling)))
        elif mark[0] == "[**":
            opened.append(mark.start())
        elif opened:
            start = opened.pop()
            end = mark.end()
            if end - start > _LONGEST:
                opened.clear()
                continue
            # Drop placeholders nested in this one.
            while found and found[-1].start > start:
                found.pop()
            found.append(Placeholder(start, end, _word(text[start + 3 : end - 3], handling)))
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


def _blank_word(handling: Handling) -> str | None:
    return {"keep": None, "token": BLANK_WORD, "drop": ""}[handling]


@functools.cache
def _kinds() -> Mapping[str, re.Pattern[str]]:
    """Return kind -> pattern of the content of its placeholders, from `vocab/placeholders.toml`."""
    table = tomllib.loads(resources.path("vocab", "placeholders.toml").read_text(encoding="utf-8"))
    return {
        name: re.compile(r"(?<![a-z])(?:" + "|".join(map(re.escape, phrases)) + ")")
        for name, phrases in table["kinds"].items()
    }
