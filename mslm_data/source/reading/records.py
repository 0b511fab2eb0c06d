"""Cuts files of lines between records, and says why a record is set aside."""

from __future__ import annotations

import mmap
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mslm_data.data.document import Part
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.io import limits
from mslm_data.kernels.lines import count_lines
from mslm_data.source.reading.files import opened

# Possessive, so that the matcher remembers nothing of the lines that it has passed.
_LINE_ENDS = re.compile(rb"\n(?:[ \t\r\f\v]*+\n)*+")
_GAP = re.compile(rb"\n(?:[ \t\r\f\v]*+\n)++")
_BLANK_BYTES = b" \t\r\f\v\n"
_BEFORE = 1 << 16
"""Bytes that are looked through for blank ones at a time."""


NOT_UTF8 = Reason(
    "expected UTF-8 or the encoding that [source] encoding names, got other bytes",
    advice={"encoding": "say the encoding, such as {set} source.encoding=latin-1"},
)
"""Reason for a record that cannot be decoded."""
NO_TOKEN = Reason("expected text with at least one token, got none")
"""Reason for a document that is empty or only white space."""


WITHDRAWN = Reason("expected a note that stands, got one that is marked as an error", is_rule=True)
"""Reason for which a record is set aside because the corpus itself says so: nothing is lost."""

NAME_THE_ID = {
    "id_column": "name the column of the id with source.id_column, or number documents with "
    "{set} source.id_column=''"
}
NAME_THE_TEXT = {"text_column": "name the column of the text with source.text_column"}
"""Advice of several reasons."""


class RecordError(Exception):
    """A record cannot be used. It is set aside with this reason, which must hold none of its words.

    Attributes:
        reason: The reason. One without advice can be given as its text and its code.
        line: Number of the line at fault, 0 where the record as a whole is.
    """

    def __init__(self, reason: Reason | str, *, line: int = 0, code: str = "") -> None:
        super().__init__(str(reason))
        self.reason = reason if isinstance(reason, Reason) else Reason(reason, code)
        self.line = line


def decode_utf8(data: bytes, *, line: int = 0) -> str:
    """Decode a record's bytes.

    Args:
        data: UTF-8.
        line: Number of the line they stand in, for the error.

    Raises:
        RecordError: They are not UTF-8.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise RecordError(NOT_UTF8, line=line) from None


def may_be_cut(part: Part, target_bytes: int) -> bool:
    """Return whether a part of a file is longer than `target_bytes`, and can be cut at all.

    A compressed file cannot: reaching a part of it would mean unpacking all that comes before.
    """
    path = Path(part.path)
    if path.suffix == ".gz":
        return False
    stop = path.stat().st_size if part.stop < 0 else part.stop
    return stop - part.start > target_bytes


def cut_filled_lines(part: Part, *, target_bytes: int) -> Iterator[Part]:
    """Cut a file whose records are the lines that are not blank; see `Source.cut`."""
    return _cut_at(_LINE_ENDS, part, target_bytes=target_bytes, records=1)


def cut_at_gaps(part: Part, *, target_bytes: int) -> Iterator[Part]:
    """Cut a file whose records are blocks of lines, blank lines between them; see `Source.cut`."""
    return _cut_at(_GAP, part, target_bytes=target_bytes, records=2)


def _cut_at(
    end: re.Pattern[bytes], part: Part, *, target_bytes: int, records: int
) -> Iterator[Part]:
    """Cut a file where records end, which is looked for only where a part is long enough.

    Args:
        end: Matches what ends a record, with all that stands before the next one.
        part: The file, or a part of it that begins with a record.
        target_bytes: About how many bytes a part gets; each gets at least one record.
        records: Which number of `count_lines` counts the records.

    Raises:
        SourceError: A record is larger than `limits.LARGEST`.
    """
    if not may_be_cut(part, target_bytes):
        yield part
        return

    with opened(Path(part.path)) as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    text = np.frombuffer(data, np.uint8)
    counts = np.zeros(3, np.int64)
    _, start, stop, first, line = part
    past = len(data) if stop < 0 else stop

    name = Path(part.path).name
    place = _next_record(end, data, start + target_bytes, past, name)
    while place < past:
        # A byte order mark is not a word.
        begin = len(BOM_UTF8) if start == 0 and data[: len(BOM_UTF8)] == BOM_UTF8 else start
        count_lines(text[begin:place], counts)
        if counts[records]:
            yield Part(part.path, start, place, first, line)
            start = place
            first += int(counts[records])
            line += int(counts[0])
            place += target_bytes
        place = _next_record(end, data, place + 1, past, name)
    yield Part(part.path, start, past, first, line)


def _next_record(end: re.Pattern[bytes], data: mmap.mmap, place: int, past: int, name: str) -> int:
    """Return where the first record begins at `place` or later, `past` where none does.

    Args:
        end: Matches what ends a record, with all that stands before the next one.
        data: A file.
        place: A byte after a record's first.
        past: The byte after the last that is looked at.
        name: The file's name.

    Raises:
        SourceError: No record begins within `limits.LARGEST` bytes.
    """
    # What ends a record may begin before `place`: with the last line end but for blank lines.
    begin = min(place, past)
    while begin > 0:
        before = data[max(begin - _BEFORE, 0) : begin]
        filled = len(before.rstrip(_BLANK_BYTES))
        begin -= len(before) - filled
        if filled:
            break

    furthest = min(past, begin + limits.LARGEST)
    for match in end.finditer(data, begin, furthest):
        if match.end() >= place:
            return match.end()
    if furthest < past:
        raise SourceError(f"{name}, byte {begin}: {limits.TOO_LARGE}")
    return past
