"""Removes comments from files of tagged lines: `# sent_id = 4`, `# text = …`, `#end document`.

A token may begin with `#` too. A line is a comment if it has the form of one, or if it begins with
`#` and a space and has no word and tag.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from mslm_data.kernels.lines import NEWLINE, count_lines

IsComment = Callable[[bytes], bool]
"""Function that tells comments from rows with the same beginning; see `TagColumns.is_comment`."""
HASH = (b"#",)
"""Beginnings of lines that may be comments, unless a user names more."""

LIKELY = re.compile(r"# |#[\w.:-]+ ?=")
"""Beginnings of comments. A line with a word and a tag may begin like this too."""
_LINE = re.compile(rb"[^\n]*\n?")
CERTAIN = re.compile(r"# ?[\w.:-]+ = |#end document")
"""Beginnings of comments that never occur in a line with a word and a tag."""


class WithoutComments(NamedTuple):
    """Lines without comments.

    Attributes:
        data: The remaining lines.
        places: int64 `[C]`, non-decreasing: number of remaining lines before each comment.
    """

    data: bytes
    places: npt.NDArray[np.int64]

    def number(self, lines: npt.NDArray[np.int64], *, first: int) -> npt.NDArray[np.int64]:
        """Convert line numbers without comments to line numbers in the file.

        Args:
            lines: Line numbers in `data`.
            first: Line number of the first line.
        """
        if not len(self.places):
            return lines
        return lines + np.searchsorted(self.places, lines - first, side="right")


def take_out(
    data: bytes, is_comment: IsComment, beginnings: Sequence[bytes] = HASH
) -> WithoutComments:
    """Remove comments from whole lines.

    Args:
        data: The lines.
        is_comment: Whether a line with one of the beginnings is a comment.
        beginnings: Beginnings of lines that may be comments.
    """
    kept: list[bytes] = []
    places: list[int] = []
    past = 0
    num_lines = 0  # lines kept so far
    for match in _candidates(data, beginnings):
        if not is_comment(match[0]):
            continue
        kept.append(data[past : match.start()])
        num_lines += kept[-1].count(b"\n")
        places.append(num_lines)
        past = match.end()
    if not places:
        return WithoutComments(data, np.empty(0, np.int64))
    kept.append(data[past:])
    return WithoutComments(b"".join(kept), np.array(places, np.int64))


def _candidates(data: bytes, beginnings: Sequence[bytes]) -> list[re.Match[bytes]]:
    """Return the lines with one of some beginnings.

    `find` searches for a few bytes at the speed of memory, unlike a regular expression.
    """
    matches: dict[int, re.Match[bytes]] = {}
    for beginning in beginnings:
        place = data.find(beginning)
        while place >= 0:
            past = place + 1
            if not place or data[place - 1] == NEWLINE:
                match = cast("re.Match[bytes]", _LINE.match(data, place))
                matches[place] = match
                past = match.end()
            place = data.find(beginning, past)
    return [matches[place] for place in sorted(matches)]


def count_blocks(data: bytes, is_comment: IsComment, beginnings: Sequence[bytes] = HASH) -> int:
    """Count the blocks of lines, separated by blank lines, that consist of comments only.

    These blocks disappear when comments are removed, so record numbers must skip them.

    Args:
        data: Whole lines, including a file's byte order mark.
        is_comment: Whether a line with one of the beginnings is a comment.
        beginnings: Beginnings of lines that may be comments.
    """
    data = data.removeprefix(BOM_UTF8)
    others = take_out(data, is_comment, beginnings)

    # Usual case: no comments, so no blocks disappear.
    return _num_blocks(data) - _num_blocks(others.data) if len(others.places) else 0


def _num_blocks(data: bytes) -> int:
    counts = np.zeros(3, np.int64)
    count_lines(np.frombuffer(data + b"\n", np.uint8), counts)
    return int(counts[2])
