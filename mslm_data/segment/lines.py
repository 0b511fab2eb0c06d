"""What a line of a clinical note is: a head, an item of a list, a ruler, or text that may go on in the next line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
        | \#+\s*(?=\w) | [-*](?=[^\W\d_])                               # 1. of a problem list, - without a space""",
    re.VERBOSE,
)
_NUMBER = re.compile(r"\(?(\d{1,2})[.)]")
_HEAD = re.compile(r"(?:\x01++ ?)*+[^\W_][\w /&()'\u2019,+-]{0,58}:$")
_RUN_IN = re.compile(
    r"""([^\W_][\w/&()'\u2019.+-]*(?:\ [\w/&()'\u2019,.\#+-]+){0,5})\ ?:(?=\s|$|[^\W\d_]{2})    # Past History: none
        | [^\W\d_]{2,12}[-\u2013]\ (?=\w)                                                       # NEURO- intact""",
    re.VERBOSE,
)
_RULER = re.compile(r"(?:[^\w\x01]|_){4,}$")
_SMALL, _CAPITAL = ascii_lowercase.encode(), ascii_uppercase.encode()
_ENDS = ".!?"
_DANGLING = ",(/&+"
_SHORTEST_WRAP, _WIDEST = 40, 120
_RAGGED = 25


@dataclass(slots=True)
class Line:
    """A line with something in it.

    Attributes:
        start: First character that is not white space.
        end: Past the last one.
        first: First character of the line itself, white space or not.
        blank_before: Whether an empty line, or a new page, comes before it.
        item: Length of its list marker with the white space after it; 0 for none.
        number: The number that its list marker is; -1 for none.
        loose: Whether it begins with a number that could count items and continues no list.
        head: Whether the whole line heads what follows.
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
    """Say whether a note is written in capitals, so that they mark nothing. Only ASCII letters are looked at."""
    letters = text.encode("ascii", "ignore")
    without_small = len(letters.translate(None, _SMALL))
    capital = without_small - len(letters.translate(None, _SMALL + _CAPITAL))
    return (len(letters) - without_small) * 5 < capital


def read_lines(text: str, words: WordLists, *, capitals: bool) -> list[Line]:
    """Return the lines of a masked text that have any character but white space; see `in_capitals`."""
    lines: list[Line] = []
    past = 0
    for match in _LINE.finditer(text):
        content = match.group()
        stripped = content.strip()
        if not stripped:
            continue
        first = match.start()
        start = first + len(content) - len(content.lstrip())
        gap = text[past:start]
        blank = gap.count("\n") > 1 or gap.count("\r") > 1 or "\f" in gap
        line = Line(start, start + len(stripped), first, blank)
        _describe(line, stripped, words, capitals=capitals)
        lines.append(line)
        past = line.end
    return lines


def _describe(line: Line, content: str, words: WordLists, *, capitals: bool) -> None:
    line.ruler = bool(_RULER.match(content))
    if line.ruler:
        return
    item = _ITEM.match(content)
    line.item = item.end() if item else 0
    number = _NUMBER.match(content) if item else None
    line.number = int(number.group(1)) if number else -1
    shown = content[line.item :]
    run_in = _RUN_IN.match(shown)
    line.run_in = run_in is not None and (
        not shown[0].islower() or " " not in run_in.group().strip()
    )
    if not line.item:
        line.head = _is_head(content, words, capitals=capitals)


def _is_head(content: str, words: WordLists, *, capitals: bool) -> bool:
    """Say whether a line heads a section: by its colon, by its name, or because it alone is in capitals."""
    if _HEAD.match(content) and (not content[0].islower() or content.count(" ") < 2):
        return content.count(" ") < 8
    if content.lower().rstrip(" :") in words.heads:
        return True
    if (
        capitals
        or not content.isupper()
        or len(content) >= 60
        or content[-1] in _ENDS
        or MASK in content
    ):
        return False
    return not any(map(str.isdigit, content)) and sum(map(str.isalpha, content)) > (
        3 if " " in content else 5
    )


def wrap_width(text: str, lines: Sequence[Line], *, capitals: bool) -> int:
    """Return the width at which a note is wrapped, in characters; 0 where it seems not to be.

    The longest line that visibly goes on: the next begins with a small letter. In a note in capitals, the longest.
    """
    if capitals:
        widest = max((line.end - line.first for line in lines), default=0)
        return widest if _SHORTEST_WRAP < widest < _WIDEST else 0
    return max(_wrapped_lengths(text, lines), default=0)


def _wrapped_lengths(text: str, lines: Sequence[Line]) -> Iterator[int]:
    for i in range(len(lines) - 1):
        line, following = lines[i], lines[i + 1]
        length = line.end - line.first
        small = text[following.start].islower() and not (
            following.item or following.run_in or following.blank_before
        )
        if _SHORTEST_WRAP <= length < _WIDEST and small and text[line.end - 1] not in ".!?:":
            yield length


def goes_on(text: str, line: Line, following: Line, width: int, words: WordLists) -> bool:
    """Say whether a line that ends without a full stop goes on in the next, which is no item and no head."""
    last = text[line.end - 1]
    if last in _DANGLING or (last == "-" and text[line.end - 2].isalnum()):
        return True
    small = text[following.start].islower() or following.loose
    if last in ";:" and not small:
        return False
    tail = text[max(line.start, line.end - 12) : line.end].rsplit(None, 1)[-1]
    if tail in words.joiners or tail.lower().rstrip(".") in words.never:
        return True
    first_word = text[following.start : following.end].split(None, 1)[0]
    to_spare = width - (line.end - line.first) - 1 - len(first_word)
    if small:
        return width > 0 and to_spare <= _RAGGED
    hangs = (
        line.item > 0 and following.start - following.first == line.start - line.first + line.item
    )
    return hangs or (width > 0 and to_spare < 0)
