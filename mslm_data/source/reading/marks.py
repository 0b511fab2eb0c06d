"""Where documents and sentences begin in files of rows: for cutting them as bytes, and for reading them as text.

The patterns are the same for both, so that cutting a file finds exactly the records that reading it gives.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mslm_data.data.document import Part
from mslm_data.source.reading.records import opened

BLANKS = " \t\r\f\v"
"""What a line that ends a sentence may hold; other white space of Unicode can be a word."""
_MARK = (
    r"^(?:\ufeff)?(?:-DOCSTART-(?=[ \t\r\n(]|\Z)(?:[ \t]*\(([^()\s]+)\))?|###MEDLINE:(\S*))[^\n]*"
)
MARK = re.compile(_MARK, re.MULTILINE)
_MARK_BYTES = re.compile(_MARK.replace(r"\ufeff", r"\xef\xbb\xbf").encode(), re.MULTILINE)
_GAP_BYTES = re.compile(rb"\n(?:[ \t\r\f\v]*\n)+")
_LEADING_BYTES = re.compile(rb"(?:\xef\xbb\xbf)?(?:[ \t\r\f\v]*\n)*")


class Piece(NamedTuple):
    """Where a document begins: the id in its mark, "" where it has none, and the number of its first line."""

    id: str
    line: int


def divide(data: bytes, *, first: int) -> tuple[list[Piece], bytes]:
    """Find the documents that marks divide lines into; none where there is no mark.

    Lines before the first mark are a document too, if they are not blank.

    Args:
        data: Whole lines.
        first: Number of the first.

    Returns:
        The documents, and the same lines with nothing in those that are marks.
    """
    if b"-DOCSTART-" not in data and b"###MEDLINE:" not in data:
        return [], data
    text = data.decode("utf-8", "surrogatepass")
    found: list[Piece] = []
    line, begin = first, 0
    for mark in MARK.finditer(text):
        line += text.count("\n", begin, mark.start())
        if not found and text[: mark.start()].strip(BLANKS + "\n"):
            found.append(Piece("", first))
        begin = mark.start()
        found.append(Piece(_name(mark), line + 1))
    return found, MARK.sub("", text).encode("utf-8", "surrogatepass") if found else data


def cut(path: Path, *, target_bytes: int) -> Iterator[Part]:
    """Cut a file at its marks, or else between sentences, into parts of at least `target_bytes` but for the last.

    A file that is not longer, and a compressed one, is one part and is not looked at.
    """
    if path.suffix == ".gz" or path.stat().st_size <= target_bytes:
        yield Part(str(path))
        return
    with opened(path) as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    start, first, line = 0, 0, 1
    for here, before in _places(data):
        if here - start >= target_bytes and before > first:
            yield Part(str(path), start, here, first, line)
            line += data[start:here].count(b"\n")
            start, first = here, before
    yield Part(str(path), start, len(data), first, line)


def _places(data: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Give where a part may begin and how many documents come before: at marks, or else between sentences.

    Not at the first mark: a part of lines before it would not show that the file has marks.
    """
    first = _MARK_BYTES.search(data)
    if first is None:
        begin = _LEADING_BYTES.match(data)
        for number, gap in enumerate(
            _GAP_BYTES.finditer(data, begin.end() if begin else 0), start=1
        ):
            yield gap.end(), number
        return
    before = 1 if data[: first.start()].strip(b" \t\r\f\v\n") else 0
    for number, mark in enumerate(_MARK_BYTES.finditer(data)):
        if number:
            yield mark.start(), number + before


def _name(mark: re.Match[str]) -> str:
    """Return the id in a mark; bytes that were not UTF-8 make none."""
    name = mark[1] or mark[2] or ""
    return name if name.isprintable() else ""
