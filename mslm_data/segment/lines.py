"""Classifies the lines of a clinical note as section heads, list items, rulers and running text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from string import ascii_lowercase, ascii_uppercase

from mslm_data.segment.stops import MASK
from mslm_data.segment.wordlists import HEADS, JOINERS, LONGEST_HEAD, NEVER

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
"""A line that ends with one of these continues in the next line."""

_SHORTEST_WRAP = 40
_WIDEST = 120
"""Minimum and maximum width of wrapped lines, in characters."""

_RAGGED = 25
"""Maximum number of characters between the end of a wrapped line and the width."""


@dataclass(slots=True)
class NoteLine:
    """A line that is not blank.

    A row for the line `  2. Fluids`, after an empty line and at character 40 of the note::

        start  end  first  blank_before  item  number
           42   51     40  True             3       2

    Attributes:
        start: First character that is not white space.
        end: Character after the last that is not white space.
        first: First character of the line, including white space.
        blank_before: Whether an empty line or a form feed precedes the line.
        item: Length of the list marker with the white space after it. Default: 0, no marker.
        number: Number in the list marker. Default: -1, no number.
        loose: Whether the line starts with a number that looks like a list marker but does not
            continue a list.
        head: Whether the line is a section head.
        run_in: Whether the line starts with a head and a colon.
        ruler: Whether the line has no words.
        mark_before: Position of the mark at the end of the line before. Default: -1, no mark.
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
    """Return whether more than five in six letters of a note are capitals.

    Capital letters are then no sign of a new sentence. Only ASCII letters are counted.
    """
    # Deleting bytes is many times faster than a loop over characters.
    letters = text.encode("ascii", "ignore")
    without_small = letters.translate(None, _SMALL)
    without_any = without_small.translate(None, _CAPITAL)
    num_small = len(letters) - len(without_small)
    num_capital = len(without_small) - len(without_any)
    return num_small * 5 < num_capital


def read_lines(text: str, *, capitals: bool) -> list[NoteLine]:
    """Return the lines of a note that are not blank.

    Args:
        text: Masked text.
        capitals: Whether the note is written in capitals.
    """
    # `splitlines` splits at ASCII separators too, which do not end lines of notes.
    text_to_split = text.replace("\x1c", "\t").replace("\x1d", "\t").replace("\x1e", "\t")

    lines: list[NoteLine] = []
    past = 0
    next_first = 0
    for raw_line in text_to_split.splitlines(keepends=True):
        first = next_first
        next_first += len(raw_line)
        content = raw_line.strip()
        if not content:
            continue

        start = first
        if raw_line[0].isspace():
            start += len(raw_line) - len(raw_line.lstrip())

        # A form feed starts a page. "\r\n" counts as one line end.
        gap = text[past:start]
        blank_before = gap != "\n" and (gap.count("\n") > 1 or gap.count("\r") > 1 or "\f" in gap)

        past = start + len(content)
        line = NoteLine(start, past, first, blank_before)
        _describe(line, content, capitals=capitals)
        lines.append(line)
    return lines


def _describe(line: NoteLine, content: str, *, capitals: bool) -> None:
    """Set the fields of a line by its content."""
    # Most lines start or end with a letter or digit, which saves the search.
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
    elif _is_head(content, capitals=capitals):
        line.head = True

    # A head that starts with a capital letter cannot be a run-in head as well.
    if not line.head or content[0].islower():
        line.run_in = _begins_with_head(content)


def _is_head(content: str, *, capitals: bool) -> bool:
    """Return whether a line is a section head: by colon, by name or by capital letters."""
    # `Past Medical History:`
    has_colon = content[-1] == ":"
    if has_colon and _HEAD.match(content) and (not content[0].islower() or content.count(" ") < 2):
        return content.count(" ") < 8

    # A known head, such as `Allergies`. Longer lines need not be searched for.
    may_be_named = has_colon or len(content) <= LONGEST_HEAD
    if may_be_named and content.lower().rstrip(" :") in HEADS:
        return True

    # A short line in capitals without digits, such as `HOSPITAL COURSE`.
    if capitals or not content.isupper():
        return False
    if len(content) >= 60 or content[-1] in _ENDS or MASK in content:
        return False
    if any(map(str.isdigit, content)):
        return False
    shortest = 3 if " " in content else 5
    return sum(map(str.isalpha, content)) > shortest


def _begins_with_head(content: str) -> bool:
    """Return whether text starts with a head and a colon or dash, as in `Plan: rest`."""
    head = _RUN_IN.match(content) if ":" in content else None
    if head is None and ("- " in content or "\u2013 " in content):
        head = _DASHED.match(content)
    # A lower-case head is a single word: `plan: rest`, but not `he was told: rest`.
    return head is not None and (not content[0].islower() or " " not in head.group().strip())


def wrap_width(text: str, lines: Sequence[NoteLine], *, capitals: bool) -> int:
    """Return the width of a wrapped note, in characters; 0 for a note that is not wrapped.

    The width is the length of the longest line followed by a line with a lower-case first letter.
    In a note in capitals, it is the length of the longest line.
    """
    if not capitals:
        return max(_wrapped_lengths(text, lines), default=0)
    widest = max((line.end - line.first for line in lines), default=0)
    return widest if _SHORTEST_WRAP < widest < _WIDEST else 0


def _wrapped_lengths(text: str, lines: Sequence[NoteLine]) -> Iterator[int]:
    """Yield the lengths of lines followed by a line with a lower-case first letter."""
    for line, following in pairwise(lines):
        length = line.end - line.first
        if not _SHORTEST_WRAP <= length < _WIDEST:
            continue
        if following.item or following.run_in or following.blank_before:
            continue
        if text[following.start].islower() and text[line.end - 1] not in ".!?:":
            yield length


def goes_on(text: str, line: NoteLine, following: NoteLine, width: int) -> bool:
    """Return whether a line without a final full stop continues in the next line.

    Args:
        text: Masked text.
        line: The line.
        following: The next line, neither a list item nor a head.
        width: Width of the wrapped note; 0 for a note that is not wrapped.
    """
    # By the last character of the line.
    last = text[line.end - 1]
    if last in _DANGLING or (last == "-" and text[line.end - 2].isalnum()):
        return True
    small = text[following.start].islower() or following.loose
    if last in ";:" and not small:
        return False

    # A line was wrapped if the next word did not fit. Before a lower-case letter it may be shorter.
    if width:
        first_word = text[following.start : following.end].split(None, 1)[0]
        to_spare = width - (line.end - line.first) - 1 - len(first_word)
        if to_spare < 0 or (small and to_spare <= _RAGGED):
            return True

    # The next line is indented like the text of this list item.
    if line.item and not small:
        text_column = line.start - line.first + line.item
        if following.start - following.first == text_column:
            return True

    # A line that ends with a word such as `of` or `Dr.` continues.
    tail = text[max(line.start, line.end - 12) : line.end].rsplit(None, 1)[-1]
    return tail in JOINERS or tail.lower().rstrip(".") in NEVER
