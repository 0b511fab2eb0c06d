"""Rows of words with tags, and GLiNER's rows of words with mentions."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from mslm_data.data.document import Document, NotChosen
from mslm_data.errors import SourceError
from mslm_data.source.reading import cells, tags
from mslm_data.source.reading.cells import Cells, quote_column
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.shapes.mention_forms import look_like_mentions
from mslm_data.source.reading.shapes.options import Shape
from mslm_data.source.reading.shapes.word_spans import TAGS, WORDS, check_words
from mslm_data.source.reading.tags import WordSpan
from mslm_data.source.reading.word_documents import make_word_document


class WordsWithTags(Shape):
    """A list of words, and a list of tags of the same length."""

    columns = frozenset({*WORDS, *TAGS})
    says_none = True

    @classmethod
    def fits(cls, row: Cells) -> bool:
        column = cells.first_filled(row, WORDS)
        if column is None:
            return False
        # Tokens that are objects accompany a text with mentions in characters.
        words = row[column]
        has_text = isinstance(row.get("text"), str)
        if has_text and not tag_columns(row):
            return False
        return not (isinstance(words, list) and any(isinstance(word, Mapping) for word in words))

    def read(self, row: Cells, doc_id: str, place: str) -> Document | NotChosen:
        words, row_tags = self._words_and_tags(row)
        check_words(words)
        untyped = self.file.options.untyped
        try:
            mentions, late = tags.decode(row_tags, untyped=untyped)
        except ValueError as error:
            raise RecordError(f"expected tags, got another item: {error}") from None
        if late and self._opens_with_i:
            mentions, late = tags.decode(row_tags, untyped=untyped, i_opens=True)
        return make_word_document(doc_id, [words], mentions, place=place, late=late)

    def _words_and_tags(self, row: Cells) -> tuple[list[Any], list[str]]:
        words = cells.column_list(row, cells.first_filled(row, WORDS))
        if not words:
            raise RecordError("expected at least one token, got no tokens")
        option = self.file.options.mentions_column
        column = cells.first_filled(row, tag_columns(row) if option == "auto" else [option])
        if column is None:
            _check_no_mentions(row)
            names = ", ".join(TAGS) if option == "auto" else option
            raise RecordError(f"expected tags in one of the columns {names}, got none")
        row_tags = [self.file.name(tag, column) for tag in cells.column_list(row, column)]
        if len(words) != len(row_tags):
            raise RecordError(
                f"expected a tag for each token, got {len(words)} token(s) and {len(row_tags)} "
                "tag(s)",
                code="a tag for each token",
            )
        return words, row_tags

    @functools.cached_property
    def _opens_with_i(self) -> bool:
        """Whether this file is in IOB1, the scheme in which an I tag may begin a mention.

        Decided from the readable rows at the file's beginning; see `tags.opens_with_i`.
        """
        num_mentions = num_late = 0
        for row in self.file.beginning():
            try:
                _, row_tags = self._words_and_tags(cells.mapping(row))
                mentions, late = tags.decode(row_tags, untyped=self.file.options.untyped)
            except (RecordError, SourceError, ValueError):
                continue  # it is reported, with its place, when it is read
            num_mentions += len(mentions)
            num_late += late
        return tags.opens_with_i(mentions=num_mentions, late=num_late)


def tag_columns(row: Cells) -> list[str]:
    """Return columns that may hold a tag for each word, in order of preference.

    Columns of known names come first. If there are none, a single other column is accepted if its
    values are tags and not all O.
    """
    usual = [name for name in TAGS if row.get(name) is not None]
    words = row.get(cells.first_filled(row, WORDS) or "")
    if usual or not isinstance(words, list):
        return usual
    others = [
        name
        for name, value in row.items()
        if isinstance(value, list)
        and len(value) == len(words)
        and all(isinstance(tag, str) and tags.is_tag(tag) for tag in value)
        and any(len(tag) > 1 for tag in value)
    ]
    return others if len(others) == 1 else []


class Gliner(Shape):
    """GLiNER's training data: `tokenized_text`, and `ner` with `[first, last, label]` in words.

    `last` is inclusive.
    """

    columns = frozenset({"tokenized_text", "ner"})
    says_none = True

    @classmethod
    def fits(cls, row: Cells) -> bool:
        return row.get("tokenized_text") is not None

    def read(self, row: Cells, doc_id: str, place: str) -> Document | NotChosen:
        words = cells.column_list(row, "tokenized_text")
        if not words:
            raise RecordError("expected at least one word in column 'tokenized_text', got none")
        check_words(words)
        mentions = []
        for entity in cells.column_list(row, "ner"):
            if not isinstance(entity, list) or len(entity) != 3:
                raise RecordError(
                    "expected mentions of first word, last word and label in column 'ner', got "
                    "others"
                )
            ((first, last),) = cells.pairs([entity[:2]])
            label = self.file.name(entity[2], "ner")
            mentions.append(WordSpan(first, last + 1, label))
        return make_word_document(doc_id, [words], mentions, place=place)


def _check_no_mentions(row: Cells) -> None:
    """Raise if a row of words without tags has mentions, whose unit is unknown."""
    for column, value in row.items():
        if look_like_mentions(value):
            raise SourceError(
                "expected a tag for each token, in one of the columns "
                f"{', '.join(TAGS)}, got column {quote_column(column)}, which looks like "
                "mentions; give each row its text and offsets in characters, or GLiNER's "
                "tokenized_text and ner"
            )
