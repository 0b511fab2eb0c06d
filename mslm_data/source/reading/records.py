"""Cuts files of lines between records, and defines the reasons for setting records aside."""

from __future__ import annotations

import mmap
import re
from codecs import BOM_UTF8
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np

from mslm_data.data.document import Part
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.io import limits
from mslm_data.kernels.lines import count_lines
from mslm_data.source.reading.files import opened

# Possessive quantifiers, so that the matcher keeps no backtracking state for the lines it passed.
_LINE_ENDS = re.compile(rb"\n(?:[ \t\r\f\v]*+\n)*+")
_GAP = re.compile(rb"\n(?:[ \t\r\f\v]*+\n)++")
_BLANK_BYTES = b" \t\r\f\v\n"
_BEFORE = 1 << 16
"""Number of bytes searched for blanks at a time."""


NOT_UTF8 = Reason(
    "expected UTF-8, or the encoding set with [source] encoding, got other bytes",
    advice={"encoding": "set the encoding, such as {set} source.encoding=latin-1"},
)
"""Reason for a record that is not valid UTF-8."""
NO_TOKEN = Reason("expected text with at least one token, got none")
"""Reason for an empty document, or one with only white space."""


WITHDRAWN = Reason("expected a valid note, got one marked as an error", is_rule=True)
"""Reason for a record that the corpus itself marks as an error. It does not count as data loss."""

NAME_THE_ID = {
    "id_column": "name the column of the id with source.id_column, or number documents with "
    "{set} source.id_column=''"
}
NAME_THE_TEXT = {"text_column": "name the column of the text with source.text_column"}
"""Advice shared by several reasons."""


def check_id_column(
    column: str | int, texts: Collection[str | int], *, option: str = "id_column"
) -> None:
    """Check that ids are not texts, as ids stand in messages and in `set_aside.jsonl`.

    Args:
        column: Column of the ids, by name or number.
        texts: Columns of the text.
        option: Name of the option that has the column.

    Raises:
        ValueError: The column is that of the text.
    """
    if str(column).casefold() in {str(text).casefold() for text in texts}:
        raise ValueError(
            f"expected {option} to differ from the column of the text, got '{column}' for both; "
            "ids stand in messages"
        )


class RecordError(Exception):
    """A record cannot be used and is set aside. The reason must not contain its text.

    Attributes:
        reason: The reason. A reason without advice may be passed as text and code.
        line: Line number of the error, 0 if the whole record is at fault.
    """

    def __init__(self, reason: Reason | str, *, line: int = 0, code: str = "") -> None:
        super().__init__(str(reason))
        self.reason = reason if isinstance(reason, Reason) else Reason(reason, code)
        self.line = line


def decode_utf8(data: bytes, *, line: int = 0) -> str:
    """Decode the bytes of a record.

    Args:
        data: UTF-8.
        line: Line number, for the error.

    Raises:
        RecordError: The bytes are not valid UTF-8.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise RecordError(NOT_UTF8, line=line) from None


def cut_filled_lines(part: Part, *, target_bytes: int) -> Iterator[Part]:
    """Cut a file with one record per non-blank line, if `TextReading.may_be_cut`."""
    return _cut_at(_LINE_ENDS, part, target_bytes=target_bytes, records=1)


def cut_at_gaps(part: Part, *, target_bytes: int) -> Iterator[Part]:
    """Cut a file with a record per block between blank lines, if `TextReading.may_be_cut`."""
    return _cut_at(_GAP, part, target_bytes=target_bytes, records=2)


def _cut_at(
    end: re.Pattern[bytes], part: Part, *, target_bytes: int, records: int
) -> Iterator[Part]:
    """Cut a file at the ends of records.

    Searches for ends only near multiples of `target_bytes`, so most of the file is not scanned.

    Args:
        end: Matches the end of a record and everything up to the next record.
        part: The file, or a part of it that begins with a record.
        target_bytes: Approximate size of a part. Every part has at least one record.
        records: Index of the record count in the counts of `count_lines`.

    Raises:
        SourceError: A record is larger than `limits.LARGEST`.
    """
    with opened(Path(part.path)) as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    text = np.frombuffer(data, np.uint8)
    # Lines, filled lines, and blocks of filled lines; see `count_lines`.
    counts = np.zeros(3, np.int64)
    _, start, stop, first, line = part
    past = len(data) if stop < 0 else stop

    name = Path(part.path).name
    place = _next_record(end, data, start + target_bytes, past, name)
    while place < past:
        # A byte order mark before blank lines is not a record.
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
    """Return the position of the first record at or after `place`, `past` if there is none.

    Args:
        end: Matches the end of a record and everything up to the next record.
        data: The file.
        place: Position after the first byte of a record.
        past: End of the search, exclusive.
        name: Name of the file, for the error.

    Raises:
        SourceError: No record begins within `limits.LARGEST` bytes.
    """
    # The match may begin before `place`. Go back over blanks to the end of the last filled line.
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
