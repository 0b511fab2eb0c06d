"""Reads one mention in any of the forms that rows have, and knows what looks like mentions."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mslm_data.data.reason import Reason
from mslm_data.io import json_once
from mslm_data.source.reading import cells, tags
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.shapes.options import RowFile
from mslm_data.source.reading.standoff import Annotation

# Names of fields; of several names for one thing, the first that a mention has counts.
STARTS = ("start", "begin", "start_offset", "start_char", "startOffset")
ENDS = ("end", "end_offset", "end_char", "endOffset")
LABELS = ("label", "labels", "type", "tag")
CONCEPTS = ("concept", "cui", "normalized", "kb_id")

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_OF_TIME = frozenset({"year", "month", "date", "day", "time", "timestamp", "seconds", "ms"})
"""Words in the names of fields that count no characters."""
_MOST_KEYS = 8
_DEEPEST = 4
"""Levels of lists and objects in which mentions are looked for."""


def read_mention(entity: object, column: str, place: str, file: RowFile) -> list[Annotation]:
    """Read a mention; it becomes several where it has several labels.

    The forms are `[start, end, label]`, `[label, start, end]`, an object with start, end and label
    under any of the usual names, or `{span: [start, end]}`, and BigBio's `{offsets, text, type}`.

    Args:
        entity: The mention.
        column: The column it stands in, for messages and names of integers.
        place: The place of its row.
        file: What integers stand for.

    Raises:
        RecordError: It has another form.
        SourceError: As from `RowFile.name`.
    """
    if isinstance(entity, list):
        if len(entity) != 3:
            raise RecordError(
                f"expected mentions of start, end and label, got {len(entity)} value(s)",
                code="values of a mention",
            )
        start, end, label = entity
        if isinstance(start, str) and type(label) is int:
            label, start, end = entity
        return [Annotation(cells.pairs([(start, end)]), file.name(label, column, place))]

    of = cells.mapping(entity)
    offsets = of.get("offsets")
    if offsets is None:
        offsets = [of.get("span") or [_value(of, STARTS), _value(of, ENDS)]]
        if offsets == [[None, None]]:
            raise RecordError(
                f"expected mentions with start and end in column {cells.quote_column(column)}, got "
                f"objects with {_keys(of)}"
            )
    one = Annotation(
        cells.pairs(offsets),
        label="",
        words=cells.joined(of.get("text")),
        concept=cells.concept(_value(of, CONCEPTS)),
    )
    label = _value(of, LABELS)
    labels = label if isinstance(label, list) else [label]
    names = ["" if value is None else file.name(value, column, place) for value in labels]
    return [one._replace(label=name) for name in names or [""]]


def _keys(of: cells.Cells) -> str:
    names = [str(name) for name in of if cells.can_be_shown(str(name))]
    return f"the keys {', '.join(names[:_MOST_KEYS])}" if names else "keys of unusual names"


def _value(of: cells.Cells, names: Sequence[str]) -> object:
    return of.get(cells.first_filled(of, names) or "")


def items(value: object, column: str) -> list[Any]:
    """Return the mentions in a column: a list, an object of lists, or lists under names.

    spaCy keeps groups of spans under names: `{"group": [{"start": ...}]}`. Any of these may stand
    there as JSON in a text, as tables keep them that have no columns of lists.
    """
    value = parse_json_text(value)
    # A label of the whole document, most often.
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        kind = "text" if isinstance(value, str) else "number"
        raise RecordError(
            Reason(
                f"expected a list of mentions in column {cells.quote_column(column)}, got a {kind}",
                advice={
                    "mentions_column": "{set} source.doc_label=… with that name if it holds a "
                    "label of each document, or say where mentions stand with "
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
    """Return the list or object that a text holds as JSON; any other value as it is."""
    if not isinstance(value, str):
        return value
    if not value.strip():
        return []
    if value.lstrip()[0] not in "[{":
        return value
    try:
        return json_once.decode(value.encode())
    except (UnicodeEncodeError, json_once.KeyTwiceError, *json_once.DECODE_ERRORS):
        return value


def _are_objects(group: list[Any]) -> bool:
    return all(isinstance(item, Mapping) for item in group)


def look_like_mentions(value: object, *, depth: int = _DEEPEST) -> bool:
    """Return whether a value holds what reads as mentions.

    That are objects with two integers that say where something starts and ends, or how long it is;
    or lists of two integers and a text. They may stand in lists and objects of others.
    """
    if depth == 0:
        return False
    value = parse_json_text(value)
    if isinstance(value, Mapping):
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
    """Return how many mentions a row that cannot be read seems to have, -1 where it seems none."""
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


def _has_range(of: Mapping[Any, Any], is_place: Any) -> bool:
    """Return whether an object says where something starts, and where it ends or how long it is."""
    if _are_pair(of.get("span")):
        return True
    pieces = of.get("offsets")
    if isinstance(pieces, list) and pieces and all(map(_are_pair, pieces)):
        return True
    names = [str(name) for name, value in of.items() if is_place(value)]
    places = [words for name in names if _OF_TIME.isdisjoint(words := _split_name(name))]
    starts = any(_begins(words, ("start", "begin", "offset")) for words in places)
    ends = any(_begins(words, ("end", "stop", "length")) for words in places)
    return starts and ends


def _are_pair(value: Any) -> bool:
    return _are_integers(value) and len(value) == 2


def _split_name(name: str) -> list[str]:
    """Return the words of a name, such as those of `startOffset` or `end_char`."""
    return [word.lower() for word in _WORD.findall(name)]


def _begins(words: Sequence[str], wanted: Sequence[str]) -> bool:
    """Return whether one of some words is wanted, or the first begins with one, as `endoffset`."""
    return any(word in wanted for word in words) or "".join(words).startswith(tuple(wanted))


def _is_integer(value: object) -> bool:
    # `type` and not `isinstance`, as True is an int.
    return type(value) is int


def _are_integers(values: object) -> bool:
    return isinstance(values, list) and bool(values) and all(map(_is_integer, values))


def _is_triple(item: object) -> bool:
    if not isinstance(item, list) or not 3 <= len(item) <= 5:
        return False
    return sum(map(_is_integer, item)) == 2 and any(isinstance(value, str) for value in item)
