"""Rows of words with mentions that count words: SpERT, SciREX and what other programs write."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mslm_data.data.document import Document, NotChosen, Sentence
from mslm_data.errors import SourceError
from mslm_data.source.reading import cells
from mslm_data.source.reading.cells import Cells, quote_column
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.shapes.options import Shape
from mslm_data.source.reading.standoff import Annotation, place
from mslm_data.source.reading.word_documents import place_words

WORDS = ("tokens", "words")
SPANS = ("entities", "ner", "spans", "mentions", "annotations", "ents")
TAGS = ("ner_tags", "tags", "labels")
"""Columns of words, of mentions, and of a tag for each word."""
_LABELS = ("type", "label", "tag")


class WordRange(NamedTuple):
    """A mention in words `[first, stop)` of a document."""

    first: int
    stop: int
    label: str


class WordsWithSpans(Shape):
    """A list of words, and mentions of `{start, end, type}` or `[start, end, label]` in words.

    Whether the last word belongs to a mention, `source.ends` says. Else the file's first rows do:
    start and end of a mention of one word are the same ("inclusive"), or a mention ends after the
    last word ("exclusive"). Mentions of SpERT, with a type beside relations, are exclusive.
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
        past = int(self._ends(row, place) == "inclusive")
        mentions = [
            WordRange(one.start, one.end + past, self.file.name(one.label, column, place))
            for one in _spans(row[column])
        ]
        ranges = row.get("sentences")
        if not isinstance(ranges, list) or not ranges:
            return make_document_by_words(doc_id, [words], mentions, place=place)
        return make_document_by_words(
            doc_id,
            [words[start:stop] for start, stop in _cuts(ranges, words)],
            mentions,
            place=place,
        )

    def _ends(self, row: Cells, place: str) -> str:
        """Return what an end is.

        Raises:
            SourceError: Nothing tells.
        """
        found: str = self.file.options.ends
        if found == "auto":
            found = "exclusive" if _is_spert(row) else self._detect_ends
        if found == "auto" and _spans(row[_column(row) or ""]):
            raise SourceError(
                f"{place}: expected mentions that tell whether their last word belongs to them, "
                f"got others in column {quote_column(_column(row) or '')}; set [source] ends to "
                '"exclusive" or "inclusive"'
            )
        return found

    @functools.cached_property
    def _detect_ends(self) -> str:
        """Return what an end is in this file, as its first rows say; "auto" where they do not."""
        is_inclusive = is_exclusive = False
        for row in self.file.beginning():
            if not isinstance(row, Mapping) or not self.fits(row):
                continue
            for one in _spans(row[_column(row) or ""]):
                is_inclusive |= one.start == one.end
                is_exclusive |= one.end == len(_words_of(row))
        if is_inclusive == is_exclusive:
            return "auto"
        return "inclusive" if is_inclusive else "exclusive"


class _GivenSpan(NamedTuple):
    """A mention as a row gives it."""

    start: int
    end: int
    label: object


def _words_of(row: Cells) -> Any:
    return row.get(cells.first_filled(row, WORDS) or "")


def _are_words(words: object) -> bool:
    return isinstance(words, list) and bool(words) and all(isinstance(w, str) for w in words)


def _column(row: Cells) -> str | None:
    """Return the first column of mentions that count words, None where a row has none."""
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
    # `type` and not `isinstance`, as True is an int.
    if type(start) is not int or type(end) is not int or not isinstance(label, str | int):
        return None
    return _GivenSpan(start, end, label)


def _is_spert(row: Cells) -> bool:
    entities = row.get("entities")
    return (
        isinstance(row.get("relations"), list)
        and isinstance(entities, list)
        and all(isinstance(one, Mapping) and "type" in one for one in entities)
    )


def _cuts(ranges: Sequence[object], words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Give the words of each sentence; those of no sentence are one of their own."""
    bounds = [0, *itertools.chain.from_iterable(cells.pairs([*ranges])), len(words)]
    if any(left > right for left, right in itertools.pairwise(bounds)):
        raise RecordError(
            "expected sentences of words one after the other, got some that overlap or lie beyond"
        )
    return (pair for pair in itertools.pairwise(bounds) if pair[0] < pair[1])


def check_words(words: Sequence[object]) -> None:
    """Check that words are text.

    Raises:
        RecordError: One is empty, or another value.
    """
    if not all(isinstance(word, str) and word for word in words):
        raise RecordError(
            "expected tokens that are text, got an empty one or a value that is not text"
        )


def make_document_by_words(
    doc_id: str,
    sentences: Sequence[Sequence[str]],
    mentions: Iterable[WordRange],
    *,
    place: str,
) -> Document:
    """Make a document of sentences of words, and mentions that count the document's words.

    Mentions that lie beyond the words are counted as unplaced.

    Args:
        doc_id: The document's id.
        sentences: The words of each; no sentence is empty.
        mentions: Half open.
        place: Where the document stands in the input.
    """
    bounds = place_words([word for sentence in sentences for word in sentence])
    text = "\n".join(map(" ".join, sentences))
    firsts = [0, *itertools.accumulate(map(len, sentences))]
    placed = _placed(text, bounds.tolist(), mentions)
    return Document(
        id=doc_id,
        text=text,
        spans=placed.spans,
        sentences=tuple(
            Sentence(int(bounds[start, 0]), int(bounds[stop - 1, 1]))
            for start, stop in itertools.pairwise(firsts)
        ),
        words=bounds,
        unplaced=placed.unplaced,
        place=place,
    )


def _placed(text: str, bounds: list[list[int]], mentions: Iterable[WordRange]) -> Any:
    found = []
    for first, stop, label in mentions:
        fragment = (-1, -1)  # beyond the text, so that it is counted
        if 0 <= first < stop <= len(bounds):
            fragment = (bounds[first][0], bounds[stop - 1][1])
        found.append(Annotation([fragment], label))
    return place(text, found)
