"""Rows of files, and checks of the values of their cells.

Functions that read a value raise `RecordError` if it has another type than their name says.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from mslm_data.data.document import Sentence
from mslm_data.io.files import JSON_ERRORS
from mslm_data.source.reading.records import RecordError

Cells = Mapping[str, Any]
"""A row: column -> value."""

LABELS = (
    *("label", "labels", "type", "tag", "entity_type", "label_type", "category", "class"),
    *("entity_label", "entity_group", "tag_name", "entity-type", "entityType"),
    *("display_name", "displayName", "types", "entity", "note_nlp_source_value"),
)
"""Keys of a mention's label. The first one in a mention is used."""

_LONGEST_LITERAL = 1 << 20
"""Maximum size of a list in Python's notation, in characters."""
_LITERAL = re.compile(
    r"""(?:[\[({\])},:\s]|(?:None|True|False|-?\d+(?:\.\d+)?|"""
    r"""'(?:[^'\\\n]|\\(?:[\\'"nrt]|x\w\w|u\w{4}|U\w{8}))*+'|"""
    r""""(?:[^"\\\n]|\\(?:[\\'"nrt]|x\w\w|u\w{4}|U\w{8}))*+")(?=\s*[,:\])}]))*+"""
)
"""Lists, tuples and objects in Python's notation, without operators. Values need commas between
them, as Python joins neighbouring texts, which numpy writes."""
_NUMBER = re.compile(r"[0-9]{1,18}\Z")
_PLAIN_NAME = re.compile(r"[\w.:/-]{1,40}\Z")


class Row(NamedTuple):
    """A row of a file.

    Attributes:
        value: Its cells, by column. In JSON it may be another value.
        numbered: Id for a document without an id: `{file}:{number}`, from 0.
        place: Place of the row: `file:line`, or `file:row` from 1.
    """

    value: Any
    numbered: str
    place: str


def can_be_shown(column: str) -> bool:
    """Return whether a column name may appear in messages.

    In tables without a header the first row is taken for names, so an unusual name may be corpus
    text.
    """
    return _PLAIN_NAME.match(column) is not None


def quote_column(column: str) -> str:
    """Quote a column name for a message, omitting names that may be corpus text."""
    return f"'{column}'" if can_be_shown(column) else "of an unusual name"


def first_filled(row: Cells, names: Sequence[str]) -> str | None:
    """Return the first of `names` with a value in a row, None if there is none."""
    return next((name for name in names if row.get(name) is not None), None)


def lookup(row: Cells, column: str) -> Any:
    """Return the value of a column, or of a field of its objects, as in `data.text`; else None."""
    if column in row:
        return row[column]
    outer, dot, inner = column.partition(".")
    within = row.get(outer)
    return lookup(within, inner) if dot and isinstance(within, Mapping) else None


def has_column(row: Cells, column: str) -> bool:
    """Return whether a row has a column, or a field of its objects, even if it is null."""
    outer, _, inner = column.partition(".")
    within = row.get(outer)
    return column in row or (isinstance(within, Mapping) and has_column(within, inner))


def named_columns(row: object) -> Cells:
    """Return a row as a mapping of columns.

    Raises:
        RecordError: The row is neither an object nor spaCy's pair of a text and its entities.
    """
    if isinstance(row, Mapping):
        return row
    if isinstance(row, list) and len(row) == 2:
        text, annotations = row
        if isinstance(text, str) and isinstance(annotations, Mapping) and "entities" in annotations:
            return {**annotations, "text": text}
    raise RecordError("expected an object with named columns, got another value")


def parse_json_text(value: object) -> object:
    """Decode text with a JSON list or object. Other values are returned unchanged."""
    if not isinstance(value, str):
        return value
    begin = value.lstrip()[:1] if value[:1].isspace() else value[:1]
    if not begin:
        return []
    if begin not in "[{":
        return value
    try:
        return msgspec.json.decode(value.encode())
    except (UnicodeEncodeError, *JSON_ERRORS):
        return value


def parse_cell(value: str | None) -> object:
    """Decode a cell of a table with a list or object, in JSON or in Python's notation as of pandas.

    Other values are returned unchanged.
    """
    if not value or value.lstrip()[:1] not in ("[", "{", "("):
        return value
    decoded = parse_json_text(value)
    is_text = isinstance(decoded, str)
    if is_text and len(value) <= _LONGEST_LITERAL and _LITERAL.fullmatch(value):
        try:
            return _as_json(ast.literal_eval(value.strip()))
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return value
    return decoded


def _as_json(value: object) -> object:
    """Replace tuples with lists, as JSON has."""
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    if isinstance(value, dict):
        return {key: _as_json(item) for key, item in value.items()}
    return value


def mapping(value: object) -> Cells:
    """Check that a value is an object, and return it."""
    if not isinstance(value, dict):
        raise RecordError("expected a list of objects, got another value")
    return value


def column_list(row: Cells, column: str | None) -> list[Any]:
    """Return the list in a column."""
    value = row.get(column or "")
    if not isinstance(value, list):
        raise RecordError(f"expected a list in column '{column}', got another value")
    return value


def objects(value: object) -> list[Any]:
    """Return a list, converting an object of lists to a list of objects.

    `datasets` stores a list of objects as an object of lists.
    """
    if isinstance(value, dict):
        columns = {name: list(values) for name, values in value.items() if isinstance(values, list)}
        lengths = sorted({len(values) for values in columns.values()})
        # All values must be lists of the same length.
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
    """Return a non-empty list of `[start, end]` as tuples."""
    if not isinstance(offsets, list) or not offsets:
        raise RecordError("expected offsets, got none")
    return [pair(value) for value in offsets]


def pair(value: object) -> tuple[int, int]:
    """Return `[start, end]` as a tuple. The integers may be written as texts."""
    if isinstance(value, list | tuple) and len(value) == 2:
        start, end = value
        if is_number(start) and is_number(end):
            return int(start), int(end)
    raise RecordError(f"expected offsets as two integers, start and end, got {_kind(value)}")


def is_number(value: object) -> bool:
    """Return whether a value is a whole number, which may be written as a text."""
    # `type` instead of `isinstance`, because True is an int.
    return type(value) is int or (isinstance(value, str) and _NUMBER.match(value) is not None)


def _kind(value: object) -> str:
    """Describe the type of a value, and of the items of a pair, without its text."""
    name = type(value).__name__
    if not isinstance(value, list | tuple):
        return name
    if len(value) != 2:
        return f"a {name} of {len(value)}"
    return f"a {name} of {' and '.join(type(item).__name__ for item in value)}"


def joined(text: object) -> str | None:
    """Return text, or pieces of text joined with spaces; None for anything else."""
    if isinstance(text, list) and all(isinstance(piece, str) for piece in text):
        return " ".join(text)
    return text if isinstance(text, str) else None


def document_id(value: object) -> str:
    """Return an id, given as text or as a whole number; "" for other values."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # pandas makes floats of a column that lacks an id somewhere
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)
    return ""


def concept(value: object) -> str:
    """Return a concept id, "" if there is none.

    Accepts text, integers (such as SNOMED ids), lists of these, and BigBio's normalisations with
    their `db_id`. Several ids are joined with `|`.
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
    """Return sentences given as `[start, end]` or `{start, end}`, ascending and within the text."""
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
    """Return the label of a document, "" if it has none.

    Args:
        value: The label, text or an integer.
        column: Name of its column, for the error.
        names: Names of integer labels. Without names, integers are their own names. With names, a
            negative integer means no label.
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
            f"expected a label number below {len(names)} in column '{column}', as the file names "
            f"{len(names)} labels, got {value}",
            code="beyond the names of labels",
        )
    return names[value] if value >= 0 else ""
