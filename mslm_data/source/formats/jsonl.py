"""Reads JSON lines, a document each, of any shape that is known: `SHAPES`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from mslm_data.data.document import Document, SetAside
from mslm_data.errors import SourceError
from mslm_data.source.formats.bioc import BiocJson
from mslm_data.source.formats.label_studio import LABEL_STUDIO_SHAPES
from mslm_data.source.formats.medcattrainer import MedcatTrainerDocument
from mslm_data.source.formats.prodigy import ProdigyRow
from mslm_data.source.reading import json_rows
from mslm_data.source.reading.cells import can_be_shown
from mslm_data.source.reading.json_sources import JsonRows
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.shapes import (
    IDS,
    NO_MENTIONS,
    PLAIN_SHAPES,
    RowFile,
    RowOptions,
    RowReader,
    find_shape,
    named_columns,
)
from mslm_data.source.reading.shapes.mention_forms import look_like_mentions
from mslm_data.source.reading.shapes.options import Shape
from mslm_data.source.reading.shapes.running_text import MENTIONS, TextWithMentions
from mslm_data.source.reading.shapes.words import WordsWithTags, tag_columns

SHAPES: Mapping[str, type[Shape]] = {
    **LABEL_STUDIO_SHAPES,
    "Prodigy": ProdigyRow,
    "MedCATtrainer": MedcatTrainerDocument,
    "BioC JSON": BiocJson,
    **PLAIN_SHAPES,
}
"""Shapes by name. A row has the first that fits it."""

COLUMNS = frozenset(IDS).union(*(shape.columns for shape in SHAPES.values()))
"""The columns with a name of their own that are read."""

_TOOL_SHAPES = frozenset({*LABEL_STUDIO_SHAPES, "Prodigy"})
"""Shapes whose tools have a source that reads rows."""
_DOCCANO_COLUMNS = frozenset({"Comments", "annotation_approver"})
_ROWS_TRIED = 20
"""First rows that must be read by columns of unusual names."""


@dataclass(frozen=True, kw_only=True)
class JsonLines(JsonRows):
    """Files of one JSON object a line, and `.json` files that are one array of objects.

    A document without an id of its own is called `{file}:{number}`, with its number in the file
    from 0; blank lines do not count. A line that is not JSON, or not a document, is set aside.
    Rows that annotators rejected or skipped are counted, and not read. A row without
    mentions is refused if another of its columns looks like mentions.
    """

    shapes: ClassVar[Mapping[str, type[Shape]]] = SHAPES

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> str:
        """Return what speaks for rows of JSON; see `Source.recognises`."""
        why = describe_rows(json_rows.first_rows(path, head))
        if not why and (columns := find_columns(json_rows.first_rows(path, head))):
            why = f"its rows have a text and, in {columns['mentions_column']}, mentions"
        return why

    @classmethod
    def suggest_options(cls, path: Path, head: bytes) -> Mapping[str, Any]:
        """Return the columns of rows without the usual names; see `Source.suggest_options`."""
        if describe_rows(json_rows.first_rows(path, head)):
            return {}
        return find_columns(json_rows.first_rows(path, head))

    @classmethod
    def falls_short(cls, path: Path, head: bytes) -> str:
        """Return what keeps the first row from being read; see `Source.falls_short`."""
        row = next(json_rows.first_rows(path, head), None)
        if not isinstance(row, dict):
            return ""
        place = f"{path.name}:1"
        try:
            result = RowReader(RowFile(), SHAPES).document(row, numbered="", place=place)
        except SourceError as error:
            return str(error).removeprefix(f"{place}: ")
        return result.reason.text if isinstance(result, SetAside) else ""


def describe_rows(rows: Iterable[object]) -> str:
    """Return what in the first rows of a file speaks for a source of rows, "" where nothing does.

    Rows of tools that have a source of their own speak for that. Others speak where they have
    mentions: a corpus may begin with documents that have none.
    """
    for row in rows:
        try:
            columns = named_columns(row)
            name = find_shape(columns, SHAPES)
        except RecordError:
            return ""
        if name in _TOOL_SHAPES or not _DOCCANO_COLUMNS.isdisjoint(columns):
            return ""
        if SHAPES[name] is TextWithMentions:
            has_mentions = any(look_like_mentions(columns.get(column)) for column in MENTIONS)
            if has_mentions and "text" in columns:
                return f"its rows have {name}"
        elif SHAPES[name] is WordsWithTags:
            if tag_columns(columns):
                return f"its rows have {name}"
        else:
            return f"its rows are those of {name}"
    return ""


def find_columns(rows: Iterable[object]) -> dict[str, str]:
    """Return the options that name the text and the mentions of rows without the usual names.

    They are named where all first rows can be read by one pair of columns, and by no other.
    """
    first = [row for row in itertools.islice(rows, _ROWS_TRIED) if isinstance(row, Mapping) and row]
    if not all(map(_is_plain_row, first)):
        return {}
    texts = {
        name: None
        for row in first
        for name, value in row.items()
        if isinstance(value, str) and " " in value.strip()
    }
    mentions = {
        name: None
        for row in first
        for name, value in row.items()
        if name not in NO_MENTIONS and look_like_mentions(value)
    }
    pairs = itertools.product(["text"] if "text" in texts else texts, mentions)
    options = [
        {"text_column": text, "mentions_column": column}
        for text, column in pairs
        if can_be_shown(text) and can_be_shown(column) and _are_read(first, text, column)
    ]
    return options[0] if len(options) == 1 else {}


def _is_plain_row(row: Mapping[str, Any]) -> bool:
    return SHAPES[find_shape(row, SHAPES)] is TextWithMentions and _DOCCANO_COLUMNS.isdisjoint(row)


def _are_read(rows: Sequence[Mapping[str, Any]], text: str, mentions: str) -> bool:
    """Return whether all mentions of rows lie in their texts."""
    options = RowOptions(text_column=text, mentions_column=mentions)
    reader = RowReader(RowFile(options=options, beginning=lambda: rows), SHAPES)
    try:
        results = [reader.document(row, numbered="", place="") for row in rows]
    except SourceError:
        return False
    documents = [
        document for document in results if isinstance(document, Document) and not document.unplaced
    ]
    return len(documents) == len(results) and any(document.spans for document in documents)
