"""Makes documents of rows with named columns, such as JSON objects and rows of Arrow.

The columns tell which shape a row has. `PLAIN_SHAPES` are those of no source of their own; the rows
of annotation tools are in their sources, and `formats/jsonl.py` has the table of all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mslm_data.data.document import Document, NotChosen, SetAside
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.source.reading import cells
from mslm_data.source.reading.cells import Cells, quote_column
from mslm_data.source.reading.records import NAME_THE_ID, RecordError
from mslm_data.source.reading.shapes.argilla import ArgillaRecord, ArgillaResponses
from mslm_data.source.reading.shapes.docred import DocRed
from mslm_data.source.reading.shapes.mention_forms import count_mentions, look_like_mentions
from mslm_data.source.reading.shapes.options import RowFile, RowOptions, Shape
from mslm_data.source.reading.shapes.running_text import MENTIONS, Passages, TextWithMentions
from mslm_data.source.reading.shapes.scierc import SciErc
from mslm_data.source.reading.shapes.word_spans import WordsWithSpans
from mslm_data.source.reading.shapes.words import Gliner, WordsWithTags

__all__ = [
    "IDS",
    "NO_MENTIONS",
    "PLAIN_SHAPES",
    "RowFile",
    "RowOptions",
    "RowReader",
    "find_shape",
    "named_columns",
]

IDS = ("id", "doc_id", "document_id", "pmid", "doc_key")
"""Columns of ids; the first that a row has counts."""

PLAIN_SHAPES: Mapping[str, type[Shape]] = {
    "GLiNER": Gliner,  # tokenized_text, ner [[first, last, label]]
    "Argilla 1": ArgillaRecord,  # text, annotation [[label, start, end]], prediction
    "Argilla 2": ArgillaResponses,  # fields, responses; or text, question.responses
    "SciERC": SciErc,  # sentences [[word]], ner [[[first, last, label]]]
    "DocRED": DocRed,  # sents [[word]], vertexSet [[{sent_id, pos, type}]]
    "words with mentions": WordsWithSpans,  # tokens, entities [{start, end, type}] in words
    "words with tags": WordsWithTags,  # tokens, ner_tags
    "BigBio": Passages,  # passages [{offsets, text}], entities [{offsets, text, type}]
    "text with mentions": TextWithMentions,  # text, entities [[start, end, label]]
}
"""Shapes by name. A row has the first that fits it."""

NO_MENTIONS = frozenset(
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


class RowReader:
    """Makes documents of the rows of one file."""

    def __init__(self, file: RowFile, shapes: Mapping[str, type[Shape]]) -> None:
        """Read rows of a file.

        Args:
            file: The file.
            shapes: The shapes that its rows may have, by name. A row has the first that fits it.
        """
        self._file = file
        self._shapes = shapes
        self._readers: dict[str, Shape] = {}

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
            columns = named_columns(row)
            doc_id = self._id(columns) or numbered
            doc_label = self._take_doc_label(columns)
            _check_not_file(columns, place)
            name = find_shape(columns, self._shapes)
            shape = self._readers.setdefault(name, self._shapes[name](self._file))
            result = shape.read(columns, doc_id, place)
        except RecordError as error:
            return SetAside(doc_id, place, error.reason, count_mentions(row))

        is_bare = isinstance(result, Document) and not result.spans and not result.unplaced
        if is_bare and not shape.says_none:
            self._check_unread_columns(columns, shape, place)
        if doc_label and isinstance(result, Document):
            return result.with_doc_label(doc_label)
        return result

    def _id(self, row: Cells) -> str:
        """Return the id that a row has itself, "" for none."""
        wanted = self._file.options.id_column
        column = cells.first_filled(row, IDS) or "" if wanted == "auto" else wanted
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

    def _check_unread_columns(self, row: Cells, shape: Shape, place: str) -> None:
        """Raise if a row in which no mention was found has a column that looks like mentions."""
        wanted = self._file.options.mentions_column
        read = shape.columns
        if wanted != "auto" and row.get(wanted) is None:
            read = read - {*MENTIONS}
        passed_over = {*read, *NO_MENTIONS, *self._file.options.ignored_columns}
        for column, value in row.items():
            if column in passed_over or not look_like_mentions(value):
                continue
            name = quote_column(column)
            raise SourceError(
                f"{place}: expected mentions in one of the columns {', '.join(MENTIONS)}, got "
                f"column {name}, which looks like mentions and is not read; say [source] "
                f"mentions_column = {name}, or ignored_columns = [{name}] if it holds none"
            )


def find_shape(row: Cells, shapes: Mapping[str, type[Shape]]) -> str:
    """Return the name of the first shape that fits a row."""
    return next(name for name, shape in shapes.items() if shape.fits(row))


def _check_not_file(row: Cells, place: str) -> None:
    """Raise if a row is a whole file of another format."""
    for column, source in _FILES_OF_ROWS.items():
        if isinstance(row.get(column), list) and "text" not in row and "passages" not in row:
            raise SourceError(
                f"{place}: expected a document a row, got an object with a list of {column}; "
                f"source '{source}' reads such files"
            )


def named_columns(row: object) -> dict[str, Any]:
    """Return a row as a mapping of columns.

    Raises:
        RecordError: It is neither an object nor a text with its entities, as spaCy writes it.
    """
    if isinstance(row, Mapping):
        return dict(row)
    if isinstance(row, list) and len(row) == 2:
        text, annotations = row
        if isinstance(text, str) and isinstance(annotations, Mapping) and "entities" in annotations:
            return {**annotations, "text": text}
    raise RecordError("expected an object of named columns, got another value")
