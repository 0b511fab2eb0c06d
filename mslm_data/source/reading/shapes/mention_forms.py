"""Reads mentions in the various forms used in rows, and detects values that look like mentions."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from mslm_data.data.reason import Reason
from mslm_data.io.files import JSON_ERRORS
from mslm_data.source.reading import cells, tags
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.shapes.options import RowFile
from mslm_data.source.reading.standoff import Annotation

# Names of fields. The first one in a mention is used.
STARTS = ("start", "begin", "start_offset", "start_char", "startOffset")
ENDS = ("end", "end_offset", "end_char", "endOffset")
LABELS = ("label", "labels", "type", "tag")
CONCEPTS = ("concept", "cui", "normalized", "kb_id")

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_OF_TIME = frozenset({"year", "month", "date", "day", "time", "timestamp", "seconds", "ms"})
"""Words in field names that show that the field does not count characters."""
_MOST_KEYS = 8
_DEEPEST = 4
"""Maximum depth of lists and objects searched for mentions."""


def read_mention(entity: object, column: str, file: RowFile) -> list[Annotation]:
    """Read a mention. A mention with several labels becomes several annotations.

    Forms are `[start, end, label]`, `[label, start, end]`, an object with start, end and label
    under any of the known names, `{span: [start, end]}`, and BigBio's `{offsets, text, type}`.

    Args:
        entity: The mention.
        column: Name of its column, for messages and for names of integers.
        file: The file, for names of integers.

    Raises:
        RecordError: The mention has another form.
        SourceError: As for `RowFile.name`.
    """
    if isinstance(entity, list):
        if len(entity) != 3:
            raise RecordError(
                f"expected mentions of start, end and label, got {len(entity)} value(s)",
                code="values of a mention",
            )
        # Argilla 1 has the label first. A label may also be an integer, last.
        start, end, label = entity
        if isinstance(start, str) and type(label) is int:
            label, start, end = entity
        return [Annotation(cells.pairs([(start, end)]), file.name(label, column))]

    values = cells.mapping(entity)
    offsets = values.get("offsets")
    if offsets is None:
        offsets = [values.get("span") or [_value(values, STARTS), _value(values, ENDS)]]
        if offsets == [[None, None]]:
            raise RecordError(
                f"expected mentions with start and end in column {cells.quote_column(column)}, got "
                f"objects with {_keys(values)}"
            )
    annotation = Annotation(
        cells.pairs(offsets),
        label="",
        words=cells.joined(values.get("text")),
        concept=cells.concept(_value(values, CONCEPTS)),
    )
    label = _value(values, LABELS)
    labels = label if isinstance(label, list) else [label]
    names = ["" if name is None else file.name(name, column) for name in labels]
    return [annotation._replace(label=name) for name in names or [""]]


def _keys(values: cells.Cells) -> str:
    names = [str(name) for name in values if cells.can_be_shown(str(name))]
    return f"the keys {', '.join(names[:_MOST_KEYS])}" if names else "keys of unusual names"


def _value(values: cells.Cells, names: Sequence[str]) -> object:
    return values.get(cells.first_filled(values, names) or "")


def items(value: object, column: str) -> list[Any]:
    """Return the mentions in a column: a list, an object of lists, or named groups.

    spaCy has named groups of spans: `{"group": [{"start": ...}]}`. All forms may also be JSON in a
    text, for tables without list columns.
    """
    value = parse_json_text(value)
    # Usually a label of the whole document.
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        kind = "text" if isinstance(value, str) else "number"
        raise RecordError(
            Reason(
                f"expected a list of mentions in column {cells.quote_column(column)}, got a {kind}",
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


def parse_json_text(value: object) -> object:
    """Decode text with a JSON list or object. Other values are returned unchanged."""
    if not isinstance(value, str):
        return value
    if not value.strip():
        return []
    if value.lstrip()[0] not in "[{":
        return value
    try:
        return msgspec.json.decode(value.encode())
    except (UnicodeEncodeError, *JSON_ERRORS):
        return value


def _are_objects(group: list[Any]) -> bool:
    return all(isinstance(item, Mapping) for item in group)


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
        (isinstance(item, Mapping) and _has_range(item, _is_integer))
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
        if isinstance(value, list) and value and all(map(_is_tag, value)):
            return sum(tag[0] in "BSU" for tag in value)
    return -1


def _is_tag(value: object) -> bool:
    return isinstance(value, str) and tags.is_tag(value)


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
    ends = any(_begins(words, ("end", "stop", "length")) for words in places)
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
