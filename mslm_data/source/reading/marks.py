"""Finds where documents and sentences begin in files of tagged lines.

Documents begin at marks (`-DOCSTART-`, `###MEDLINE:`), sentences after blank lines. Files are cut
as bytes and read as text; both use the same patterns, so a cut falls exactly where reading sees a
new document.
"""

from __future__ import annotations

import mmap
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from mslm_data.data.document import Part
from mslm_data.kernels.lines import NEWLINE
from mslm_data.source.reading.files import opened
from mslm_data.source.reading.records import cut_at_gaps, may_be_cut

BLANKS = " \t\r\f\v"
"""Characters of a blank line. Other white space of Unicode can be a word."""

_MARK = (
    r"^(?:\ufeff)?(?:-DOCSTART-(?=[ \t\r\n(]|\Z)(?:[ \t]*\(([^()\s]+)\))?|###MEDLINE:(\S*))[^\n]*"
)
MARK = re.compile(_MARK, re.MULTILINE)
"""The line that opens a document, in any spelling; group 1 or 2 is its id."""
_MARK_BYTES = re.compile(_MARK.replace(r"\ufeff", r"\xef\xbb\xbf").encode(), re.MULTILINE)
_WORDS = (b"-DOCSTART-", b"###MEDLINE:")
"""The beginnings of marks, which a byte order mark may precede."""
_BLANK_BYTES = (BLANKS + "\n").encode()


class MarkedDocument(NamedTuple):
    """Where a document begins.

    Attributes:
        id: The id in its mark, "" where there is none.
        line: Number of its first line after the mark.
    """

    id: str
    line: int


def divide(data: bytes, *, first: int) -> tuple[list[MarkedDocument], bytes]:
    """Find the documents that marks divide lines into.

    Lines before the first mark are a document too, unless all of them are blank.

    Args:
        data: Whole lines.
        first: Number of the first line.

    Returns:
        The documents, none where there is no mark; and the same lines, with marks emptied.
    """
    found: list[MarkedDocument] = []
    kept: list[bytes] = []
    line = first
    past = 0
    for start, end, mark in _marks(data):
        if not found and data[:start].strip(_BLANK_BYTES):
            found.append(MarkedDocument("", first))
        line += data.count(b"\n", past, start)
        found.append(MarkedDocument(_name(mark), line + 1))

        # The mark's line end stays, so that lines keep their numbers.
        kept.append(data[past:start])
        past = end
    if not found:
        return [], data
    kept.append(data[past:])
    return found, b"".join(kept)


def _marks(data: bytes) -> Iterator[tuple[int, int, re.Match[str]]]:
    """Give each line that is a mark: its first byte, the byte past its last, and the match.

    Only lines that begin with one of the two words are looked at, as `find` passes over all other
    text at the speed of memory.
    """
    places = sorted(chain.from_iterable(_places_of(word, data) for word in _WORDS))
    for place in places:
        start = place
        if data.endswith(BOM_UTF8, 0, place):
            start -= len(BOM_UTF8)
        if start and data[start - 1] != NEWLINE:
            continue

        end = data.find(b"\n", place)
        if end < 0:
            end = len(data)
        mark = MARK.match(data[start:end].decode("utf-8", "surrogatepass"))
        if mark:
            yield start, end, mark


def _places_of(word: bytes, data: bytes) -> Iterator[int]:
    """Give each place at which a word stands."""
    place = data.find(word)
    while place >= 0:
        yield place
        place = data.find(word, place + len(word))


def cut(part: Part, *, target_bytes: int) -> Iterator[Part]:
    """Cut a file at its marks, or else between sentences; see `Source.cut`.

    Every part but the last has at least `target_bytes`, and every part of a file with marks has
    one, so that reading it alone shows that documents begin at marks.
    """
    if not may_be_cut(part, target_bytes):
        yield part
        return

    with opened(Path(part.path)) as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    _, start, stop, first, line = part
    past = len(data) if stop < 0 else stop
    marks = _mark_places(data, start, past)
    if not marks:
        yield from cut_at_gaps(part, target_bytes=target_bytes)
        return

    # Lines before the first mark are a document too, in one part with that of the mark.
    has_lines_before = bool(data[start : marks[0]].strip(_BLANK_BYTES))
    for number, here in enumerate(marks[1:], start=first + has_lines_before + 1):
        if here - start >= target_bytes:
            yield Part(part.path, start, here, first, line)
            line += data[start:here].count(b"\n")
            start = here
            first = number
    yield Part(part.path, start, past, first, line)


def _mark_places(data: mmap.mmap, start: int, past: int) -> list[int]:
    """Return the first byte of each mark in bytes `[start, past)` of a file."""
    if all(data.find(word, start, past) < 0 for word in _WORDS):
        return []
    return [mark.start() for mark in _MARK_BYTES.finditer(data, start, past)]


def _name(mark: re.Match[str]) -> str:
    """Return the id in a mark; "" for one with bytes that were not UTF-8."""
    name = mark[1] or mark[2] or ""
    return name if name.isprintable() else ""
