"""Finds where documents and sentences begin in files of tagged lines.

Documents begin at marks (`-DOCSTART-`, `###MEDLINE:`, `# newdoc`, `#begin document`, `#doc`),
sentences after blank lines. Files are cut as bytes and read as text; both use the same patterns, so
a cut falls exactly where reading sees a new document.
"""

from __future__ import annotations

import mmap
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mslm_data.data.document import Part
from mslm_data.kernels.lines import NEWLINE
from mslm_data.source.reading.comments import IsComment, count_blocks, take_out
from mslm_data.source.reading.files import opened
from mslm_data.source.reading.records import cut_at_gaps, may_be_cut

BLANKS = " \t\r\f\v"
"""Characters of a blank line. Other white space of Unicode can be a word."""

_MARK = (
    r"^(?:\ufeff)?(?:-DOCSTART-(?=[ \t\r\n(]|\Z)(?:[ \t]*\(([^()\s]+)\))?|###MEDLINE:(\S*)"
    r"|# newdoc(?=[ \r\n]|\Z)(?: +id *= *(\S+))?"
    r"|#begin document(?=[ \r\n]|\Z)(?: +\(([^()\s]+)\)(?:; part (\d+))?)?"
    r"|#doc +(\w+)(?=[ \r\n]|\Z))[^\n]*"
)
MARK = re.compile(_MARK, re.MULTILINE)
"""The line that opens a document, in any spelling; its first group that matches is its id. Group 5
is the part of a document that was parted."""
_MARK_BYTES = re.compile(_MARK.replace(r"\ufeff", r"\xef\xbb\xbf").encode(), re.MULTILINE)
_WORD = b"-DOCSTART-"
_HASH_WORDS = (b"###MEDLINE:", b"# newdoc", b"#begin document", b"#doc ")
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
        found.append(MarkedDocument(name(mark), line + 1))

        # The mark's line end stays, so that lines keep their numbers.
        kept.append(data[past:start])
        past = end
    if not found:
        return [], data
    kept.append(data[past:])
    return found, b"".join(kept)


def _marks(data: bytes) -> Iterator[tuple[int, int, re.Match[str]]]:
    """Give each line that is a mark: its first byte, the byte past its last, and the match.

    Only lines that begin with one of the words are looked at.
    """
    for place in sorted(_places(data, 0, len(data))):
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


def _places(data: bytes | mmap.mmap, start: int, past: int) -> Iterator[int]:
    """Give each place in bytes `[start, past)` at which one of the words of marks stands.

    `find` passes over all other text at the speed of memory, fastest where it looks for one byte.
    """
    place = data.find(_WORD, start, past)
    while place >= 0:
        yield place
        place = data.find(_WORD, place + len(_WORD), past)

    place = data.find(b"#", start, past)
    while place >= 0:
        if any(data[place : place + len(word)] == word for word in _HASH_WORDS):
            yield place
        place = data.find(b"#", place + 1, past)


def cut(
    part: Part, *, target_bytes: int, is_comment: IsComment, header_bytes: int = 0
) -> Iterator[Part]:
    """Cut a file at its marks, or else between sentences; see `Source.cut`.

    Every part but the last has at least `target_bytes`, and every part of a file with marks has
    one, so that reading it alone shows that documents begin at marks.

    Args:
        part: The file, or a part of it.
        target_bytes: About how many bytes a part gets.
        is_comment: Says which lines are comments; they make neither documents nor sentences.
        header_bytes: Bytes at the file's beginning without documents: names of columns, with what
            comes before them.
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
        left_out = 0
        for piece in cut_at_gaps(part, target_bytes=target_bytes):
            yield piece._replace(first=piece.first - left_out)
            stop = len(data) if piece.stop < 0 else piece.stop
            header = max(header_bytes - piece.start, 0)
            if header or data.find(b"#", piece.start, stop) >= 0:
                lines = data[piece.start : stop]
                left_out += count_blocks(lines, is_comment, header_bytes=header)
        return

    # Lines before the first mark are a document too, in one part with that of the mark.
    before = data[max(start, header_bytes) : marks[0]].removeprefix(BOM_UTF8)
    has_lines_before = bool(take_out(before, is_comment).data.strip(_BLANK_BYTES))
    for number, here in enumerate(marks[1:], start=first + has_lines_before + 1):
        if here - start >= target_bytes:
            yield Part(part.path, start, here, first, line)
            line += data[start:here].count(b"\n")
            start = here
            first = number
    yield Part(part.path, start, past, first, line)


def _mark_places(data: mmap.mmap, start: int, past: int) -> list[int]:
    """Return the first byte of each mark in bytes `[start, past)` of a file."""
    if not any(True for _ in _places(data, start, past)):
        return []
    return [mark.start() for mark in _MARK_BYTES.finditer(data, start, past)]


def name(mark: re.Match[str]) -> str:
    """Return the id in a mark; "" for one with bytes that were not UTF-8."""
    found = mark[1] or mark[2] or mark[3] or mark[4] or mark[6] or ""
    if mark[5]:
        found += f":{mark[5]}"
    return found if found.isprintable() else ""
