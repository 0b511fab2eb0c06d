"""Finds the beginnings of documents and sentences in files of tagged lines.

Documents begin at marks (`-DOCSTART-`, `###MEDLINE:`, `# newdoc`, `#begin document`, `#doc`),
sentences after blank lines. Files are cut as bytes and read as text. Both use the same patterns, so
a file is only cut where a reader sees a new document.
"""

from __future__ import annotations

import mmap
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from mslm_data.data.document import Part
from mslm_data.kernels.lines import NEWLINE
from mslm_data.source.reading.comments import HASH, IsComment, count_blocks, take_out
from mslm_data.source.reading.files import opened
from mslm_data.source.reading.records import cut_at_gaps

BLANKS = " \t\r\f\v"
"""Characters of a blank line. Other Unicode white space may be a word."""

_MARK = (
    r"^(?:\ufeff)?(?:-DOCSTART-(?=[ \t\r\n(]|\Z)(?:[ \t]*\(([^()\s]+)\))?|###MEDLINE:(\S*)"
    r"|# newdoc(?=[ \r\n]|\Z)(?: +id *= *(\S+))?"
    r"|#begin document(?=[ \r\n]|\Z)(?: +\(([^()\s]+)\)(?:; part (\d+))?)?"
    r"|#doc +(\w+)(?=[ \r\n]|\Z))[^\n]*"
)
MARK = re.compile(_MARK, re.MULTILINE)
"""The line that opens a document, in any spelling. The first group that matches is the id. Group 5
is the number of a document's part."""
_MARK_BYTES = re.compile(_MARK.replace(r"\ufeff", r"\xef\xbb\xbf").encode(), re.MULTILINE)
_WORD = b"-DOCSTART-"
_HASH_WORDS = (b"###MEDLINE:", b"# newdoc", b"#begin document", b"#doc ")
"""Beginnings of marks. A byte order mark may precede them."""
_BLANK_BYTES = (BLANKS + "\n").encode()


class MarkedDocument(NamedTuple):
    """The beginning of a document.

    Attributes:
        id: The id in the mark, "" if there is none.
        line: Line number of the first line after the mark.
    """

    id: str
    line: int


def divide(data: bytes, *, first: int) -> tuple[list[MarkedDocument], bytes]:
    """Find the documents separated by marks.

    Lines before the first mark form a document too, unless all of them are blank.

    Args:
        data: Whole lines.
        first: Line number of the first line.

    Returns:
        The documents, empty if there is no mark; and the lines, with marks replaced by blank lines.
    """
    documents: list[MarkedDocument] = []
    kept: list[bytes] = []
    line = first
    past = 0
    for start, end, mark in _marks(data):
        if not documents and data[:start].strip(_BLANK_BYTES):
            documents.append(MarkedDocument("", first))
        line += data.count(b"\n", past, start)
        documents.append(MarkedDocument(name(mark), line + 1))

        # Keep the mark's line end, so that line numbers do not change.
        kept.append(data[past:start])
        past = end
    if not documents:
        return [], data
    kept.append(data[past:])
    return documents, b"".join(kept)


def _marks(data: bytes) -> Iterator[tuple[int, int, re.Match[str]]]:
    """Yield each mark: its first byte, the byte after its last, and the match."""
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
    """Yield the positions in `[start, past)` that may begin a mark.

    `find` skips other text at the speed of memory, fastest if it searches for a single byte.
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
    part: Part,
    *,
    target_bytes: int,
    is_comment: IsComment,
    beginnings: Sequence[bytes] = HASH,
) -> Iterator[Part]:
    """Cut a file at its marks, or else between sentences, if `TextReading.may_be_cut`.

    Every part but the last has at least `target_bytes`. In a file with marks, a part begins at a
    mark. A reader of one part then sees that the file has marks.

    Args:
        part: The file, or a part of it.
        target_bytes: Approximate size of a part.
        is_comment: Whether a line is a comment. Comments are neither documents nor sentences.
        beginnings: Beginnings of lines that may be comments.
    """
    with opened(Path(part.path)) as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    _, start, stop, first, line = part
    past = len(data) if stop < 0 else stop
    marks = _mark_places(data, start, past)
    if not marks:
        # Blocks of comments are no sentences, so they must not count in the sentence numbers.
        num_comment_blocks = 0
        for piece in cut_at_gaps(part, target_bytes=target_bytes):
            yield piece._replace(first=piece.first - num_comment_blocks)
            stop = len(data) if piece.stop < 0 else piece.stop
            may_have_comments = any(
                data.find(beginning, piece.start, stop) >= 0 for beginning in beginnings
            )
            if may_have_comments:
                lines = data[piece.start : stop]
                num_comment_blocks += count_blocks(lines, is_comment, beginnings)
        return

    # Lines before the first mark are a document too. It shares a part with the first mark.
    before = data[start : marks[0]].removeprefix(BOM_UTF8)
    has_lines_before = bool(take_out(before, is_comment, beginnings).data.strip(_BLANK_BYTES))
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
    """Return the id in a mark, "" if its bytes were not valid UTF-8."""
    doc_id = mark[1] or mark[2] or mark[3] or mark[4] or mark[6] or ""
    if mark[5]:
        doc_id += f":{mark[5]}"
    return doc_id if doc_id.isprintable() else ""
