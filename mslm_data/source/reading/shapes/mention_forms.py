"""Reads mentions in the various forms used in rows, and detects values that look like mentions."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mslm_data.data.reason import Reason
from mslm_data.source.form import Findings
from mslm_data.source.reading import cells, tags
from mslm_data.source.reading.cells import Cells, parse_json_text
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.standoff import Annotation

if TYPE_CHECKING:
    from mslm_data.source.reading.shapes.base import RowsFile

# Keys of mentions. The first one in a mention is used.
STARTS = (
    "start",
    "begin",
    "start_offset",
    "start_char",
    "startOffset",
    "start_position",
    "start_pos",
    "start_idx",
    "start_byte",
)
ENDS = (
    "end",
    "end_offset",
    "end_char",
    "endOffset",
    "end_position",
    "end_pos",
    "end_idx",
    "end_byte",
    "limit_byte",
)
CONCEPTS = ("concept", "cui", "normalized", "kb_id")
WORDS = ("text", "entity_value")

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_OF_TIME = frozenset({"year", "month", "date", "day", "time", "timestamp", "seconds", "ms"})
"""Words in field names that show that the field does not count characters."""
_DEEPEST = 4
"""Maximum depth of lists and objects searched for mentions."""


def read_mentions(value: object, column: str, file: RowsFile, found: Findings) -> list[Annotation]:
    """Read the mentions in a column.

    Args:
        value: The value of the column, as for `items`.
        column: Name of the column, for messages and for names of integers.
        file: The file, for names of integers and of keys.
        found: The unit of offsets is set if the keys name it.

    Raises:
        RecordError: The mentions have another form.
        SourceError: As for `RowsFile.name`.
    """
    annotations: list[Annotation] = []
    for entity in items(value, column, file):
        if isinstance(entity, list):
            annotations.append(_read_list(entity, column, file))
        else:
            annotations += _read_object(cells.mapping(entity), column, file, found)
    return annotations


def _read_list(entity: list[Any], column: str, file: RowsFile) -> Annotation:
    """Read `[start, end, label]`, or `[label, start, end]` as in Argilla 1."""
    if len(entity) != 3:
        raise RecordError(
            f"expected mentions of start, end and label, got {len(entity)} value(s)",
            code="values of a mention",
        )
    start, end, label = entity
    # A label may also be an integer, last.
    if isinstance(start, str) and type(label) is int:
        label, start, end = entity
    return Annotation((cells.pair((start, end)),), file.name(label, column))


def _read_object(row: Cells, column: str, file: RowsFile, found: Findings) -> Sequence[Annotation]:
    """Read an object. A mention with several labels becomes several annotations.

    Forms are start, end and label under any of the known keys, `{span: [start, end]}`, and BigBio's
    `{offsets, text, type}`.
    """
    label = _value(row, cells.LABELS, file.options.label_key)
    annotation = Annotation(
        _fragments(row, column, file, found),
        label="",
        words=cells.joined(_value(row, WORDS)),
        concept=cells.concept(_value(row, CONCEPTS)),
    )
    if isinstance(label, str):
        return (annotation._replace(label=label),)
    labels = label if isinstance(label, list) else [label]
    names = ["" if name is None else file.name(name, column) for name in labels]
    return [annotation._replace(label=name) for name in names or [""]]


def _fragments(
    row: Cells, column: str, file: RowsFile, found: Findings
) -> Sequence[tuple[int, int]]:
    """Return the ranges of a mention, and set their unit if the keys name it."""
    offsets = row.get("offsets")
    if offsets is not None:
        return cells.pairs(offsets)
    start = _value(row, STARTS, file.options.start_key)
    end = _value(row, ENDS, file.options.end_key)
    # `type` instead of `isinstance`, because True is an int.
    if type(start) is int and type(end) is int:
        if row.get("start_byte") == start:
            found.unit = "bytes"
        return ((start, end),)
    if start is None and end is None and not row.get("span"):
        raise RecordError(
            Reason(
                f"expected mentions with start and end in column {file.quote(column)}, got objects "
                f"with {file.show_keys(row, column)}",
                code="keys of mentions",
                advice={
                    "start_key": "name the keys of a mention with source.start_key, "
                    "source.end_key and source.label_key"
                },
            )
        )
    return cells.pairs([row.get("span") or [start, end]])


def _value(row: Cells, names: Sequence[str], option: str = "") -> object:
    """Return the value of a key, or of the first of some keys that has one."""
    if option:
        return row.get(option)
    for name in names:
        value = row.get(name)
        if value is not None:
            return value
    return None


def items(value: object, column: str, file: RowsFile) -> list[Any]:
    """Return the mentions in a column: a list, an object of lists, or named groups.

    spaCy has named groups of spans: `{"group": [{"start": ...}]}`. All forms may also be JSON in a
    text, for tables without list columns.
    """
    if isinstance(value, list):
        return value
    value = parse_json_text(value)
    # Usually a label of the whole document.
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        kind = "text" if isinstance(value, str) else "number"
        raise RecordError(
            Reason(
                f"expected a list of mentions in column {file.quote(column)}, got a {kind}",
                advice={
                    "mentions_column": "{set} source.doc_label=… with that name if it holds a "
                    "label of each document, or name the column of mentions with "
                    "source.mentions_column"
                },
            )
        )
    if isinstance(value, Mapping) and value:
        groups = list(value.values())
        if all(isinstance(group, list) and _are_objects(group) for group in groups):
            return list(itertools.chain.from_iterable(groups))
    return cells.objects(value)


def _are_objects(group: list[Any]) -> bool:
    return all(isinstance(item, Mapping) for item in group)


# Values that look like mentions -------------------------------------------------------------------


def look_like_mentions(value: object, *, depth: int = _DEEPEST) -> bool:
    """Return whether a value looks like mentions.

    Looks for objects with integers for start and end or length, and lists of two integers and a
    text, at any depth up to `depth`.
    """
    if depth == 0:
        return False
    value = parse_json_text(value)
    if isinstance(value, Mapping):
        # `datasets` stores a list of objects as an object of lists.
        is_table = all(isinstance(values, list) for values in value.values())
        if is_table and _has_range(value, _are_integers):
            return True
        return any(look_like_mentions(inner, depth=depth - 1) for inner in value.values())
    if not isinstance(value, list):
        return False
    return any(
        (isinstance(item, Mapping) and _has_range_within(item))
        or _is_triple(item)
        or look_like_mentions(item, depth=depth - 1)
        for item in value
    )


def count_mentions(row: object) -> int:
    """Estimate the number of mentions in a row that cannot be read, -1 if it seems to have none."""
    if not isinstance(row, Mapping):
        return -1
    for value in map(parse_json_text, row.values()):
        if look_like_mentions(value):
            return len(value) if isinstance(value, list) else 1
        items = value.split() if isinstance(value, str) else value
        if isinstance(items, list) and items and all(map(_is_tag, items)):
            return sum(tag[0] in "BSU" for tag in items)
    return -1


def _is_tag(value: object) -> bool:
    return isinstance(value, str) and tags.is_tag(value)


def _has_range_within(item: Mapping[Any, Any]) -> bool:
    """Return whether an object has a start and an end, or has an object with them."""
    objects = [item, *(inner for inner in item.values() if isinstance(inner, Mapping))]
    return any(_has_range(values, _is_integer) for values in objects)


def _has_range(values: Mapping[Any, Any], is_place: Any) -> bool:
    """Return whether an object has a start, and an end or a length."""
    if _are_pair(values.get("span")):
        return True
    pieces = values.get("offsets")
    if isinstance(pieces, list) and pieces and all(map(_are_pair, pieces)):
        return True
    names = [str(name) for name, value in values.items() if is_place(value)]
    places = [words for name in names if _OF_TIME.isdisjoint(words := _split_name(name))]
    starts = any(_begins(words, ("start", "begin", "offset")) for words in places)
    ends = any(_begins(words, ("end", "stop", "length", "limit")) for words in places)
    return starts and ends


def _are_pair(value: Any) -> bool:
    return _are_integers(value) and len(value) == 2


def _split_name(name: str) -> list[str]:
    """Split a name such as `startOffset` or `end_char` into words."""
    return [word.lower() for word in _WORD.findall(name)]


def _begins(words: Sequence[str], wanted: Sequence[str]) -> bool:
    """Return whether one of the words is wanted, or the first begins with one, as `endoffset`."""
    return any(word in wanted for word in words) or "".join(words).startswith(tuple(wanted))


def _is_integer(value: object) -> bool:
    # `type` instead of `isinstance`, because True is an int.
    return type(value) is int


def _are_integers(values: object) -> bool:
    return isinstance(values, list) and bool(values) and all(map(_is_integer, values))


def _is_triple(item: object) -> bool:
    if not isinstance(item, list) or not 3 <= len(item) <= 5:
        return False
    return sum(map(_is_integer, item)) == 2 and any(isinstance(value, str) for value in item)
