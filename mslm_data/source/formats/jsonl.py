"""Reads JSON lines, one document per row, in any shape of `SHAPES`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from mslm_data.data.document import Document, SetAside
from mslm_data.errors import SourceError
from mslm_data.source import Guess, Sample
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
    RowReader,
    RowSource,
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
"""Shapes by name. A row has the first shape that fits it."""

COLUMNS = frozenset(IDS).union(*(shape.columns for shape in SHAPES.values()))
"""All columns that some shape reads by name."""

_TOOL_SHAPES = frozenset({*LABEL_STUDIO_SHAPES, "Prodigy"})
"""Shapes of tools that have their own source."""
_DOCCANO_COLUMNS = frozenset({"Comments", "annotation_approver"})
_ROWS_TRIED = 20
"""Number of rows that must be readable for `find_columns` to suggest columns."""


class JsonLines(JsonRows, frozen=True, kw_only=True):
    """Files with one JSON object per line, and `.json` files with an array of objects.

    A document without an id is called `{file}:{number}`, numbered from 0 without blank lines. Lines
    that are not JSON, or not a document, are set aside. Rows that annotators rejected or skipped
    are counted and not read. A row without mentions is an error if one of its other columns looks
    like mentions.
    """

    shapes: ClassVar[Mapping[str, type[Shape]]] = SHAPES

    def sniff(self, sample: Sample) -> Guess:
        """Recognise rows of JSON; see `Source.sniff`."""
        rows = [*json_rows.first_rows(sample.path, sample.head)]
        if why := describe_rows(rows):
            return Guess(why)
        if columns := find_columns(rows):
            why = f"its rows have a text and, in {columns['mentions_column']}, mentions"
            return Guess(why, columns)
        return Guess(problem=_find_problem(sample.path, rows[0]) if rows else "")


def _find_problem(path: Path, row: object) -> str:
    """Return why a file's first row cannot be read, "" if it can."""
    if not isinstance(row, dict):
        return ""
    place = f"{path.name}:1"
    try:
        result = RowReader(RowFile(), SHAPES).document(row, numbered="", place=place)
    except SourceError as error:
        return str(error).removeprefix(f"{place}: ")
    return result.reason.text if isinstance(result, SetAside) else ""


def describe_rows(rows: Iterable[object]) -> str:
    """Describe the shape of a file's first rows, as evidence for a source of rows.

    Shapes of tools with their own source do not count. Other shapes count if a row has mentions;
    the first documents of a corpus may have none.

    Returns:
        "" if there is no evidence.
    """
    for row in rows:
        try:
            columns = named_columns(row)
            name = find_shape(columns, SHAPES)
        except RecordError:
            return ""
        # The source of the tool recognises these rows.
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
    """Find the columns of text and mentions in rows with unusual column names.

    Returns:
        The options for the only pair of columns by which all first rows can be read, empty if there
        is no such pair or several.
    """
    first = [row for row in itertools.islice(rows, _ROWS_TRIED) if isinstance(row, Mapping) and row]
    # Candidates for the text are columns with several words in some row.
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

    # Try every pair of columns: only one may place all mentions.
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
    """Return whether all mentions are within the texts, and there is at least one."""
    options = RowSource(text_column=text, mentions_column=mentions)
    reader = RowReader(RowFile(options=options, beginning=lambda: rows), SHAPES)
    try:
        results = [reader.document(row, numbered="", place="") for row in rows]
    except SourceError:
        return False
    documents = [
        document for document in results if isinstance(document, Document) and not document.unplaced
    ]
    return len(documents) == len(results) and any(document.spans for document in documents)
