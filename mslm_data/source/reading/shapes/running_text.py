"""Rows of a text with mentions in characters, and of passages with mentions at their offsets."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping
from typing import Literal

from msgspec.structs import replace

from mslm_data.data.document import Document, NotChosen
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.source.reading import cells
from mslm_data.source.reading.cells import Cells
from mslm_data.source.reading.records import NAME_THE_TEXT, NO_TOKEN, RecordError
from mslm_data.source.reading.shapes import mention_forms
from mslm_data.source.reading.shapes.options import TEXTS, Shape
from mslm_data.source.reading.standoff import Annotation

MENTIONS = (
    "ents",
    "entities",
    "spans",
    "mentions",
    "annotations",
    "annotation",
    "labels",
    "label",
)
"""Columns of mentions. The first one with mentions at the file's beginning is used."""

_MOST_NAMES = 8
_FEWEST_ENDS = 10
"""Minimum number of mentions for detecting whether ends are inclusive."""
_MOST_OF = 0.9
"""Minimum share of the mentions that must agree."""


class TextWithMentions(Shape):
    """A text and a column of mentions: doccano, spaCy's JSON, and output of most programs."""

    columns = frozenset({"text", "data", "sentences", "sents", *MENTIONS})

    @classmethod
    def fits(cls, row: Cells) -> bool:  # noqa: ARG003 - the fallback, tried last
        return True

    def read(self, row: Cells, doc_id: str, place: str) -> Document | NotChosen:
        text = read_text(row, self.file.options.text_column)
        return self.document(row, text, self._mentions(row), doc_id, place)

    def _mentions(self, row: Cells) -> list[Annotation]:
        column = self._column(row)
        entities = [] if column is None else mention_forms.items(row[column], column)
        return [
            annotation
            for entity in entities
            for annotation in mention_forms.read_mention(entity, column or "", self.file)
        ]

    def _column(self, row: Cells) -> str | None:
        """Return the column of a row's mentions, None if it has none."""
        option = self.file.options.mentions_column
        if option != "auto":
            return option if row.get(option) is not None else None
        if row.get(self._usual_column) is not None:
            return self._usual_column
        return _filled(row) or cells.first_filled(row, MENTIONS)

    @functools.cached_property
    def _usual_column(self) -> str:
        """Column of mentions in the file's first rows, "" if there is none.

        If a row's list in this column is empty, the row has no mentions, even if other columns do,
        such as a model's suggestions.
        """
        rows = [row for row in self.file.beginning() if isinstance(row, Mapping)]
        filled = {_filled(row) for row in rows}
        return next((name for name in MENTIONS if name in filled), "")

    @functools.cached_property
    def _usual_ends(self) -> Literal["auto", "inclusive"]:
        """Meaning of ends, for mentions without their words.

        "inclusive" if in the file's first rows nearly all ends would cut a word if exclusive, and
        nearly none if inclusive.
        """
        ends = []
        for row in self.file.beginning():
            if isinstance(row, Mapping) and self.fits(row):
                # Errors are reported, with their places, when the rows are read.
                with contextlib.suppress(RecordError, SourceError):
                    text = read_text(row, self.file.options.text_column)
                    mentions = self._mentions(row)
                    ends += [(text, end) for mention in mentions for _, end in mention.fragments]
        cut = sum(_cuts_a_word(text, end) for text, end in ends)
        cut_inclusive = sum(_cuts_a_word(text, end + 1) for text, end in ends)
        are_enough = len(ends) >= _FEWEST_ENDS
        is_sure = cut >= _MOST_OF * len(ends) and cut_inclusive <= (1 - _MOST_OF) * len(ends)
        return "inclusive" if are_enough and is_sure else "auto"

    def document(
        self, row: Cells, text: str, mentions: list[Annotation], doc_id: str, place: str
    ) -> Document:
        """Make a document from a text, its mentions, and the row's sentences."""
        options = self.file.options
        column = cells.first_filled(
            row, [name for name in ("sentences", "sents") if name != options.text_column]
        )
        sentences = None if column is None else cells.sentences(cells.objects(row[column]), text)
        if options.ends == "auto" and mentions and all(one.words is None for one in mentions):
            options = replace(options, ends=self._usual_ends)
        placed = options.place(text, mentions)
        return placed.document(doc_id, text, sentences=sentences, place=place)


def _cuts_a_word(text: str, end: int) -> bool:
    return 0 < end < len(text) and text[end - 1].isalnum() and text[end].isalnum()


def _filled(row: Cells) -> str:
    """Return the first column of a row with mentions, "" if there is none."""
    filled = (name for name in MENTIONS if mention_forms.look_like_mentions(row.get(name)))
    return next(filled, "")


class Passages(Shape):
    """BigBio's passages with entities."""

    columns = frozenset({"passages", "entities"})

    @classmethod
    def fits(cls, row: Cells) -> bool:
        return row.get("passages") is not None

    def read(self, row: Cells, doc_id: str, place: str) -> Document | NotChosen:
        pieces = []
        for passage in map(cells.mapping, cells.objects(row["passages"])):
            start, _ = cells.pairs(passage.get("offsets"))[0]
            pieces.append((start, cells.joined(passage.get("text")) or ""))
        entities = [] if row.get("entities") is None else cells.objects(row["entities"])
        mentions = [
            annotation
            for entity in entities
            for annotation in mention_forms.read_mention(entity, "entities", self.file)
        ]

        text, sentences, placed = self.file.options.lay_out(pieces, mentions)
        if not text:
            raise RecordError("expected passages with text, got none")
        return placed.document(doc_id, text, sentences=sentences, place=place)


def read_text(row: Cells, column: str) -> str:
    """Return the text of a row.

    Args:
        row: The row.
        column: Column of the text. "auto": `text`, or `data` as in some versions of doccano.
    """
    text = row.get(column)
    if column == "auto":
        text = row.get(cells.first_filled(row, TEXTS) or "")
    if column != "auto" and not (isinstance(text, str) and text):
        raise RecordError(
            Reason(f"expected a text in column '{column}', got none", advice=NAME_THE_TEXT)
        )
    # The column exists, so the row has this shape, and only lacks a text.
    if text == "" or (text is None and "text" in row):
        raise RecordError(NO_TOKEN)
    if not isinstance(text, str):
        names = [name for name in row if cells.can_be_shown(name)]
        got = f", but {', '.join(names[:_MOST_NAMES])}" if names else ""
        raise RecordError(
            Reason(
                "expected the columns tokens and ner_tags, or text and entities, or passages and "
                f"entities, got none of them{got}",
                advice=NAME_THE_TEXT,
            )
        )
    return text
