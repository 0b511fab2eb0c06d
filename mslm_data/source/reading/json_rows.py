"""Reads rows of JSON: one object per line, an array of objects, or objects within an object.

The rows of a file may be within its one object, as in `{"version": 1, "data": [{"text": …}]}` and
`{"a.txt": {"text": …}}`. The caller says which objects are rows.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from mslm_data.data.document import Part, SetAside
from mslm_data.errors import SourceError
from mslm_data.io import limits
from mslm_data.io.files import JSON_ERRORS
from mslm_data.source.reading.cells import Row
from mslm_data.source.reading.encodings import TextReading
from mslm_data.source.reading.files import NumberedLine, ends_with, lines, stem
from mslm_data.source.reading.records import RecordError, cut_filled_lines, decode_utf8

SUFFIXES = (".jsonl", ".ndjson", ".json")
_OF_LINES = (".jsonl", ".ndjson")
"""Suffixes of files with one row per line. The content of others shows it."""

AreRows = Callable[[Sequence[object]], bool]
"""Function that tells rows from other values, such as the parts of a row."""

_BEGINNING_BYTES = 1 << 20
_BEGINNING_ROWS = 1000
_TRIED_ROWS = 20
_DEEPEST = 3
"""Maximum number of objects around rows."""
_BETWEEN_ROWS = re.compile(r"[\s,]*")
_PAIR = re.compile(rb'\s*\[\s*"')
"""Beginning of an array that is one row: spaCy's pair of a text and its entities."""


def cut(part: Part, options: TextReading, *, target_bytes: int) -> Iterator[Part]:
    """Cut a file between lines. A file with one array or object is one part. See `Source.cut`."""
    may_be_cut = options.may_be_cut(part, target_bytes=target_bytes)
    if may_be_cut and _of_lines(Path(part.path), options):
        yield from cut_filled_lines(part, target_bytes=target_bytes)
    else:
        yield part


def rows(part: Part, options: TextReading, are_rows: AreRows) -> Iterator[Row | SetAside]:
    """Read each row of a part. Rows that are not JSON are set aside.

    Raises:
        SourceError: The file cannot be read, or is a damaged array or object.
    """
    path = Path(part.path)
    return _decoded(_texts(part, options, are_rows), path, first=part.first)


def beginning(path: Path, options: TextReading, are_rows: AreRows) -> Iterator[Row | SetAside]:
    """Read the first rows of a file."""
    # An array or object has no lines to cut at, so it is read as a whole.
    part = Part(str(path))
    if _of_lines(path, options):
        part = part._replace(stop=_BEGINNING_BYTES)
    return itertools.islice(rows(part, options, are_rows), _BEGINNING_ROWS)


def first_rows(path: Path, head: bytes) -> Iterator[object]:
    """Yield the complete rows at the beginning of a file, up to the first that is not JSON.

    Args:
        path: The file; only its suffix is read.
        head: First bytes of the file.
    """
    head = head.removeprefix(BOM_UTF8).lstrip()
    text = head.decode(errors="replace")
    is_array = not ends_with(path, _OF_LINES) and text.startswith("[")
    # `raw_decode` stops at the first incomplete row.
    decoder = json.JSONDecoder()
    end = int(is_array and not _PAIR.match(head))
    while begin := _BETWEEN_ROWS.match(text, end):
        try:
            row, end = decoder.raw_decode(text, begin.end())
        except (ValueError, RecursionError):
            return
        yield row


def rows_within(
    path: Path, options: TextReading, items: Callable[[bytes], Iterable[msgspec.Raw]]
) -> Iterator[Row | SetAside]:
    """Read rows that are nested in the one JSON value of a file.

    Args:
        path: The file.
        options: Encoding of the file.
        items: Function from JSON to the rows, in the order of the file. It may raise any of
            `JSON_ERRORS`.

    Raises:
        SourceError: The file cannot be read, or `items` fails.
    """
    data = options.utf8(path).removeprefix(BOM_UTF8)
    return _decoded(_found(data, path.name, items), path)


def decoded(data: bytes) -> Any:
    """Decode the JSON of a row.

    Raises:
        RecordError: The row is not JSON, or is larger than `limits.LARGEST_RECORD`.
    """
    if len(data) > limits.LARGEST_RECORD:
        raise RecordError(limits.TOO_LARGE_RECORD)
    try:
        return msgspec.json.decode(data)
    except JSON_ERRORS as error:
        # Bytes that are not UTF-8 get their own reason.
        decode_utf8(data)
        raise RecordError(f"expected a JSON object, got {_in_words(error)}") from None


def _decoded(
    texts: Iterable[NumberedLine], path: Path, *, first: int = 0
) -> Iterator[Row | SetAside]:
    file_stem = stem(path)
    for number, text in enumerate(texts, start=first):
        place = f"{path.name}:{text.number}"
        numbered = f"{file_stem}:{number}"
        try:
            value = decoded(text.data)
        except RecordError as error:
            yield SetAside(numbered, place, error.reason)
            continue
        yield Row(value, numbered, place)


def _texts(part: Part, options: TextReading, are_rows: AreRows) -> Iterator[NumberedLine]:
    """Yield the JSON of each row of a part, with the number of its first line."""
    path = Path(part.path)
    data = options.utf8(path, part.start, part.stop)
    if _of_lines(path, options):
        return (line for line in lines(data, first=part.line) if line.data.strip())
    elements = functools.partial(_elements, are_rows=are_rows)
    return _found(data.removeprefix(BOM_UTF8), path.name, elements)


def _elements(data: bytes, are_rows: AreRows) -> list[msgspec.Raw]:
    """Return the elements of an array, the rows of an object, or a single object or pair."""
    if _PAIR.match(data):
        return [msgspec.json.decode(data, type=msgspec.Raw)]
    if data.lstrip().startswith(b"{"):
        row = msgspec.json.decode(data, type=msgspec.Raw)
        return _find_rows(row, are_rows) or [row]
    return msgspec.json.decode(data, type=list[msgspec.Raw])


def _find_rows(
    value: msgspec.Raw, are_rows: AreRows, *, depth: int = _DEEPEST
) -> list[msgspec.Raw]:
    """Return the rows within an object, empty if it is a row, or if nothing or several fit.

    Rows are the elements of the only array of rows, else the values of the object, else those
    within its only object. null is no row.
    """
    if are_rows([msgspec.json.decode(value)]):
        return []
    values = [*msgspec.json.decode(value, type=dict[str, msgspec.Raw]).values()]
    arrays = [
        [row for row in msgspec.json.decode(one, type=list[msgspec.Raw]) if bytes(row) != b"null"]
        for one in values
        if bytes(one).startswith(b"[")
    ]
    objects = [one for one in values if bytes(one).startswith(b"{")]
    found = [listed for listed in (*arrays, objects) if _show_rows(listed, are_rows)]
    if len(found) == 1:
        return found[0]
    if len(objects) == 1 and depth and not found:
        return _find_rows(objects[0], are_rows, depth=depth - 1)
    return []


def _show_rows(values: Sequence[msgspec.Raw], are_rows: AreRows) -> bool:
    return bool(values) and are_rows([*map(msgspec.json.decode, values[:_TRIED_ROWS])])


def _found(
    data: bytes, name: str, items: Callable[[bytes], Iterable[msgspec.Raw]]
) -> Iterator[NumberedLine]:
    """Return the JSON of nested items, each with the number of its first line.

    Raises:
        SourceError: The JSON is damaged.
    """
    try:
        rows = list(items(data))
    except JSON_ERRORS as error:
        raise SourceError(
            f"{name}:1: expected one JSON array or object, got {_in_words(error)}; is the file "
            "whole?"
        ) from None

    # Each item is a verbatim slice of `data`, so search for it after the end of the previous one.
    starts = []
    position = 0
    for item in rows:
        view = memoryview(item)
        start = data.index(view, position)
        starts.append(start)
        position = start + len(view)
    return _numbered(data, starts, rows)


def _numbered(
    data: bytes, starts: Iterable[int], items: Iterable[msgspec.Raw]
) -> Iterator[NumberedLine]:
    """Yield items that start at given positions, each with the number of its first line."""
    line = 1
    position = 0
    for start, item in zip(starts, items, strict=True):
        # Count only the lines since the last item.
        line += data.count(b"\n", position, start)
        yield NumberedLine(line, bytes(item))
        position = start


def _in_words(error: Exception) -> str:
    """Describe a decoding error without corpus text.

    Messages of msgspec have positions only; other messages may quote the text.
    """
    if isinstance(error, msgspec.DecodeError):
        return f"'{error}'"
    return "invalid UTF-8" if isinstance(error, UnicodeDecodeError) else "too many levels"


def _of_lines(path: Path, options: TextReading) -> bool:
    """Return whether a file has one row per line.

    A file without the suffix of such files has not if it begins with `[`, or with an object whose
    first line is no JSON and is followed by no object, or is a single line.
    """
    if ends_with(path, _OF_LINES):
        return True
    data = options.utf8(path, 0, _BEGINNING_BYTES).removeprefix(BOM_UTF8).lstrip()
    if data.startswith(b"["):
        return False

    first, _, others = data.partition(b"\n")
    if not others.strip():
        return False
    if others.lstrip().startswith(b"{"):
        return True
    try:
        msgspec.json.decode(first)
    except JSON_ERRORS:
        return False
    return True
