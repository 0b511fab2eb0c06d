"""Rows of words with mentions in words: SpERT, SciREX, and output of other programs."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mslm_data.data.document import Document, NotChosen
from mslm_data.errors import SourceError
from mslm_data.source.reading import cells
from mslm_data.source.reading.cells import Cells, quote_column
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.shapes.options import Shape
from mslm_data.source.reading.tags import WordSpan
from mslm_data.source.reading.word_documents import make_word_document

WORDS = ("tokens", "words")
SPANS = ("entities", "ner", "spans", "mentions", "annotations", "ents")
TAGS = ("ner_tags", "tags", "labels")
"""Columns of words, of mentions, and of a tag for each word."""
_LABELS = ("type", "label", "tag")


class WordsWithSpans(Shape):
    """A list of words, and mentions `{start, end, type}` or `[start, end, label]` in words.

    Ends are inclusive or exclusive as set by `source.ends`. With "auto", ends in SpERT's format (a
    type beside relations) are exclusive; otherwise the file's first rows decide: ends are inclusive
    if a mention has equal start and end, exclusive if a mention ends after the last word.
    """

    columns = frozenset({*WORDS, *SPANS})
    says_none = True

    @classmethod
    def fits(cls, row: Cells) -> bool:
        if isinstance(row.get("text"), str) or any(row.get(name) for name in TAGS):
            return False
        return _are_words(_words_of(row)) and _column(row) is not None

    def read(self, row: Cells, doc_id: str, place: str) -> Document | NotChosen:
        words = _words_of(row)
        check_words(words)
        column = _column(row) or ""
        past = int(self._ends(row) == "inclusive")
        mentions = [
            WordSpan(span.start, span.end + past, self.file.name(span.label, column))
            for span in _spans(row[column])
        ]

        # SciREX has the ranges of its sentences in words.
        ranges = row.get("sentences")
        if not isinstance(ranges, list) or not ranges:
            return make_word_document(doc_id, [words], mentions, place=place)
        return make_word_document(
            doc_id,
            [words[start:stop] for start, stop in _cuts(ranges, words)],
            mentions,
            place=place,
        )

    def _ends(self, row: Cells) -> str:
        """Return whether ends are "exclusive" or "inclusive".

        Raises:
            SourceError: Neither the options nor the file decide it.
        """
        ends: str = self.file.options.ends
        if ends == "auto":
            ends = "exclusive" if _is_spert(row) else self._detect_ends
        if ends == "auto" and _spans(row[_column(row) or ""]):
            raise SourceError(
                "cannot tell whether the end index of a mention in column "
                f"{quote_column(_column(row) or '')} includes its last word; set [source] ends to "
                '"inclusive" if it does, otherwise to "exclusive"'
            )
        return ends

    @functools.cached_property
    def _detect_ends(self) -> str:
        """Meaning of ends in the file's first rows, "auto" if they do not decide it."""
        is_inclusive = is_exclusive = False
        for row in self.file.beginning():
            if not isinstance(row, Mapping) or not self.fits(row):
                continue
            for span in _spans(row[_column(row) or ""]):
                is_inclusive |= span.start == span.end
                is_exclusive |= span.end == len(_words_of(row))
        if is_inclusive == is_exclusive:
            return "auto"
        return "inclusive" if is_inclusive else "exclusive"


class _GivenSpan(NamedTuple):
    """A mention as written in a row."""

    start: int
    end: int
    label: object


def _words_of(row: Cells) -> Any:
    return row.get(cells.first_filled(row, WORDS) or "")


def _are_words(words: object) -> bool:
    return isinstance(words, list) and bool(words) and all(isinstance(w, str) for w in words)


def _column(row: Cells) -> str | None:
    """Return the first column of mentions in words, None if there is none."""
    for name in SPANS:
        value = row.get(name)
        if isinstance(value, list) and all(_as_span(item) for item in value):
            return name
    return None


def _spans(items: Iterable[object]) -> list[_GivenSpan]:
    return [span for item in items if (span := _as_span(item))]


def _as_span(item: object) -> _GivenSpan | None:
    """Return a mention of two integers and a label, None for anything else."""
    if isinstance(item, Mapping):
        values = (
            item.get("start"),
            item.get("end"),
            item.get(cells.first_filled(item, _LABELS) or ""),
        )
    elif isinstance(item, list) and len(item) == 3:
        values = (item[0], item[1], item[2])
    else:
        return None
    start, end, label = values
    # `type` instead of `isinstance`, because True is an int.
    if type(start) is not int or type(end) is not int or not isinstance(label, str | int):
        return None
    return _GivenSpan(start, end, label)


def _is_spert(row: Cells) -> bool:
    entities = row.get("entities")
    return (
        isinstance(row.get("relations"), list)
        and isinstance(entities, list)
        and all(isinstance(entity, Mapping) and "type" in entity for entity in entities)
    )


def _cuts(ranges: Sequence[object], words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the words of each sentence. Words between sentences form sentences of their own."""
    # Consecutive bounds are sentences and the gaps between them. Empty ones are dropped.
    bounds = [0, *itertools.chain.from_iterable(cells.pairs([*ranges])), len(words)]
    if any(left > right for left, right in itertools.pairwise(bounds)):
        raise RecordError(
            "expected sentences in order and within the words, got overlapping or longer ranges"
        )
    return (pair for pair in itertools.pairwise(bounds) if pair[0] < pair[1])


def check_words(words: Sequence[object]) -> None:
    """Check that all words are non-empty text.

    Raises:
        RecordError: A word is empty or another value.
    """
    if not all(isinstance(word, str) and word for word in words):
        raise RecordError(
            "expected tokens that are text, got an empty one or a value that is not text"
        )
