"""Checks the values in the cells of a row, as tables come from anywhere and hold anything.

Every function that reads a value raises `RecordError` where it is not what the name says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mslm_data.data.document import Sentence
from mslm_data.source.reading.records import RecordError

Cells = Mapping[str, Any]
"""A row: column -> value."""

_PLAIN_NAME = re.compile(r"[\w.:/-]{1,40}\Z")


def can_be_shown(column: str) -> bool:
    """Return whether a column's name can stand in a message.

    Where a table has no header its first row is taken for one, so a name of several words may be
    text.
    """
    return _PLAIN_NAME.match(column) is not None


def quote_column(column: str) -> str:
    """Return a column's name in quotes for a message, without a name that may be corpus text."""
    return f"'{column}'" if can_be_shown(column) else "of an unusual name"


def first_filled(row: Cells, names: Sequence[str]) -> str | None:
    """Return the first of `names` for which a row has a value, None if there is none."""
    return next((name for name in names if row.get(name) is not None), None)


def mapping(value: object) -> Cells:
    """Return an object as it is."""
    if not isinstance(value, Mapping):
        raise RecordError("expected a list of objects, got another value")
    return value


def column_list(row: Cells, column: str | None) -> list[Any]:
    """Return the list in a column."""
    value = row.get(column or "")
    if not isinstance(value, list):
        raise RecordError(f"expected a list in column '{column}', got another value")
    return value


def objects(value: object) -> list[Any]:
    """Return a list as it is, and an object of lists as a list of objects.

    `datasets` stores a list of objects as an object of lists.
    """
    if isinstance(value, Mapping):
        columns = {name: list(values) for name, values in value.items() if isinstance(values, list)}
        lengths = sorted({len(values) for values in columns.values()})
        if len(columns) != len(value) or len(lengths) > 1:
            num_others = len(value) - len(columns)
            if num_others:
                got = f"{num_others} other value(s)"
            else:
                got = f"lengths {' and '.join(map(str, lengths))}"
            raise RecordError(
                f"expected lists of equal length in an object of lists, got {got}",
                code="lists of equal length",
            )
        return [
            dict(zip(columns, values, strict=True))
            for values in zip(*columns.values(), strict=True)
        ]
    if not isinstance(value, list):
        raise RecordError("expected a list of mentions, passages or sentences, got another value")
    return value


def pairs(offsets: object) -> list[tuple[int, int]]:
    """Return a list of starts and ends that has at least one pair."""
    if not isinstance(offsets, list) or not offsets:
        raise RecordError("expected offsets, got none")
    result = []
    for pair in offsets:
        # `type` and not `isinstance`, as True is an int.
        is_pair = (
            isinstance(pair, Sequence)
            and len(pair) == 2
            and all(type(value) is int for value in pair)
        )
        if not is_pair:
            raise RecordError(
                f"expected offsets that are two integers, start and end, got {_kind(pair)}"
            )
        result.append((pair[0], pair[1]))
    return result


def _kind(value: object) -> str:
    """Name the type of a value, and of the items of a short list; never its text."""
    name = type(value).__name__
    if not isinstance(value, list | tuple):
        return name
    if len(value) != 2:
        return f"a {name} of {len(value)}"
    return f"a {name} of {' and '.join(type(item).__name__ for item in value)}"


def joined(text: object) -> str | None:
    """Return text, or pieces of text with spaces between; None for anything else."""
    if isinstance(text, list) and all(isinstance(piece, str) for piece in text):
        return " ".join(text)
    return text if isinstance(text, str) else None


def concept(value: object) -> str:
    """Return a concept, "" for none.

    It is text, or a number as SNOMED's are, or a list of these or of BigBio's normalisations with
    their `db_id`, which are joined by `|`.
    """
    if not value or value is True:
        return ""
    if isinstance(value, str | int):
        return "" if str(value) == "-1" else str(value)
    concepts = [
        entry.get("db_id") if isinstance(entry, Mapping) else entry for entry in objects(value)
    ]
    return "|".join(
        str(concept_id)
        for concept_id in concepts
        if concept_id and isinstance(concept_id, str | int)
    )


def sentences(values: list[Any], text: str) -> tuple[Sentence, ...]:
    """Return sentences given as `[start, end]` or `{start, end}`, rising and within the text."""
    bounds = []
    for value in values:
        pair = [value.get("start"), value.get("end")] if isinstance(value, Mapping) else value
        bounds.append(Sentence(*pairs([pair])[0]))

    before = 0
    for sentence in bounds:
        if not before <= sentence.start < sentence.end <= len(text):
            raise RecordError(
                f"expected sentences within the text of {len(text)} characters, one after the "
                f"other, got {sentence.start} to {sentence.end} after {before}",
                code="sentences within the text",
            )
        before = sentence.end
    return tuple(bounds)


def doc_label(value: object, column: str, names: Sequence[str] = ()) -> str:
    """Return the name of a document's own label, "" where it has none.

    Args:
        value: The label, text or an integer.
        column: The column that it stands in.
        names: Names of integers, in order. Without names an integer is its own name; with names a
            negative one means that there is no label.
    """
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bool) or not isinstance(value, int):
        raise RecordError(
            f"expected text or an integer in column '{column}', the document's label, got another "
            "value"
        )
    if not names:
        return str(value)
    if value >= len(names):
        raise RecordError(
            f"expected integers up to {len(names) - 1} in column '{column}', got {value}",
            code="beyond the names of labels",
        )
    return names[value] if value >= 0 else ""
