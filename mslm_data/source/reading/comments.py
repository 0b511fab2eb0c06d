"""Takes comments out of files of tagged lines: `# sent_id = 4`, `# text = …`, `#end document`.

A token may begin with `#` too, so a line counts as a comment by its form, or because it begins with
`#` and a space and does not have a word and a tag.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mslm_data.kernels.lines import NEWLINE, count_lines

IsComment = Callable[[bytes], bool]
"""Tells whether a line that begins with `#` is a comment; see `TagColumns.is_comment`."""

LIKELY = re.compile(r"# |#[\w.:-]+ ?=")
"""Beginnings of comments, which lines of a word and a tag may have too."""
_CANDIDATE = re.compile(rb"#[^\n]*\n?")
"""A line that may be a comment."""
CERTAIN = re.compile(r"# ?[\w.:-]+ = |#end document")
"""Beginnings that no line of a word and a tag has."""


class WithoutComments(NamedTuple):
    """Lines without those that are comments.

    Attributes:
        data: The other lines.
        places: int64 `[C]`, rising: for each comment, how many of the other lines stand before it.
    """

    data: bytes
    places: npt.NDArray[np.int64]

    def number(self, lines: npt.NDArray[np.int64], *, first: int) -> npt.NDArray[np.int64]:
        """Return the numbers that lines have in the file.

        Args:
            lines: Numbers of lines, if comments are not counted.
            first: Number of the first line.
        """
        if not len(self.places):
            return lines
        return lines + np.searchsorted(self.places, lines - first, side="right")


def take_out(data: bytes, is_comment: IsComment) -> WithoutComments:
    """Take the comments out of whole lines.

    Args:
        data: The lines.
        is_comment: Says whether a line that begins with `#` is a comment.
    """
    kept: list[bytes] = []
    places: list[int] = []
    past = 0
    num_lines = 0  # kept
    for match in _candidates(data):
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


def _candidates(data: bytes) -> Iterator[re.Match[bytes]]:
    """Give the lines that may be comments.

    `find` passes over all other text at the speed of memory, fastest where it looks for one byte.
    """
    place = data.find(b"#")
    while place >= 0:
        match = None
        if not place or data[place - 1] == NEWLINE:
            match = _CANDIDATE.match(data, place)
        if match:
            yield match
        place = data.find(b"#", match.end() if match else place + 1)


def count_blocks(data: bytes, is_comment: IsComment, *, header_bytes: int = 0) -> int:
    """Count the blocks between blank lines that hold comments and nothing else.

    Without comments, just these blocks are gone.

    Args:
        data: Whole lines, with the byte order mark of a file.
        is_comment: Says whether a line that begins with `#` is a comment.
        header_bytes: Bytes at the beginning that count as comments.
    """
    rest = data[header_bytes:] if header_bytes else data.removeprefix(BOM_UTF8)
    others = take_out(rest, is_comment)
    if not header_bytes and not len(others.places):
        return 0
    return _num_blocks(data.removeprefix(BOM_UTF8)) - _num_blocks(others.data)


def _num_blocks(data: bytes) -> int:
    counts = np.zeros(3, np.int64)
    count_lines(np.frombuffer(data + b"\n", np.uint8), counts)
    return int(counts[2])
