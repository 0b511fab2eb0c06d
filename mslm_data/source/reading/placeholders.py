"""Finds the placeholders of de-identified notes, which stand in place of names and dates.

MIMIC-III writes `[**Hospital1 18**]`, which says what was there. MIMIC-IV writes `___`, whatever it
was: https://mimic.mit.edu/docs/iv/modules/note/.
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
"""Text that is tokenised for a placeholder: its characters, a word for its kind, or nothing."""
UNKNOWN = "unknown"
"""Kind of a placeholder in brackets that does not say what it stands for."""

_LONGEST = 200
"""Most characters of a placeholder; the longest of MIMIC-III have about 60. More come from a stray
mark and another one pages later."""
BLANK = "___"
"""A placeholder that does not. In a longer run of underscores there is none: that is a ruler."""
BLANK_WORD = "_"
"""Word of a blank, which has no kind, and room for three characters."""

# Literals come first, as the scan for them is then many times faster.
_BLANK = re.compile(r"___(?<!____)(?!_)")
_MARK = re.compile(rf"\[\*\*|\*\*\]|{_BLANK.pattern}")
_SIMPLE = re.compile(r"\[\*\*([^\[\]]*)\*\*\]")
"""A placeholder without another one in it."""
_DATE = re.compile(r"[\d/ -]*\d[\d/ -]*")


def placeholders(text: str, handling: Handling) -> tuple[Placeholder, ...]:
    """Find the outermost placeholders of a text, by rising position.

    A placeholder in brackets may run over several lines, be empty, or hold another. A mark that
    opens and is never closed is text.

    Args:
        text: The note.
        handling: What is tokenised: "keep" their characters, "token" one word for the kind of each,
            "drop" nothing.
    """
    if _BLANK.search(text):
        return _outermost(text, handling)
    opening = text.count("[**")
    if not opening:
        return ()

    # As a rule no placeholder holds another, and no mark is alone.
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
    """Find the outermost placeholders of any text."""
    found: list[Placeholder] = []
    opened: list[int] = []
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
            # Those found within this one are its own.
            while found and found[-1].start > start:
                found.pop()
            found.append(Placeholder(start, end, _word(text[start + 3 : end - 3], handling)))
    return tuple(found)


@functools.lru_cache(maxsize=1 << 14)
def kind(content: str) -> str:
    """Return the kind of a placeholder, the first in the table that fits its content."""
    words = " ".join(content.split()).casefold()
    if _DATE.fullmatch(words):
        return "date"
    return next((name for name, pattern in _kinds().items() if pattern.search(words)), UNKNOWN)


def _word(content: str, handling: Handling) -> str | None:
    if handling == "keep":
        return None
    if handling == "drop":
        return ""
    # Dates are many, and told apart without the table.
    return "date" if _DATE.fullmatch(content) else kind(content)


def _blank_word(handling: Handling) -> str | None:
    return {"keep": None, "token": BLANK_WORD, "drop": ""}[handling]


@functools.cache
def _kinds() -> Mapping[str, re.Pattern[str]]:
    """Return kind -> pattern of what its placeholders hold, from `vocab/placeholders.toml`."""
    table = tomllib.loads(resources.path("vocab", "placeholders.toml").read_text(encoding="utf-8"))
    return {
        name: re.compile(r"(?<![a-z])(?:" + "|".join(map(re.escape, phrases)) + ")")
        for name, phrases in table["kinds"].items()
    }
