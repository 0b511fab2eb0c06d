"""Makes documents from rows with named columns, such as JSON objects and Arrow rows.

The columns of a row determine its shape. `PLAIN_SHAPES` are the shapes without a source of their
own. Shapes of annotation tools are defined by their sources; `formats/jsonl.py` has the table of
all shapes.
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
from mslm_data.source.reading.shapes.options import RowFile, RowSource, Shape
from mslm_data.source.reading.shapes.running_text import MENTIONS, Passages, TextWithMentions
from mslm_data.source.reading.shapes.scierc import SciErc
from mslm_data.source.reading.shapes.word_spans import WordsWithSpans
from mslm_data.source.reading.shapes.words import Gliner, WordsWithTags

__all__ = [
    "IDS",
    "NO_MENTIONS",
    "PLAIN_SHAPES",
    "RowFile",
    "RowReader",
    "RowSource",
    "find_shape",
    "named_columns",
]

IDS = ("id", "doc_id", "document_id", "pmid", "doc_key")
"""Columns of ids. The first one in a row is used."""

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
"""Shapes by name. A row has the first shape that fits it."""

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
"""Columns of tools and programs that may look like mentions, but are not."""
_FILES_OF_ROWS = {"projects": "medcattrainer", "documents": "bioc"}
"""Column with many documents in one object -> source that reads such files."""


class RowReader:
    """Makes documents from the rows of one file."""

    def __init__(self, file: RowFile, shapes: Mapping[str, type[Shape]]) -> None:
        """Read rows of a file.

        Args:
            file: The file.
            shapes: Shapes by name. A row has the first shape that fits it.
        """
        self._file = file
        self._shapes = shapes
        self._readers: dict[str, Shape] = {}

    def document(
        self, row: object, *, numbered: str, place: str
    ) -> Document | SetAside | NotChosen:
        """Make a document from a row, or set it aside.

        Args:
            row: Mapping of columns, or spaCy's `[text, {"entities": …}]`. Other values are set
                aside.
            numbered: Id for a row without an id.
            place: Place of the row in the input.

        Returns:
            A document, or the reason why there is none.

        Raises:
            SourceError: Tags or labels are integers without known names, or a row seems to have
                mentions in a column that is not read.
        """
        try:
            return self._document(row, numbered, place)
        except SourceError as error:
            raise SourceError(f"{place}: {error}") from None

    def _document(self, row: object, numbered: str, place: str) -> Document | SetAside | NotChosen:
        # The id and the label come first, so that they are known if the row is set aside.
        doc_id = numbered
        try:
            columns = named_columns(row)
            doc_id = self._id(columns) or numbered
            doc_label = self._take_doc_label(columns)
            _check_not_file(columns)
            name = find_shape(columns, self._shapes)
            shape = self._readers.setdefault(name, self._shapes[name](self._file))
            result = shape.read(columns, doc_id, place)
        except RecordError as error:
            return SetAside(doc_id, place, error.reason, count_mentions(row))

        is_bare = isinstance(result, Document) and not result.spans and not result.unplaced
        # A row without mentions may have them in a column of another name.
        if is_bare and not shape.says_none:
            self._check_unread_columns(columns, shape)
        if doc_label and isinstance(result, Document):
            return result.with_doc_label(doc_label)
        return result

    def _id(self, row: Cells) -> str:
        """Return the id in a row, "" if there is none."""
        option = self._file.options.id_column
        column = cells.first_filled(row, IDS) or "" if option == "auto" else option
        value = row.get(column)
        doc_id = cells.document_id(value)
        if not doc_id and value != "" and option not in ("auto", ""):
            got = "none" if value is None else "another value"
            raise RecordError(
                Reason(
                    f"expected an id in column '{option}', text or a whole number, got {got}",
                    advice=NAME_THE_ID,
                )
            )
        return doc_id

    def _take_doc_label(self, row: dict[str, Any]) -> str:
        """Remove the document's label from a row, so that it is not taken for mentions."""
        column = self._file.options.doc_label
        if not column:
            return ""
        return cells.doc_label(row.pop(column, None), column, self._file.names.get(column, ()))

    def _check_unread_columns(self, row: Cells, shape: Shape) -> None:
        """Raise if a row without mentions has an unread column that looks like mentions."""
        option = self._file.options.mentions_column
        read = shape.columns
        if option != "auto" and row.get(option) is None:
            read = read - {*MENTIONS}
        skipped = {*read, *NO_MENTIONS, *self._file.options.ignored_columns}
        for column, value in row.items():
            if column in skipped or not look_like_mentions(value):
                continue
            name = quote_column(column)
            raise SourceError(
                f"expected mentions in one of the columns {', '.join(MENTIONS)}, got "
                f"column {name}, which looks like mentions and is not read; set [source] "
                f"mentions_column = {name}, or ignored_columns = [{name}] if it has no mentions"
            )


def find_shape(row: Cells, shapes: Mapping[str, type[Shape]]) -> str:
    """Return the name of the first shape that fits a row."""
    return next(name for name, shape in shapes.items() if shape.fits(row))


def _check_not_file(row: Cells) -> None:
    """Raise if a row is a whole file of another format."""
    for column, source in _FILES_OF_ROWS.items():
        if isinstance(row.get(column), list) and "text" not in row and "passages" not in row:
            raise SourceError(
                f"expected one document per row, got an object with a list of {column}; "
                f"source '{source}' reads such files"
            )


def named_columns(row: object) -> dict[str, Any]:
    """Return a row as a mapping of columns.

    Raises:
        RecordError: The row is neither an object nor spaCy's pair of a text and its entities.
    """
    if isinstance(row, Mapping):
        return dict(row)
    if isinstance(row, list) and len(row) == 2:
        text, annotations = row
        if isinstance(text, str) and isinstance(annotations, Mapping) and "entities" in annotations:
            return {**annotations, "text": text}
    raise RecordError("expected an object with named columns, got another value")
