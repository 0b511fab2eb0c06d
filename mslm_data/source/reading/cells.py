"""Values in the cells of a row, checked: tables come from anywhere and hold anything.

Every function raises `RecordError` for a value that is not what its name says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mslm_data.data.document import Sentence
from mslm_data.source.reading.records import RecordError

Row = Mapping[str, Any]


def first_of(row: Row, names: Sequence[str]) -> str | None:
    """Return the first of some columns that a row has."""
    return next((name for name in names if row.get(name) is not None), None)


def mapping(value: object) -> Row:
    """Return an object as it is."""
    if not isinstance(value, Mapping):
        raise RecordError("expected a list of objects, got another value")
    return value


def column_list(row: Row, column: str | None) -> list[Any]:
    """Return a column that is a list."""
    value = row.get(column or "")
    if not isinstance(value, list):
        raise RecordError(f"expected a list in column '{column}', got another value")
    return value


def objects(value: object) -> list[Any]:
    """Return a list as it is, and an object of lists (how `datasets` stores a sequence of objects) as a list."""
    if isinstance(value, Mapping):
        columns = {name: list(values) for name, values in value.items() if isinstance(values, list)}
        if len(columns) != len(value) or len({len(values) for values in columns.values()}) > 1:
            raise RecordError("expected lists of equal length in an object of lists, got others")
        return [
            dict(zip(columns, values, strict=True))
            for values in zip(*columns.values(), strict=True)
        ]
    if not isinstance(value, list):
        raise RecordError("expected a list of mentions, passages or sentences, got another value")
    return value


def pairs(offsets: object) -> list[tuple[int, int]]:
    """Return a list of starts and ends that has at least one."""
    if not isinstance(offsets, list) or not offsets:
        raise RecordError("expected offsets, got none")
    found = []
    for pair in offsets:
        is_pair = (
            isinstance(pair, Sequence)
            and len(pair) == 2
            and all(type(value) is int for value in pair)
        )
        if not is_pair:
            raise RecordError("expected offsets that are two integers, start and end, got others")
        found.append((pair[0], pair[1]))
    return found


def joined(text: object) -> str | None:
    """Return text that is one piece, or a list of pieces."""
    if isinstance(text, list) and all(isinstance(piece, str) for piece in text):
        return " ".join(text)
    return text if isinstance(text, str) else None


def concept(value: object) -> str:
    """Return a concept that is text, or the `db_id`s of BigBio's normalisations with `|` between."""
    if isinstance(value, str):
        return "" if value == "-1" else value
    found = (
        [entry.get("db_id") for entry in objects(value) if isinstance(entry, Mapping)]
        if value
        else []
    )
    return "|".join(str(concept) for concept in found if concept)


def sentences(values: list[Any], text: str) -> tuple[Sentence, ...]:
    """Return sentences given as `[start, end]` or `{start, end}`; they rise, and lie within the text."""
    bounds = []
    for value in values:
        pair = [value.get("start"), value.get("end")] if isinstance(value, Mapping) else value
        bounds.append(Sentence(*pairs([pair])[0]))
    ends = [0, *(sentence.end for sentence in bounds)]
    if not all(
        end <= start < stop <= len(text) for end, (start, stop) in zip(ends, bounds, strict=False)
    ):
        raise RecordError("expected sentences within the text, one after the other, got others")
    return tuple(bounds)
