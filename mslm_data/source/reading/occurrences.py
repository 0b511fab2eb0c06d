"""Finds mentions without offsets by their words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Annotated, Literal

from msgspec import Meta

from mslm_data.data.reason import Reason
from mslm_data.source.form import Findings
from mslm_data.source.reading.standoff import Annotation

Occurrences = Literal["once", "first", "all"]
OccurrencesOption = Annotated[
    Occurrences,
    Meta(
        description="Place of mentions without offsets, whose words are searched in the text. "
        '"once": words that occur as often as they are listed; "first": the first occurrence, '
        'the second one if they are listed again, and so on; "all": all occurrences. Case is '
        "ignored if the text has the words in another case only."
    ),
]

REPEATED = Reason(
    "without matching offsets, and its words occur several times",
    advice={
        "occurrences": 'set source.occurrences to "first" for the first occurrence of the words, '
        'the second one if they are listed again, and so on, or to "all" for all of them'
    },
)
ABSENT = Reason("without matching offsets, and its words are not in the text")
SURPLUS = Reason("without matching offsets, and listed more often than its words occur")
"""Reasons for mentions whose words cannot be found."""
_BY_WORDS = 'without matching offsets, placed by their words (occurrences = "{}")'
IN_OTHER_CASE = "without matching offsets, found in other upper or lower case"
"""Reasons in `Document.adjusted`, the second for words that the text has in another case only."""


def place_words(
    annotations: Sequence[Annotation],
    found: Findings,
    occurrences: Occurrences,
    *,
    taken: Collection[tuple[int, int]] = (),
) -> list[Annotation]:
    """Give mentions without offsets the place of their words in the text, and count the others.

    Args:
        annotations: Mentions. Those with offsets or without words are not changed.
        found: Has the text, and counts mentions that are placed, and that are left out.
        occurrences: Which occurrences of the words are mentions.
        taken: Places of other mentions, at which none is placed.
    """
    alone = [one for one in annotations if one.words and not one.fragments]
    num_listed = Counter((one.words, one.label) for one in alone)
    num_before: Counter[tuple[str | None, str]] = Counter()
    placed = []
    for one in annotations:
        if one.fragments or not one.words:
            placed.append(one)
            continue
        key = (one.words, one.label)
        places = [place for place in _find(one.words, found.text) if place not in taken]
        chosen = places[num_before[key] :][:1]
        if not places:
            found.left_out[ABSENT] += 1
        elif not chosen:
            found.left_out[SURPLUS] += 1
        elif occurrences == "once" and len(places) > num_listed[key]:
            chosen = []
            found.left_out[REPEATED] += 1
        elif occurrences == "all":
            chosen = [] if num_before[key] else places
        num_before[key] += 1
        for start, end in chosen:
            words = found.text[start:end]
            is_same = words.split() == one.words.split()
            found.adjusted[_BY_WORDS.format(occurrences) if is_same else IN_OTHER_CASE] += 1
            placed.append(one._replace(fragments=((start, end),), words=words))
    return placed


def _find(words: str, text: str) -> list[tuple[int, int]]:
    """Return the places of some words in a text, with any white space between them.

    Words in the same case are preferred to those in another case, as "ALL" may be a disease that
    "all" is not, and both to parts of words.
    """
    pattern = r"\s+".join(map(re.escape, words.split()))
    if not pattern:
        return []
    parts: list[tuple[int, int]] = []
    for flags in (re.NOFLAG, re.IGNORECASE):
        found = [match.span() for match in re.finditer(pattern, text, flags)]
        whole = [place for place in found if not any(is_within_word(text, end) for end in place)]
        if whole:
            return whole
        parts = parts or found
    return parts


def is_within_word(text: str, place: int) -> bool:
    """Return whether a place is between two letters or digits of a script with spaces."""
    beside = text[place - 1 : place + 1] if place else ""
    return len(beside) == 2 and all(_is_cased(letter) for letter in beside)


def _is_cased(letter: str) -> bool:
    return letter.islower() or letter.isupper() or letter.isdigit()
