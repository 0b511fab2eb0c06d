r"""Documents in columns: what flows from a source to a shard.

The texts of a batch of documents stand on one *line* of characters, in order, and every position is
a place on that line. So a stage works on flat arrays, for one document or for a hundred thousand
alike, and hands its arrays on as they are:

    line        "Aspirin helps .\nIt does ."        two documents, one character between them
    starts      [0, 16]                             their first characters
    ends        [15, 25]                            half open
    mentions    offsets [0, 1, 1]   starts [0]   ends [7]   labels [0]   names ["Chemical"]
    words       offsets [0, 3, 6]   starts [0, 8, 14, 16, 19, 24]   ends [7, 13, 15, 18, 23, 25]

A line may hold characters of no document: those of documents that were left out stay on it. All
characters of a document come before those of the next.

A stage that wants one document at a time iterates over the batch, which gives `Document`s, whose
positions count from their own first character. Only this module turns one form into the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from mslm_data.data.document import (
    Document,
    NotChosen,
    Placeholder,
    Sentence,
    SetAside,
    Span,
)
from mslm_data.data.ragged import make_offsets
from mslm_data.data.reason import Reason

Ints: TypeAlias = npt.NDArray[np.int64]
Other = TypeVar("Other", bound=SetAside | NotChosen)
Key = TypeVar("Key", Reason, str)
"""Records of a source besides its documents."""

DOCUMENTS_AT_ONCE = 4096
CHARACTERS_AT_ONCE = 2 << 20
"""Maximum number of documents and of characters in a batch."""


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """Hold the ranges of D documents, such as their sentences, as places on the line.

    Attributes:
        offsets: int64 `[D + 1]`: those of document i are `[offsets[i], offsets[i + 1])`.
        starts: int64 `[N]`, rising within a document.
        ends: int64 `[N]`, half open.
    """

    offsets: Ints
    starts: Ints
    ends: Ints

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[tuple[int, int]]], bases: Ints) -> Ranges:
        """Make ranges of lists, one list a document, of positions within the document.

        Args:
            rows: The ranges of each document.
            bases: int64 `[D]`, where each document begins on the line.
        """
        counts = np.fromiter(map(len, rows), np.int64, len(rows))
        offsets = make_offsets(counts)
        flat = chain.from_iterable(chain.from_iterable(rows))
        pairs = np.fromiter(flat, np.int64, 2 * int(offsets[-1])).reshape(-1, 2)
        shifts = np.repeat(bases, counts)
        return cls(offsets, pairs[:, 0] + shifts, pairs[:, 1] + shifts)

    @classmethod
    def none(cls, documents: int) -> Ranges:
        """Make ranges of documents that have none."""
        nothing = np.empty(0, np.int64)
        return cls(np.zeros(documents + 1, np.int64), nothing, nothing)

    @property
    def counts(self) -> Ints:
        """Number of ranges of each document, `[D]`."""
        return np.diff(self.offsets)

    def take(self, documents: Ints) -> Ranges:
        """Return the ranges of some documents; each is in `[0, D)`."""
        kept, offsets = _select_items(documents, self.offsets)
        return Ranges(offsets, self.starts[kept], self.ends[kept])


@dataclass(frozen=True, slots=True, eq=False)
class Mentions:
    """Hold the S mentions of D documents, as places on the line.

    Attributes:
        offsets: int64 `[D + 1]`, the mentions of each document.
        starts: int64 `[S]`, first character; in any order within a document from sources and
            annotators, rising and not overlapping after `annotate`.
        ends: int64 `[S]`, half open.
        labels: int64 `[S]`, the number of each mention's label in `names`.
        names: Labels, each once; some may have no mention.
        concepts: `[S]`, concepts (CUIs), "" where none is known; None where no mention has one.
        scores: float64 `[S]`, confidences in `[0, 1]`; None where all are 1.
        contexts: int8 `[S]`, bits of `data.context`; None where nobody has looked.
    """

    offsets: Ints
    starts: Ints
    ends: Ints
    labels: Ints
    names: Sequence[str]
    concepts: Sequence[str] | None = None
    scores: npt.NDArray[np.float64] | None = None
    contexts: npt.NDArray[np.int8] | None = None

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[Span]], bases: Ints) -> Mentions:
        """Make mentions of lists of spans, one list a document.

        Args:
            rows: The spans of each document, in characters of the document.
            bases: int64 `[D]`, where each document begins on the line.
        """
        counts = np.fromiter(map(len, rows), np.int64, len(rows))
        shifts = np.repeat(bases, counts)

        # The spans as one tuple for each of their fields, which are empty where there is no span.
        fields: Any = [*zip(*chain.from_iterable(rows), strict=True)] or [()] * len(Span._fields)
        starts, ends, labels, concepts, scores = fields

        numbers = {name: number for number, name in enumerate(dict.fromkeys(labels))}
        return cls(
            offsets=make_offsets(counts),
            starts=np.array(starts, np.int64) + shifts,
            ends=np.array(ends, np.int64) + shifts,
            labels=np.array([numbers[label] for label in labels], np.int64),
            names=list(numbers),
            concepts=list(concepts) if any(concepts) else None,
            scores=np.array(scores, np.float64) if any(score != 1 for score in scores) else None,
        )

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def documents(self) -> Ints:
        """Number of each mention's document, `[S]`."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def labels_found(self) -> list[str]:
        """Return the labels that a mention has, in the order of their numbers."""
        return [self.names[number] for number in np.unique(self.labels).tolist()]

    def take(self, documents: Ints) -> Mentions:
        """Return the mentions of some documents; each is in `[0, D)`."""
        kept, offsets = _select_items(documents, self.offsets)
        return self._chosen(kept, offsets)

    def choose(self, kept: Ints) -> Mentions:
        """Return some mentions of the same documents, in the order given.

        Args:
            kept: int64 `[K]`, numbers of mentions, those of a document after those of the one
                before.
        """
        counts = np.bincount(self.documents[kept], minlength=len(self.offsets) - 1)
        return self._chosen(kept, make_offsets(counts))

    def _chosen(self, kept: Ints, offsets: Ints) -> Mentions:
        concepts = self.concepts
        return Mentions(
            offsets=offsets,
            starts=self.starts[kept],
            ends=self.ends[kept],
            labels=self.labels[kept],
            names=self.names,
            concepts=None if concepts is None else [concepts[number] for number in kept.tolist()],
            scores=None if self.scores is None else self.scores[kept],
            contexts=None if self.contexts is None else self.contexts[kept],
        )

    def spans(self, bases: Ints) -> list[list[Span]]:
        """Return the mentions of each document in characters of the document.

        Args:
            bases: int64 `[D]`, where each document begins on the line.
        """
        shifts = np.repeat(bases, np.diff(self.offsets))
        starts = (self.starts - shifts).tolist()
        ends = (self.ends - shifts).tolist()
        labels = [self.names[number] for number in self.labels.tolist()]
        concepts = [""] * len(self) if self.concepts is None else self.concepts
        scores = [1.0] * len(self) if self.scores is None else self.scores.tolist()
        return _rows([*map(Span, starts, ends, labels, concepts, scores)], self.offsets)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Documents:
    """Hold D documents in columns; `Document` says what each field means.

    Attributes:
        ids: `[D]`.
        places: `[D]`, where each document begins in the input.
        line: The texts, with what stands between them.
        starts: int64 `[D]`, each document's first character on the line, never falling.
        ends: int64 `[D]`, half open, not past the next start.
        mentions: The documents' mentions.
        sentences: Those that the source gives; a document has none where it does not say.
        words: Words of documents that have them, rising on the line.
        has_words: bool `[D]`, False for running text.
        placeholders: Where something was taken out.
        placeholder_words: The `word` of each placeholder.
        unplaced: Reason -> int64 `[D]`.
        adjusted: Reason -> int64 `[D]`.
        doc_labels: `[D]`, the label of each whole document, "" where it has none; None where no
            document has one.
    """

    ids: Sequence[str]
    places: Sequence[str]
    line: str
    starts: Ints
    ends: Ints
    mentions: Mentions
    sentences: Ranges
    words: Ranges
    has_words: npt.NDArray[np.bool_]
    placeholders: Ranges
    placeholder_words: Sequence[str | None] = ()
    unplaced: Mapping[Reason, Ints]
    adjusted: Mapping[str, Ints]
    doc_labels: Sequence[str] | None = None

    @classmethod
    def from_documents(cls, documents: Sequence[Document]) -> Documents:
        """Convert single documents to columns. A newline separates their texts on the line."""
        lengths = np.fromiter((len(document.text) for document in documents), np.int64)
        starts = make_offsets(lengths + 1)[:-1]

        placeholders = [document.placeholders for document in documents]
        bounds = [
            [(start, end) for start, end, _ in document_items] for document_items in placeholders
        ]
        words = [document.words for document in documents]
        doc_labels = [document.doc_label for document in documents]
        return cls(
            ids=[document.id for document in documents],
            places=[document.place for document in documents],
            line="\n".join([document.text for document in documents]),
            starts=starts,
            ends=starts + lengths,
            mentions=Mentions.from_rows([document.spans for document in documents], starts),
            sentences=Ranges.from_rows(
                [document.sentences or () for document in documents], starts
            ),
            words=_words(words, starts),
            has_words=np.array([document_items is not None for document_items in words], np.bool_),
            placeholders=Ranges.from_rows(bounds, starts),
            placeholder_words=[word for _, _, word in chain.from_iterable(placeholders)],
            unplaced=spread_counts([document.unplaced for document in documents]),
            adjusted=spread_counts([document.adjusted for document in documents]),
            doc_labels=doc_labels if any(doc_labels) else None,
        )

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[Document]:
        """Yield single documents. `sentences` is None if the source has no sentences."""
        spans = self.mentions.spans(self.starts)
        sentences = self._ranges(self.sentences, Sentence)
        placeholders = self._ranges(self.placeholders, Placeholder, self.placeholder_words)

        shifts = np.repeat(self.starts, self.words.counts)
        bounds = np.stack([self.words.starts - shifts, self.words.ends - shifts], axis=1)
        words = bounds.astype(np.int32)
        offsets = self.words.offsets.tolist()

        for number, (start, end, has_words) in enumerate(
            zip(self.starts.tolist(), self.ends.tolist(), self.has_words.tolist(), strict=True)
        ):
            yield Document(
                id=self.ids[number],
                text=self.line[start:end],
                spans=tuple(spans[number]),
                sentences=tuple(sentences[number]) or None,
                words=words[offsets[number] : offsets[number + 1]] if has_words else None,
                placeholders=tuple(placeholders[number]),
                unplaced=_document_counts(self.unplaced, number),
                adjusted=_document_counts(self.adjusted, number),
                place=self.places[number],
                doc_label=self.doc_labels[number] if self.doc_labels else "",
            )

    def _ranges(
        self, ranges: Ranges, kind: Callable[..., Any], *more: Sequence[Any]
    ) -> list[list[Any]]:
        """Return ranges as lists, one a document, of positions within the document."""
        shifts = np.repeat(self.starts, ranges.counts)
        starts = (ranges.starts - shifts).tolist()
        ends = (ranges.ends - shifts).tolist()
        return _rows([*map(kind, starts, ends, *more)], ranges.offsets)

    def texts(self) -> Iterator[tuple[str, list[Placeholder]]]:
        """Give the text of each document, and its placeholders in characters of that text."""
        placeholders = self._ranges(self.placeholders, Placeholder, self.placeholder_words)
        bounds = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        for (start, end), document_placeholders in zip(bounds, placeholders, strict=True):
            yield self.line[start:end], document_placeholders

    def codes(self) -> npt.NDArray[np.uint32]:
        """Return the code points of the line."""
        return np.frombuffer(self.line.encode("utf-32-le", "surrogatepass"), np.uint32)

    def with_mentions(self, mentions: Mentions) -> Documents:
        """Return the same documents with other mentions."""
        return replace(self, mentions=mentions)

    def take(self, documents: Ints) -> Documents:
        """Return some documents on the same line.

        Args:
            documents: int64 `[K]`, their numbers, rising.
        """
        if len(documents) == len(self):
            return self

        placeholders, _ = _select_items(documents, self.placeholders.offsets)
        return Documents(
            ids=_chosen(self.ids, documents),
            places=_chosen(self.places, documents),
            line=self.line,
            starts=self.starts[documents],
            ends=self.ends[documents],
            mentions=self.mentions.take(documents),
            sentences=self.sentences.take(documents),
            words=self.words.take(documents),
            has_words=self.has_words[documents],
            placeholders=self.placeholders.take(documents),
            placeholder_words=_chosen(self.placeholder_words, placeholders),
            unplaced={reason: counts[documents] for reason, counts in self.unplaced.items()},
            adjusted={reason: counts[documents] for reason, counts in self.adjusted.items()},
            doc_labels=_chosen(self.doc_labels, documents) if self.doc_labels else None,
        )


def in_batches(records: Iterable[Document | Other]) -> Iterator[Documents | Other]:
    """Put the single documents among records together into batches, in columns.

    Other records are given as they come, and so before the documents of a batch that is not full.
    """
    batch: list[Document] = []
    characters = 0
    for record in records:
        if not isinstance(record, Document):
            yield record
            continue

        batch.append(record)
        characters += len(record.text)
        if len(batch) >= DOCUMENTS_AT_ONCE or characters >= CHARACTERS_AT_ONCE:
            yield Documents.from_documents(batch)
            batch = []
            characters = 0
    if batch:
        yield Documents.from_documents(batch)


def split_documents(documents: Documents) -> Iterator[Documents]:
    """Give each document alone, in columns, on a line that holds nothing else."""
    return (Documents.from_documents([document]) for document in documents)


def spread_counts(per_document: Sequence[Mapping[Key, int]]) -> dict[Key, Ints]:
    """Return reason -> int64 `[D]`, of reason -> number for each of D documents."""
    reasons = dict.fromkeys(chain.from_iterable(per_document))
    return {
        reason: np.array([counts.get(reason, 0) for counts in per_document], np.int64)
        for reason in reasons
    }


def count_by_reason(counts: Mapping[Key, Ints]) -> Counter[Key]:
    """Return reason -> number of mentions in all documents, for reasons that occur."""
    sums = {reason: int(per_document.sum()) for reason, per_document in counts.items()}
    return Counter({reason: number for reason, number in sums.items() if number})


def _select_items(documents: Ints, offsets: Ints) -> tuple[Ints, Ints]:
    """Return the numbers of the items that some documents have, and the offsets of these items.

    Args:
        documents: int64 `[K]`, numbers of documents.
        offsets: int64 `[D + 1]`, the items of every document.

    Returns:
        Numbers of items, and int64 `[K + 1]`, which of these each of the K documents has.
    """
    counts = np.diff(offsets)[documents]
    new_offsets = make_offsets(counts)

    # Item n of a document moves from `offsets[document] + n` to its new offset + n.
    shifts = np.repeat(offsets[documents] - new_offsets[:-1], counts)
    return np.arange(new_offsets[-1]) + shifts, new_offsets


def _rows(items: list[Any], offsets: Ints) -> list[list[Any]]:
    """Return items as one list for each document."""
    bounds = offsets.tolist()
    return [items[start:stop] for start, stop in pairwise(bounds)]


def _chosen(values: Sequence[Any], numbers: Ints) -> list[Any]:
    return [values[number] for number in numbers.tolist()]


def _words(words: Sequence[npt.NDArray[np.int32] | None], bases: Ints) -> Ranges:
    """Return the words of documents, `[W, 2]` each or None, as places on the line."""
    nothing = np.empty((0, 2), np.int32)
    per_document = [nothing if given is None else given for given in words]
    counts = np.fromiter(map(len, per_document), np.int64, len(per_document))
    bounds = np.concatenate([nothing, *per_document], dtype=np.int64)
    bounds += np.repeat(bases, counts)[:, None]
    return Ranges(make_offsets(counts), bounds[:, 0], bounds[:, 1])


def _document_counts(counts: Mapping[Key, Ints], number: int) -> dict[Key, int]:
    """Return one document's counts, of the reasons that it has."""
    all_counts = {reason: int(per_document[number]) for reason, per_document in counts.items()}
    return {reason: count for reason, count in all_counts.items() if count}
