"""Makes documents of rows with named columns, such as JSON objects and rows of Arrow.

The columns tell which shape a row has; `SHAPES` is the table of those that are known.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mslm_data.data.document import Document, NotChosen, SetAside
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.source.reading import cells
from mslm_data.source.reading.cells import Cells, can_be_shown, shown
from mslm_data.source.reading.records import NAME_THE_ID, RecordError
from mslm_data.source.reading.shapes.argilla import ArgillaRecord, ArgillaResponses
from mslm_data.source.reading.shapes.bioc import BiocJson
from mslm_data.source.reading.shapes.docred import DocRed
from mslm_data.source.reading.shapes.label_studio import LabelStudioMin, LabelStudioTask
from mslm_data.source.reading.shapes.medcattrainer import MedcatTrainerDocument
from mslm_data.source.reading.shapes.mention_forms import count_mentions, look_like_mentions
from mslm_data.source.reading.shapes.options import RowFile, RowOptions, Shape
from mslm_data.source.reading.shapes.running_text import (
    MENTIONS,
    Passages,
    ProdigyRow,
    TextWithMentions,
)
from mslm_data.source.reading.shapes.scierc import SciErc
from mslm_data.source.reading.shapes.word_spans import WordsWithSpans
from mslm_data.source.reading.shapes.words import Gliner, WordsWithTags, tag_columns

__all__ = [
    "COLUMNS",
    "IDS",
    "SHAPES",
    "RowFile",
    "RowOptions",
    "RowReader",
    "find_columns",
    "recognised",
]

IDS = ("id", "doc_id", "document_id", "pmid", "doc_key")
"""Columns of ids; the first that a row has counts."""

SHAPES: Mapping[str, type[Shape]] = {
    "GLiNER": Gliner,  # tokenized_text, ner [[first, last, label]]
    "Label Studio": LabelStudioTask,  # data, annotations[].result[].value
    "Label Studio, JSON-MIN": LabelStudioMin,  # text, label [{start, end, text, labels}]
    "Prodigy": ProdigyRow,  # text, spans [{start, end, label}], answer
    "Argilla 1": ArgillaRecord,  # text, annotation [[label, start, end]], prediction
    "Argilla 2": ArgillaResponses,  # fields, responses; or text, question.responses
    "MedCATtrainer": MedcatTrainerDocument,  # text, annotations [{start, end, cui, value, flags}]
    "SciERC": SciErc,  # sentences [[word]], ner [[[first, last, label]]]
    "DocRED": DocRed,  # sents [[word]], vertexSet [[{sent_id, pos, type}]]
    "words with mentions": WordsWithSpans,  # tokens, entities [{start, end, type}] in words
    "words with tags": WordsWithTags,  # tokens, ner_tags
    "BioC JSON": BiocJson,  # passages [{offset, text, annotations [{locations, infons}]}]
    "BigBio": Passages,  # passages [{offsets, text}], entities [{offsets, text, type}]
    "text with mentions": TextWithMentions,  # text, entities [[start, end, label]]
}
"""Shapes by name. A row has the first that fits it."""

COLUMNS = frozenset(IDS).union(*(shape.columns for shape in SHAPES.values()))
"""The columns with a name of their own that are read."""

_NO_MENTIONS = frozenset(
    {
        "relations",
        "events",
        "coreferences",
        "predictions",
        "prediction",
        "tokens",
        "words",
        "noun_chunks",
        "Comments",
    }
)
"""Columns that may look like mentions in what tools and programs write, and are not."""
_FILES_OF_ROWS = {"projects": "medcattrainer", "documents": "bioc"}
"""Column of an object that holds many documents -> the source that reads such files."""
_OF_TOOLS = frozenset({"Label Studio", "Label Studio, JSON-MIN", "Prodigy"})
"""Shapes whose tools have a source of their own."""
_OF_DOCCANO = frozenset({"Comments", "annotation_approver"})
_ROWS_TRIED = 20
"""First rows that must be read by columns of unusual names."""


class RowReader:
    """Makes documents of the rows of one file."""

    def __init__(self, file: RowFile | None = None) -> None:
        """Read rows of a file; without one, by the usual options."""
        self._file = file or RowFile()
        self._shapes: dict[str, Shape] = {}

    def document(
        self, row: object, *, numbered: str, place: str
    ) -> Document | SetAside | NotChosen:
        """Make a document of a row, or set it aside.

        Args:
            row: A mapping of columns, as JSON or Arrow give it, or spaCy's `[text, {"entities":
                …}]`; anything else is set aside.
            numbered: The id of a row without one.
            place: Where the row stands.

        Returns:
            A document; or why there is none.

        Raises:
            SourceError: Tags or labels are integers, and their names are unknown; or a row seems to
                have mentions in a column that is not read.
        """
        doc_id = numbered
        try:
            columns = _named(row)
            doc_id = self._id(columns) or numbered
            doc_label = self._take_doc_label(columns)
            _refuse_file_of_rows(columns, place)
            name = shape_of(columns)
            shape = self._shapes.setdefault(name, SHAPES[name](self._file))
            found = shape.read(columns, doc_id, place)
        except RecordError as error:
            return SetAside(doc_id, place, error.reason, count_mentions(row))

        is_bare = isinstance(found, Document) and not found.spans and not found.unplaced
        if is_bare and not shape.says_none:
            self._refuse_unread(columns, shape, place)
        if doc_label and isinstance(found, Document):
            return found.with_doc_label(doc_label)
        return found

    def _id(self, row: Cells) -> str:
        """Return the id that a row has itself, "" for none."""
        wanted = self._file.options.id_column
        column = cells.first_of(row, IDS) or "" if wanted == "auto" else wanted
        value = row.get(column)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # pandas makes floats of a column that lacks an id somewhere
        if isinstance(value, str | int):
            return str(value)
        if wanted not in ("auto", ""):
            got = "none" if value is None else "another value"
            raise RecordError(
                Reason(
                    f"expected an id in column '{wanted}', text or a whole number, got {got}",
                    advice=NAME_THE_ID,
                )
            )
        return ""

    def _take_doc_label(self, row: dict[str, Any]) -> str:
        """Take the document's label out of a row, so that nobody takes it for mentions."""
        column = self._file.options.doc_label
        if not column:
            return ""
        return cells.doc_label(row.pop(column, None), column, self._file.names.get(column, ()))

    def _refuse_unread(self, row: Cells, shape: Shape, place: str) -> None:
        """Raise if a row in which no mention was found has a column that looks like mentions."""
        wanted = self._file.options.mentions_column
        read = shape.columns
        if wanted != "auto" and row.get(wanted) is None:
            read = read - {*MENTIONS}
        passed_over = {*read, *_NO_MENTIONS, *self._file.options.ignored_columns}
        for column, value in row.items():
            if column in passed_over or not look_like_mentions(value):
                continue
            name = shown(column)
            raise SourceError(
                f"{place}: expected mentions in one of the columns {', '.join(MENTIONS)}, got "
                f"column {name}, which looks like mentions and is not read; say [source] "
                f"mentions_column = {name}, or ignored_columns = [{name}] if it holds none"
            )


def shape_of(row: Cells) -> str:
    """Return the name of a row's shape."""
    return next(name for name, shape in SHAPES.items() if shape.fits(row))


def _refuse_file_of_rows(row: Cells, place: str) -> None:
    """Raise if a row is a whole file of another format."""
    for column, source in _FILES_OF_ROWS.items():
        if isinstance(row.get(column), list) and "text" not in row and "passages" not in row:
            raise SourceError(
                f"{place}: expected a document a row, got an object with a list of {column}; "
                f"source '{source}' reads such files"
            )


def _named(row: object) -> dict[str, Any]:
    """Return a row as a mapping of columns."""
    if isinstance(row, Mapping):
        return dict(row)
    if isinstance(row, list) and len(row) == 2:
        text, of_text = row
        if isinstance(text, str) and isinstance(of_text, Mapping) and "entities" in of_text:
            return {**of_text, "text": text}
    raise RecordError("expected an object of named columns, got another value")


def recognised(rows: Iterable[object]) -> str:
    """Return what in the first rows of a file speaks for a source of rows, "" where nothing does.

    Rows of tools that have a source of their own speak for that. Others speak where they have
    mentions: a corpus may begin with documents that have none.
    """
    for row in rows:
        try:
            columns = _named(row)
            name = shape_of(columns)
        except RecordError:
            return ""
        if name in _OF_TOOLS or not _OF_DOCCANO.isdisjoint(columns):
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
    if not all(map(_is_of_no_tool, first)):
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
        if name not in _NO_MENTIONS and look_like_mentions(value)
    }
    pairs = itertools.product(["text"] if "text" in texts else texts, mentions)
    found = [
        {"text_column": text, "mentions_column": column}
        for text, column in pairs
        if can_be_shown(text) and can_be_shown(column) and _are_read(first, text, column)
    ]
    return found[0] if len(found) == 1 else {}


def _is_of_no_tool(row: Mapping[str, Any]) -> bool:
    return SHAPES[shape_of(row)] is TextWithMentions and _OF_DOCCANO.isdisjoint(row)


def _are_read(rows: Sequence[Mapping[str, Any]], text: str, mentions: str) -> bool:
    """Return whether all mentions of rows lie in their texts."""
    options = RowOptions(text_column=text, mentions_column=mentions)
    reader = RowReader(RowFile(options=options, beginning=lambda: rows))
    try:
        found = [reader.document(row, numbered="", place="") for row in rows]
    except SourceError:
        return False
    documents = [one for one in found if isinstance(one, Document) and not one.unplaced]
    return len(documents) == len(found) and any(one.spans for one in documents)
