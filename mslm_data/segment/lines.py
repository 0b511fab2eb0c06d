"""Reads the lines of a clinical note: heads, items of lists, rulers, and text that may go on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from string import ascii_lowercase, ascii_uppercase

from mslm_data.segment.stops import MASK
from mslm_data.segment.wordlists import WordLists

_LINE = re.compile(r"[^\r\n\v\f\x85\u2028\u2029]+")
_ITEM = re.compile(
    r"""(?: \d{1,2}[.)] | \(\d{1,2}\)                                   # 1. 1) (1)
          | \([a-z]\) | [a-zA-Z]\) | [A-Z]\.(?=\s+[A-Z][a-z])           # (a) a) A. Word
          | [ivxIVX]{2,4}[.)]                                           # iv.
          | [-*+>~]+ | --+>?                                            # - * --> and so on
        )\s+(?=\S)
        | [\u2022\u25cf\u25aa\u25e6\u00b7\u2013\u2014]\s*               # bullets and dashes
        | \#+\s*(?=\w)                                                 # 1. of a problem list
        | [-*](?=[^\W\d_])                                             # -without a space""",
    re.VERBOSE,
)
_NUMBER = re.compile(r"\(?(\d{1,2})[.)]")
_HEAD = re.compile(r"(?:\x01++ ?)*+[^\W_][\w /&()'\u2019,+-]{0,58}:$")
_RUN_IN = re.compile(
    r"""# Past History: none
        ([^\W_][\w/&()'\u2019.+-]*(?:\ [\w/&()'\u2019,.\#+-]+){0,5})\ ?:(?=\s|$|[^\W\d_]{2})
        # NEURO- intact
        | [^\W\d_]{2,12}[-\u2013]\ (?=\w)""",
    re.VERBOSE,
)
_RULER = re.compile(r"(?:[^\w\x01]|_){4,}$")
_SMALL = ascii_lowercase.encode()
_CAPITAL = ascii_uppercase.encode()

_ENDS = ".!?"
_DANGLING = ",(/&+"
"""A line that ends with one of these goes on."""

_SHORTEST_WRAP = 40
_WIDEST = 120
"""Between these numbers of characters a line may have been wrapped at a width."""

_RAGGED = 25
"""Characters that a wrapped line may fall short of the width."""


@dataclass(slots=True)
class NoteLine:
    """A line that has any character but white space.

    Attributes:
        start: First character that is not white space.
        end: Past the last such character.
        first: First character of the line itself, white space or not.
        blank_before: Whether an empty line, or a new page, comes before it.
        item: Length of its list marker with the white space after it; 0 for none.
        number: The number in its list marker; -1 for none.
        loose: Whether it begins with a number that could count items but continues no list.
        head: Whether the whole line is the head of what follows.
        run_in: Whether it begins with a head and a colon.
        ruler: Whether it has no word in it.
    """

    start: int
    end: int
    first: int
    blank_before: bool
    item: int = 0
    number: int = -1
    loose: bool = False
    head: bool = False
    run_in: bool = False
    ruler: bool = False


def in_capitals(text: str) -> bool:
    """Return whether a note is written in capitals, so that capitals mark nothing.

    Only ASCII letters are counted.
    """
    # Deleting bytes is many times faster than asking each character.
    letters = text.encode("ascii", "ignore")
    without_small = len(letters.translate(None, _SMALL))
    num_small = len(letters) - without_small
    num_capital = without_small - len(letters.translate(None, _SMALL + _CAPITAL))
    return num_small * 5 < num_capital


def read_lines(text: str, words: WordLists, *, capitals: bool) -> list[NoteLine]:
    """Return the lines of a note that have any character but white space.

    Args:
        text: Masked.
        words: The word lists.
        capitals: Whether the note is written in capitals.
    """
    lines: list[NoteLine] = []
    past = 0
    for match in _LINE.finditer(text):
        content = match.group()
        stripped = content.strip()
        if not stripped:
            continue

        first = match.start()
        start = first + len(content) - len(content.lstrip())
        end = start + len(stripped)

        # A form feed begins a page.
        gap = text[past:start]
        blank_before = gap.count("\n") > 1 or gap.count("\r") > 1 or "\f" in gap

        line = NoteLine(start, end, first, blank_before)
        _describe(line, stripped, words, capitals=capitals)
        lines.append(line)
        past = end
    return lines


def _describe(line: NoteLine, content: str, words: WordLists, *, capitals: bool) -> None:
    """Set what a line is: a ruler, an item of a list, a head or text with a head before it."""
    line.ruler = bool(_RULER.match(content))
    if line.ruler:
        return

    item = _ITEM.match(content)
    if item:
        line.item = item.end()
        number = _NUMBER.match(content)
        line.number = int(number.group(1)) if number else -1
    else:
        line.head = _is_head(content, words, capitals=capitals)

    # A head in small letters is one word: `plan: rest`, but not `he was told: rest`.
    shown = content[line.item :]
    run_in = _RUN_IN.match(shown)
    if run_in:
        line.run_in = not shown[0].islower() or " " not in run_in.group().strip()


def _is_head(content: str, words: WordLists, *, capitals: bool) -> bool:
    """Return whether a line heads a section.

    It does by its colon, by its name, or because it alone is in capitals.
    """
    if _HEAD.match(content) and (not content[0].islower() or content.count(" ") < 2):
        return content.count(" ") < 8
    if content.lower().rstrip(" :") in words.heads:
        return True

    if capitals or not content.isupper():
        return False
    if len(content) >= 60 or content[-1] in _ENDS or MASK in content:
        return False
    if any(map(str.isdigit, content)):
        return False
    shortest = 3 if " " in content else 5
    return sum(map(str.isalpha, content)) > shortest


def wrap_width(text: str, lines: Sequence[NoteLine], *, capitals: bool) -> int:
    """Return the width at which a note is wrapped, in characters; 0 where it seems not to be.

    This is the longest line that visibly goes on: the next begins with a small letter. In a note in
    capitals it is the longest line.
    """
    if not capitals:
        return max(_wrapped_lengths(text, lines), default=0)
    widest = max((line.end - line.first for line in lines), default=0)
    return widest if _SHORTEST_WRAP < widest < _WIDEST else 0


def _wrapped_lengths(text: str, lines: Sequence[NoteLine]) -> Iterator[int]:
    """Give the lengths of lines that go on in a line that begins with a small letter."""
    for line, following in pairwise(lines):
        length = line.end - line.first
        if not _SHORTEST_WRAP <= length < _WIDEST:
            continue
        if following.item or following.run_in or following.blank_before:
            continue
        if text[following.start].islower() and text[line.end - 1] not in ".!?:":
            yield length


def goes_on(text: str, line: NoteLine, following: NoteLine, width: int, words: WordLists) -> bool:
    """Return whether a line that ends without a full stop goes on in the next.

    Args:
        text: Masked.
        line: The line.
        following: The next line, not an item of a list and not a head.
        width: The width at which the note is wrapped; 0 if it is not.
        words: The word lists.
    """
    last = text[line.end - 1]
    if last in _DANGLING or (last == "-" and text[line.end - 2].isalnum()):
        return True
    small = text[following.start].islower() or following.loose
    if last in ";:" and not small:
        return False

    # Words such as `of` and `Dr.` end no sentence.
    tail = text[max(line.start, line.end - 12) : line.end].rsplit(None, 1)[-1]
    if tail in words.joiners or tail.lower().rstrip(".") in words.never:
        return True

    # A line was wrapped if its next word had no room. Before a small letter a ragged edge will do.
    first_word = text[following.start : following.end].split(None, 1)[0]
    to_spare = width - (line.end - line.first) - 1 - len(first_word)
    if small:
        return width > 0 and to_spare <= _RAGGED
    if line.item:
        # The text of an item, indented under its marker.
        text_column = line.start - line.first + line.item
        if following.start - following.first == text_column:
            return True
    return width > 0 and to_spare < 0
