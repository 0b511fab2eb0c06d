"""One row of a table of documents (a JSON object, a row of Arrow) to a `Document`; shared by `jsonl` and `hub`.

Three shapes are known by their columns: words with tags, text with mentions, and BigBio's passages with entities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mslm_data.data.document import Document, Sentence, SetAside
from mslm_data.errors import SourceError
from mslm_data.source.reading import cells, standoff, tags
from mslm_data.source.reading.cells import Row
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.standoff import Discontinuous, Mention
from mslm_data.source.reading.tokens import document_of_words

IDS = ("id", "doc_id", "document_id", "pmid")
WORDS = ("tokens", "words")
TAGS = ("ner_tags", "tags", "labels")
MENTIONS = ("entities", "spans", "labels", "label")
STARTS, ENDS = ("start", "begin", "start_offset"), ("end", "end_offset")
LABELS, CONCEPTS = ("label", "type", "tag"), ("concept", "cui", "normalized")
COLUMNS = frozenset({*IDS, *WORDS, *TAGS, *MENTIONS, "text", "sentences", "passages"})
"""The columns that are looked at; of several names for one thing the first that a row has counts."""


@dataclass(frozen=True, kw_only=True)
class RowReader:
    """Makes documents of rows.

    Attributes:
        names: Column -> names of its integers, in order; "" is for every column that has none of its own.
        id_column: Column of the id, "auto" for the first of `IDS` that a row has, "" to number rows.
        untyped: Label of tags without a type.
        discontinuous: What becomes of a mention in several pieces.
    """

    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    id_column: str = "auto"
    untyped: str = "Entity"
    discontinuous: Discontinuous = "hull"

    def document(self, row: object, *, numbered: str, place: str) -> Document | SetAside:
        """Make a document of a row, or say why it cannot be.

        Args:
            row: A mapping of columns, as JSON or Arrow give it.
            numbered: The id of a row without one.
            place: Where the row stands.

        Raises:
            SourceError: Tags or labels are integers and nobody says what they mean.
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

    def _id(self, row: Row) -> str:
        column = (cells.first_of(row, IDS) if self.id_column == "auto" else self.id_column) or ""
        value = row.get(column)
        if value is None and self.id_column not in ("auto", ""):
            raise RecordError(f"expected an id in column '{self.id_column}', got none")
        return str(value) if isinstance(value, str | int) else ""

    def _of_words(self, row: Row, doc_id: str, place: str) -> Document:
        words = cells.column_list(row, cells.first_of(row, WORDS))
        if not words:
            raise RecordError("expected at least one token, got no tokens")
        column = cells.first_of(row, TAGS)
        if column is None:
            raise RecordError(f"expected tags in one of the columns {', '.join(TAGS)}, got none")
        of_words = [self._name(tag, column, place) for tag in cells.column_list(row, column)]
        if len(words) != len(of_words):
            raise RecordError(
                f"expected a tag for each token, got {len(words)} token(s) and {len(of_words)} tag(s)"
            )
        if not all(isinstance(word, str) and word for word in words):
            raise RecordError("expected tokens that are text, got one that is empty or is none")
        try:
            mentions, late = tags.decode(of_words, untyped=self.untyped)
        except ValueError as error:
            raise RecordError(f"expected tags, got one that is none: {error}") from None
        return document_of_words(doc_id, [words], [mentions], place=place, opened_late=late)

    def _of_text(self, row: Row, doc_id: str, place: str) -> Document:
        text = row.get("text")
        if not isinstance(text, str) or not text:
            raise RecordError(
                "expected columns tokens and ner_tags, text and entities, or passages and entities, got none of them"
            )
        column = cells.first_of(row, MENTIONS)
        entities = [] if column is None else cells.objects(row[column])
        mentions = [self._mention(entity, column or "", place) for entity in entities]
        bounds = row.get("sentences")
        sentences = None if bounds is None else cells.sentences(cells.objects(bounds), text)
        return self._placed(text, sentences, mentions, doc_id, place)

    def _of_passages(self, row: Row, doc_id: str, place: str) -> Document:
        pieces = [
            (cells.pairs(passage.get("offsets"))[0][0], cells.joined(passage.get("text")) or "")
            for passage in map(cells.mapping, cells.objects(row["passages"]))
        ]
        text, sentences = standoff.lay_out(pieces)
        if not text:
            raise RecordError("expected passages with text, got none")
        entities = [] if row.get("entities") is None else cells.objects(row["entities"])
        mentions = [self._mention(entity, "entities", place) for entity in entities]
        return self._placed(text, sentences, mentions, doc_id, place)

    def _placed(
        self,
        text: str,
        sentences: tuple[Sentence, ...] | None,
        mentions: list[Mention],
        doc_id: str,
        place: str,
    ) -> Document:
        placed = standoff.place(text, mentions, discontinuous=self.discontinuous)
        return placed.document(doc_id, text, sentences=sentences, place=place)

    def _mention(self, entity: object, column: str, place: str) -> Mention:
        """Read `[start, end, label]`, `{start, end, label}` or BigBio's `{offsets, text, type}`."""
        if isinstance(entity, list):
            if len(entity) != 3:
                raise RecordError(
                    f"expected mentions of start, end and label, got {len(entity)} value(s)"
                )
            return Mention(cells.pairs([entity[:2]]), self._name(entity[2], column, place))
        of = cells.mapping(entity)
        value = of.get(cells.first_of(of, LABELS) or "")
        label = "" if value is None else self._name(value, column, place)
        offsets = of.get("offsets")
        if offsets is None:
            offsets = [
                [of.get(cells.first_of(of, STARTS) or ""), of.get(cells.first_of(of, ENDS) or "")]
            ]
        concept = cells.concept(of.get(cells.first_of(of, CONCEPTS) or ""))
        return Mention(cells.pairs(offsets), label, cells.joined(of.get("text")), concept)

    def _name(self, value: object, column: str, place: str) -> str:
        """Return the name that a tag or label is, or that an integer stands for."""
        if isinstance(value, str):
            return value
        if not isinstance(value, int) or isinstance(value, bool):
            raise RecordError(f"expected names or integers in column '{column}', got another value")
        names = self.names.get(column, self.names.get("", ()))
        if not names:
            raise SourceError(
                f"{place}: expected names in column '{column}', got integers and nothing that says what they mean; "
                f'pass their names in order as [source] tag_names = ["O", "B-X", ...]'
            )
        if not 0 <= value < len(names):
            raise RecordError(
                f"expected integers from 0 to {len(names) - 1} in column '{column}', got {value}"
            )
        return names[value]
