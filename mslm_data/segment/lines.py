"""Reads the lines of a clinical note: headings, list items, rulers and running text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from string import ascii_lowercase, ascii_uppercase

from mslm_data.segment.stops import MASK
from mslm_data.segment.wordlists import WordLists

_ITEM = re.compile(
    r"""(?: (\d{1,2})[.)] | \((\d{1,2})\)                               # 1. 1) (1)
          | \([a-z]\) | [a-zA-Z]\) | [A-Z]\.(?=\s+[A-Z][a-z])           # (a) a) A. Word
          | [ivxIVX]{2,4}[.)]                                           # iv.
          | [-*+>~]+ | --+>?                                            # - * --> and so on
        )\s+(?=\S)
        | [\u2022\u25cf\u25aa\u25e6\u00b7\u2013\u2014]\s*               # bullets and dashes
        | \#+\s*(?=\w)                                                 # 1. of a problem list
        | [-*](?=[^\W\d_])                                             # -without a space""",
    re.VERBOSE,
)
_HEAD = re.compile(r"(?:\x01++ ?)*+[^\W_][\w /&()'\u2019,+-]{0,58}:$")
_RUN_IN = re.compile(  # Past History: none
    r"[^\W_][\w/&()'\u2019.+-]*(?: [\w/&()'\u2019,.#+-]+){0,5} ?:(?=\s|$|[^\W\d_]{2})"
)
_DASHED = re.compile(r"[^\W\d_]{2,12}[-\u2013] (?=\w)")  # NEURO- intact
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
    """A line that is not blank.

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
        mark_before: First character of the mark that ends the line before; -1 for none.
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
    mark_before: int = -1


def in_capitals(text: str) -> bool:
    """Return whether a note is all in capitals, so that capitals carry no information.

    Only ASCII letters are counted.
    """
    # Deleting bytes is many times faster than asking each character.
    letters = text.encode("ascii", "ignore")
    without_small = letters.translate(None, _SMALL)
    without_any = without_small.translate(None, _CAPITAL)
    num_small = len(letters) - len(without_small)
    num_capital = len(without_small) - len(without_any)
    return num_small * 5 < num_capital


def read_lines(text: str, words: WordLists, *, capitals: bool) -> list[NoteLine]:
    """Return the lines of a note that are not blank.

    Args:
        text: Masked.
        words: The word lists.
        capitals: Whether the note is written in capitals.
    """
    # The separators of ASCII end no line of a note, but they do for `splitlines`.
    parted = text.replace("\x1c", "\t").replace("\x1d", "\t").replace("\x1e", "\t")

    lines: list[NoteLine] = []
    past = 0
    next_first = 0
    for whole in parted.splitlines(keepends=True):
        first = next_first
        next_first += len(whole)
        content = whole.strip()
        if not content:
            continue

        start = first
        if whole[0].isspace():
            start += len(whole) - len(whole.lstrip())

        # A form feed begins a page.
        gap = text[past:start]
        blank_before = gap != "\n" and (gap.count("\n") > 1 or gap.count("\r") > 1 or "\f" in gap)

        past = start + len(content)
        line = NoteLine(start, past, first, blank_before)
        _describe(line, content, words, capitals=capitals)
        lines.append(line)
    return lines


def _describe(line: NoteLine, content: str, words: WordLists, *, capitals: bool) -> None:
    """Classify a line: a ruler, a list item, a heading, or text with an optional heading."""
    has_word = content[-1].isalnum() or content[0].isalnum()
    if not has_word and _RULER.match(content):
        line.ruler = True
        return

    item = _ITEM.match(content)
    if item:
        line.item = item.end()
        if item.lastindex:
            line.number = int(item[item.lastindex])
        content = content[line.item :]
    elif _is_head(content, words, capitals=capitals):
        line.head = True

    # Of a line that is a head, this is asked only where it begins with a small letter.
    if not line.head or content[0].islower():
        line.run_in = _begins_with_head(content)


def _is_head(content: str, words: WordLists, *, capitals: bool) -> bool:
    """Return whether a line is a section heading.

    It does by its colon, by its name, or because it alone is in capitals.
    """
    has_colon = content[-1] == ":"
    if has_colon and _HEAD.match(content) and (not content[0].islower() or content.count(" ") < 2):
        return content.count(" ") < 8
    may_be_named = has_colon or len(content) <= words.longest_head
    if may_be_named and content.lower().rstrip(" :") in words.heads:
        return True

    if capitals or not content.isupper():
        return False
    if len(content) >= 60 or content[-1] in _ENDS or MASK in content:
        return False
    if any(map(str.isdigit, content)):
        return False
    shortest = 3 if " " in content else 5
    return sum(map(str.isalpha, content)) > shortest


def _begins_with_head(content: str) -> bool:
    """Return whether text begins with a heading and a colon or dash.

    A head in small letters is one word: `plan: rest`, but not `he was told: rest`.
    """
    head = _RUN_IN.match(content) if ":" in content else None
    if head is None and ("- " in content or "\u2013 " in content):
        head = _DASHED.match(content)
    return head is not None and (not content[0].islower() or " " not in head.group().strip())


def wrap_width(text: str, lines: Sequence[NoteLine], *, capitals: bool) -> int:
    """Estimate the width at which a note is wrapped, in characters; 0 if it is not wrapped.

    This is the longest line that visibly goes on: the next begins with a small letter. In a note in
    capitals it is the longest line.
    """
    if not capitals:
        return max(_wrapped_lengths(text, lines), default=0)
    widest = max((line.end - line.first for line in lines), default=0)
    return widest if _SHORTEST_WRAP < widest < _WIDEST else 0


def _wrapped_lengths(text: str, lines: Sequence[NoteLine]) -> Iterator[int]:
    """Yield the lengths of lines that continue in a line with a small first letter."""
    for line, following in pairwise(lines):
        length = line.end - line.first
        if not _SHORTEST_WRAP <= length < _WIDEST:
            continue
        if following.item or following.run_in or following.blank_before:
            continue
        if text[following.start].islower() and text[line.end - 1] not in ".!?:":
            yield length


def goes_on(text: str, line: NoteLine, following: NoteLine, width: int, words: WordLists) -> bool:
    """Return whether a line without a final full stop continues in the next.

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

    # A line was wrapped if its next word had no room. Before a small letter a ragged edge will do.
    if width:
        first_word = text[following.start : following.end].split(None, 1)[0]
        to_spare = width - (line.end - line.first) - 1 - len(first_word)
        if to_spare < 0 or (small and to_spare <= _RAGGED):
            return True

    # The text of an item, indented under its marker.
    if line.item and not small:
        text_column = line.start - line.first + line.item
        if following.start - following.first == text_column:
            return True

    # Words such as `of` and `Dr.` end no sentence.
    tail = text[max(line.start, line.end - 12) : line.end].rsplit(None, 1)[-1]
    return tail in words.joiners or tail.lower().rstrip(".") in words.never
