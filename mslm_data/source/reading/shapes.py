"""Makes documents of rows with named columns, such as JSON objects and rows of Arrow.

The columns tell which shape a row has.

Three shapes are known: words with tags, text with mentions, and BigBio's passages with entities.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mslm_data.data.document import Document, SetAside
from mslm_data.errors import SourceError
from mslm_data.source.reading import cells, tags
from mslm_data.source.reading.cells import Cells
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.standoff import Annotation, OffsetOptions
from mslm_data.source.reading.word_documents import document_of_words

# Names of columns and fields; of several names for one thing, the first that a row has counts.
IDS = ("id", "doc_id", "document_id", "pmid")
WORDS = ("tokens", "words")
TAGS = ("ner_tags", "tags", "labels")
MENTIONS = ("entities", "spans", "labels", "label")
STARTS = ("start", "begin", "start_offset")
ENDS = ("end", "end_offset")
LABELS = ("label", "type", "tag")
CONCEPTS = ("concept", "cui", "normalized")

COLUMNS = frozenset({*IDS, *WORDS, *TAGS, *MENTIONS, "text", "sentences", "passages"})
"""The columns that are read."""


@dataclass(frozen=True, kw_only=True)
class RowReader:
    """Makes documents of the rows of one file.

    Attributes:
        names: Column -> names of its integers, in order; "" is for every column that has none of
            its own.
        id_column: Column of the id, "auto" for the first of `IDS` that a row has, "" to number
            rows.
        untyped: Label of tags without a type.
        placing: How mentions with offsets are placed.
        beginning: Returns the first rows of the file, which decide whether I opens mentions in it;
            see `tags.opens_with_i`.
    """

    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    id_column: str = "auto"
    untyped: str = "Entity"
    placing: OffsetOptions = field(default_factory=OffsetOptions)
    beginning: Callable[[], Iterable[object]] = tuple

    def document(self, row: object, *, numbered: str, place: str) -> Document | SetAside:
        """Make a document of a row, or set it aside.

        Args:
            row: A mapping of columns, as JSON or Arrow give it; anything else is set aside.
            numbered: The id of a row without one.
            place: Where the row stands.

        Raises:
            SourceError: Tags or labels are integers, and their names are unknown.
        """
        doc_id = numbered
        try:
            if not isinstance(row, Mapping):
                raise RecordError("expected an object of named columns, got another value")
            doc_id = self._id(row) or numbered
            if cells.first_of(row, WORDS) is not None:
                return self._of_words(row, doc_id, place)
            if row.get("passages") is not None:
                return self._of_passages(row, doc_id, place)
            return self._of_text(row, doc_id, place)
        except RecordError as error:
            return SetAside(doc_id, place, str(error))

    def _id(self, row: Cells) -> str:
        """Return the id that a row has itself, "" for none."""
        column = self.id_column
        if column == "auto":
            column = cells.first_of(row, IDS) or ""
        value = row.get(column)
        if value is None and self.id_column not in ("auto", ""):
            raise RecordError(f"expected an id in column '{self.id_column}', got none")
        return str(value) if isinstance(value, str | int) else ""

    def _of_words(self, row: Cells, doc_id: str, place: str) -> Document:
        words, of_words = self._words_and_tags(row, place)
        if not all(isinstance(word, str) and word for word in words):
            raise RecordError(
                "expected tokens that are text, got an empty one or a value that is not text"
            )
        try:
            mentions, late = tags.decode(of_words, untyped=self.untyped)
        except ValueError as error:
            raise RecordError(f"expected tags, got an item that is not one: {error}") from None
        if late and self._opens_with_i:
            mentions, late = tags.decode(of_words, untyped=self.untyped, i_opens=True)
        return document_of_words(doc_id, [words], [mentions], place=place, late=late)

    def _words_and_tags(self, row: Cells, place: str) -> tuple[list[Any], list[str]]:
        words = cells.column_list(row, cells.first_of(row, WORDS))
        if not words:
            raise RecordError("expected at least one token, got no tokens")
        column = cells.first_of(row, TAGS)
        if column is None:
            raise RecordError(f"expected tags in one of the columns {', '.join(TAGS)}, got none")
        of_words = [self._name(tag, column, place) for tag in cells.column_list(row, column)]
        if len(words) != len(of_words):
            raise RecordError(
                f"expected a tag for each token, got {len(words)} token(s) and {len(of_words)} "
                "tag(s)"
            )
        return words, of_words

    @functools.cached_property
    def _opens_with_i(self) -> bool:
        """Whether I opens mentions in the file; its first rows that are not broken decide."""
        num_mentions = num_late = 0
        for row in self.beginning():
            try:
                _, of_words = self._words_and_tags(cells.mapping(row), "")
                mentions, late = tags.decode(of_words, untyped=self.untyped)
            except (RecordError, ValueError):
                continue
            num_mentions += len(mentions)
            num_late += late
        return tags.opens_with_i(mentions=num_mentions, late=num_late)

    def _of_text(self, row: Cells, doc_id: str, place: str) -> Document:
        text = row.get("text")
        if not isinstance(text, str) or not text:
            raise RecordError(
                "expected columns tokens and ner_tags, text and entities, or passages and "
                "entities, got none of them"
            )
        column = cells.first_of(row, MENTIONS)
        entities = [] if column is None else cells.objects(row[column])
        annotations = [self._annotation(entity, column or "", place) for entity in entities]
        bounds = row.get("sentences")
        sentences = None if bounds is None else cells.sentences(cells.objects(bounds), text)

        placed = self.placing.place(text, annotations)
        return placed.document(doc_id, text, sentences=sentences, place=place)

    def _of_passages(self, row: Cells, doc_id: str, place: str) -> Document:
        pieces = []
        for passage in map(cells.mapping, cells.objects(row["passages"])):
            start, _ = cells.pairs(passage.get("offsets"))[0]
            pieces.append((start, cells.joined(passage.get("text")) or ""))
        entities = [] if row.get("entities") is None else cells.objects(row["entities"])
        annotations = [self._annotation(entity, "entities", place) for entity in entities]

        text, sentences, placed = self.placing.lay_out(pieces, annotations)
        if not text:
            raise RecordError("expected passages with text, got none")
        return placed.document(doc_id, text, sentences=sentences, place=place)

    def _annotation(self, entity: object, column: str, place: str) -> Annotation:
        """Read `[start, end, label]`, `{start, end, label}` or BigBio's `{offsets, text, type}`."""
        if isinstance(entity, list):
            if len(entity) != 3:
                raise RecordError(
                    f"expected mentions of start, end and label, got {len(entity)} value(s)"
                )
            return Annotation(cells.pairs([entity[:2]]), self._name(entity[2], column, place))

        of = cells.mapping(entity)

        def value(names: Sequence[str]) -> object:
            return of.get(cells.first_of(of, names) or "")

        label = value(LABELS)
        offsets = of.get("offsets")
        if offsets is None:
            offsets = [[value(STARTS), value(ENDS)]]
        return Annotation(
            cells.pairs(offsets),
            label="" if label is None else self._name(label, column, place),
            words=cells.joined(of.get("text")),
            concept=cells.concept(value(CONCEPTS)),
        )

    def _name(self, value: object, column: str, place: str) -> str:
        """Return a tag or label that is a name, or the name that an integer stands for."""
        if isinstance(value, str):
            return value
        if not isinstance(value, int) or isinstance(value, bool):
            raise RecordError(f"expected names or integers in column '{column}', got another value")
        names = self.names.get(column, self.names.get("", ()))
        if not names:
            raise SourceError(
                f"{place}: expected names in column '{column}', got integers and nothing that "
                "says what they mean; "
                f'pass their names in order as [source] tag_names = ["O", "B-X", ...]'
            )
        if not 0 <= value < len(names):
            raise RecordError(
                f"expected integers from 0 to {len(names) - 1} in column '{column}', got {value}"
            )
        return names[value]
