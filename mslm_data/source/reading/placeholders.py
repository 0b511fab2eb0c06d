"""Finds what de-identification left in a note in place of names and dates: `[**Hospital1 18**]`."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from typing import Literal

from mslm_data.data.document import Placeholder
from mslm_data.io import resources

Handling = Literal["keep", "token", "drop"]
UNKNOWN = "unknown"
"""Kind of a placeholder that does not say what it stands for."""
_LONGEST = 200  # of MIMIC-III's, the longest have some 60; a stray mark and another one pages later are none
_MARK = re.compile(r"\[\*\*|\*\*\]")
_DATE = re.compile(r"[\d/ -]*\d[\d/ -]*")


def placeholders(text: str, handling: Handling) -> tuple[Placeholder, ...]:
    """Return where a text has placeholders, outermost ones, by rising position.

    One may be broken over lines, be empty, or hold another; a mark that opens and is never closed is text.

    Args:
        text: The note.
        handling: "keep" tokenises their characters, "token" one word for the kind of each, "drop" nothing.
    """
    if "[**" not in text:
        return ()
    found: list[Placeholder] = []
    opened: list[int] = []
    for mark in _MARK.finditer(text):
        if mark[0] == "[**":
            opened.append(mark.start())
        elif opened:
            start, end = opened.pop(), mark.end()
            if end - start > _LONGEST:
                opened.clear()
                continue
            while found and found[-1].start > start:
                found.pop()
            found.append(Placeholder(start, end, _word(text[start + 3 : end - 3], handling)))
    return tuple(found)


@functools.lru_cache(maxsize=4096)
def kind(content: str) -> str:
    """Return what a placeholder stands for, by what is between its marks: the first kind of the table that fits."""
    words = " ".join(content.split()).casefold()
    if _DATE.fullmatch(words):
        return "date"
    return next((name for name, pattern in _kinds().items() if pattern.search(words)), UNKNOWN)


def _word(content: str, handling: Handling) -> str | None:
    if handling == "keep":
        return None
    return kind(content) if handling == "token" else ""


@functools.cache
def _kinds() -> Mapping[str, re.Pattern[str]]:
    """Return kind -> what its placeholders hold, from `vocab/placeholders.toml`."""
    table = tomllib.loads(resources.path("vocab", "placeholders.toml").read_text(encoding="utf-8"))
    return {
        name: re.compile(r"(?<![a-z])(?:" + "|".join(map(re.escape, phrases)) + ")")
        for name, phrases in table["kinds"].items()
    }
