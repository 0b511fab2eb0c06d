r"""Batches of documents as columns, the data type of the offline stages.

The texts of a batch are concatenated to one string, the *line*. All positions are positions on the
line, so a stage processes a whole batch with operations on flat arrays. A batch of two documents::

    line        "Aspirin helps .\nIt does ."
    starts      [0, 16]
    ends        [15, 25]
    mentions    offsets [0, 1, 1]   starts [0]   ends [7]   labels [0]   names ["Chemical"]
    words       offsets [0, 3, 6]   starts [0, 8, 14, 16, 19, 24]   ends [7, 13, 15, 18, 23, 25]

Document 1, `It does .`, is `line[16:25]`. It has mentions `[1, 1)`, that is none, and words
`[3, 6)`. Its second word, `does`, is word 4: `line[19:23]`.

Documents are in line order and do not overlap. The line may have other characters between them:
separators, and documents removed by `take`.

Iterating over a batch yields single `Document` objects. Their positions count from the start of
their own text. Only this module converts between the two forms.

A build takes a third of the CPU time that an object per mention took.
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
from mslm_data.data.ragged import count_up, make_offsets
from mslm_data.data.reason import Reason
from mslm_data.kernels.hashing import hash_ranges

Ints: TypeAlias = npt.NDArray[np.int64]
Other = TypeVar("Other", bound=SetAside | NotChosen)
"""Records of a source besides its documents."""
Key = TypeVar("Key", Reason, str)

DOCUMENTS_AT_ONCE = 4096
CHARACTERS_AT_ONCE = 2 << 20
"""Maximum number of documents and of characters in a batch."""
_FEW_CHARACTERS = 32 << 10
"""Maximum number of characters in a batch that is joined with others, which costs an object for
each document, sentence and mention."""


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """Hold N ranges of D documents, such as their sentences or words.

    Rows::

        range  start  end
            0      0   15
            1     16   25

    With offsets `[0, 1, 2]`, document 0 has range 0, and document 1 has range 1. Range 1 is
    characters 16 to 24 of the line.

    Attributes:
        offsets: int64 `[D + 1]`. Document i has ranges `[offsets[i], offsets[i + 1])`.
        starts: int64 `[N]`, first character on the line, sorted within a document.
        ends: int64 `[N]`, character after the last.
    """

    offsets: Ints
    starts: Ints
    ends: Ints

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[tuple[int, int]]], bases: Ints) -> Ranges:
        """Convert a list of ranges for each document.

        Args:
            rows: `(start, end)` pairs of each document, in characters of the document.
            bases: int64 `[D]`, first character of each document on the line.
        """
        counts = np.fromiter(map(len, rows), np.int64, len(rows))
        offsets = make_offsets(counts)
        flat = chain.from_iterable(chain.from_iterable(rows))
        pairs = np.fromiter(flat, np.int64, 2 * int(offsets[-1])).reshape(-1, 2)
        shifts = np.repeat(bases, counts)
        return cls(offsets, pairs[:, 0] + shifts, pairs[:, 1] + shifts)

    @classmethod
    def none(cls, documents: int) -> Ranges:
        """Return an empty range list for each document."""
        nothing = np.empty(0, np.int64)
        return cls(np.zeros(documents + 1, np.int64), nothing, nothing)

    @property
    def counts(self) -> Ints:
        """Number of ranges of each document, `[D]`."""
        return np.diff(self.offsets)

    def take(self, documents: Ints) -> Ranges:
        """Return the ranges of a selection of documents, int64 `[K]` in `[0, D)`."""
        kept, offsets = _select_items(documents, self.offsets)
        return Ranges(offsets, self.starts[kept], self.ends[kept])


@dataclass(frozen=True, slots=True, eq=False)
class Mentions:
    """Hold the S mentions of D documents.

    Rows::

        mention  start  end  label  concept   score  context
              0      0    7      0  C0004057   0.98        0
              1     30   39      1             0.71        1

    With names `["Chemical", "Disease"]`, mention 1 is characters 30 to 38 of the line, a Disease
    without a known concept, found with confidence 0.71 in a negated context.

    Attributes:
        offsets: int64 `[D + 1]`. Document i has mentions `[offsets[i], offsets[i + 1])`.
        starts: int64 `[S]`, first character on the line. Within a document, sources and annotators
            give any order; after `annotate`, mentions are sorted and do not overlap.
        ends: int64 `[S]`, character after the last.
        labels: int64 `[S]`, index into `names`.
        names: Distinct labels, including labels without a mention.
        concepts: `[S]`, concept identifiers (CUIs), "" if unknown. Default: None, all unknown.
        scores: float64 `[S]`, confidences in `[0, 1]`. Default: None, all 1.
        contexts: int8 `[S]`, bit flags, see `data.context`. Default: None, not detected.
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
        """Convert a list of spans for each document.

        Args:
            rows: The spans of each document, in characters of the document.
            bases: int64 `[D]`, first character of each document on the line.
        """
        counts = np.fromiter(map(len, rows), np.int64, len(rows))
        shifts = np.repeat(bases, counts)

        # Transpose spans to fields. `zip` of no spans yields no fields at all.
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
        """Document of each mention, int64 `[S]`."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def used_labels(self) -> list[str]:
        """Return the names of labels with at least one mention, in the order of `names`."""
        return [self.names[number] for number in np.unique(self.labels).tolist()]

    def take(self, documents: Ints) -> Mentions:
        """Return the mentions of a selection of documents, int64 `[K]` in `[0, D)`."""
        kept, offsets = _select_items(documents, self.offsets)
        return self._select(kept, offsets)

    def choose(self, kept: Ints) -> Mentions:
        """Return a selection of mentions. The number of documents stays the same.

        Args:
            kept: int64 `[K]`, indices of mentions, grouped by document in document order. The order
                within a document is kept.
        """
        counts = np.bincount(self.documents[kept], minlength=len(self.offsets) - 1)
        return self._select(kept, make_offsets(counts))

    def _select(self, kept: Ints, offsets: Ints) -> Mentions:
        return Mentions(
            offsets=offsets,
            starts=self.starts[kept],
            ends=self.ends[kept],
            labels=self.labels[kept],
            names=self.names,
            concepts=None if self.concepts is None else _pick(self.concepts, kept),
            scores=None if self.scores is None else self.scores[kept],
            contexts=None if self.contexts is None else self.contexts[kept],
        )

    def spans(self, bases: Ints) -> list[list[Span]]:
        """Convert to a list of spans for each document, in characters of the document.

        Args:
            bases: int64 `[D]`, first character of each document on the line.
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
    """Hold D documents as columns. `Document` explains the fields.

    Rows::

        document  id       place        start  end  has_words  doc_label
               0  train:0  train.tsv:1      0   15  True
               1  train:1  train.tsv:5     16   25  True

    The text of document 1 is `line[16:25]`, and starts in line 5 of `train.tsv`.

    Attributes:
        ids: `[D]`.
        places: `[D]`, position of each document in the input.
        line: The texts of all documents, with characters in between.
        starts: int64 `[D]`, first character of each document on the line, sorted.
        ends: int64 `[D]`, character after the last, at most the next start.
        mentions: Mentions of all documents.
        sentences: Sentences of the source, none for documents without.
        words: Words of the source, none for running text.
        has_words: bool `[D]`, False for running text.
        placeholders: De-identification marks.
        placeholder_words: The `word` of each placeholder.
        unplaced: Reason -> int64 `[D]`, number of mentions of the source missing from `mentions`.
        adjusted: Reason -> int64 `[D]`, number of mentions moved from their position in the source.
        doc_labels: `[D]`, label of each document, "" if it has no label. Default: None, no document
            has a label.
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
        """Convert single documents to columns. On the line, a newline separates texts."""
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
        """Yield single documents. `sentences` is None for documents without sentences."""
        spans = self.mentions.spans(self.starts)
        sentences = self._ranges(self.sentences, Sentence)
        placeholders = self._ranges(self.placeholders, Placeholder, self.placeholder_words)

        words = self._in_documents(self.words).astype(np.int32)
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
        """Convert ranges to a list for each document, in characters of the document."""
        starts, ends = self._in_documents(ranges).T.tolist()
        return _rows([*map(kind, starts, ends, *more)], ranges.offsets)

    def _in_documents(self, ranges: Ranges) -> Ints:
        """Return the ranges in characters of their documents, int64 `[N, 2]`."""
        shifts = np.repeat(self.starts, ranges.counts)
        return np.stack([ranges.starts - shifts, ranges.ends - shifts], axis=1)

    def are_inside(self, mentions: Mentions) -> npt.NDArray[np.bool_]:
        """Return whether each mention has a character, and is within its document: bool `[M]`."""
        numbers = mentions.documents
        is_inside: npt.NDArray[np.bool_] = (
            (mentions.starts >= self.starts[numbers])
            & (mentions.starts < mentions.ends)
            & (mentions.ends <= self.ends[numbers])
        )
        return is_inside

    def texts(self) -> Iterator[tuple[str, list[Placeholder]]]:
        """Yield the text of each document, with its placeholders in characters of the document."""
        placeholders = self._ranges(self.placeholders, Placeholder, self.placeholder_words)
        bounds = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        for (start, end), document_placeholders in zip(bounds, placeholders, strict=True):
            yield self.line[start:end], document_placeholders

    def codes(self) -> npt.NDArray[np.uint32]:
        """Return the code points of the line, uint32, one for each character."""
        return np.frombuffer(self.line.encode("utf-32-le", "surrogatepass"), np.uint32)

    def with_mentions(self, mentions: Mentions) -> Documents:
        """Return the same documents with other mentions."""
        return replace(self, mentions=mentions)

    def take(self, documents: Ints) -> Documents:
        """Return a selection of documents. They keep the line, so positions stay valid.

        Args:
            documents: int64 `[K]`, sorted indices of documents.
        """
        if len(documents) == len(self):
            return self

        placeholders, _ = _select_items(documents, self.placeholders.offsets)
        return Documents(
            ids=_pick(self.ids, documents),
            places=_pick(self.places, documents),
            line=self.line,
            starts=self.starts[documents],
            ends=self.ends[documents],
            mentions=self.mentions.take(documents),
            sentences=self.sentences.take(documents),
            words=self.words.take(documents),
            has_words=self.has_words[documents],
            placeholders=self.placeholders.take(documents),
            placeholder_words=_pick(self.placeholder_words, placeholders),
            unplaced={reason: counts[documents] for reason, counts in self.unplaced.items()},
            adjusted={reason: counts[documents] for reason, counts in self.adjusted.items()},
            doc_labels=_pick(self.doc_labels, documents) if self.doc_labels else None,
        )


def in_batches(records: Iterable[Document | Documents | Other]) -> Iterator[Documents | Other]:
    """Collect documents into batches of columns, across the ends of files.

    A large batch is passed on as it is, after the documents waiting in an unfinished batch; a small
    one is divided. Other records are passed on at once, ahead of the waiting documents.
    """
    waiting: list[Document] = []
    characters = 0
    for record in records:
        if isinstance(record, Document):
            documents = [record]
        elif isinstance(record, Documents) and len(record.line) <= _FEW_CHARACTERS:
            documents = [*record]
        else:
            if waiting and isinstance(record, Documents):
                yield Documents.from_documents(waiting)
                waiting = []
                characters = 0
            yield record
            continue

        waiting += documents
        characters += sum(len(document.text) for document in documents)
        if len(waiting) >= DOCUMENTS_AT_ONCE or characters >= CHARACTERS_AT_ONCE:
            yield Documents.from_documents(waiting)
            waiting = []
            characters = 0
    if waiting:
        yield Documents.from_documents(waiting)


def split_documents(documents: Documents) -> Iterator[Documents]:
    """Yield a batch for each document, whose line is the text of the document."""
    return (Documents.from_documents([document]) for document in documents)


def hash_ids(ids: Iterable[str]) -> npt.NDArray[np.uint64]:
    """Hash document ids to uint64 `[D]`. Collisions are possible, at about one in 10**7 builds."""
    encoded = [doc_id.encode("utf-8", "surrogatepass") for doc_id in ids]
    offsets = make_offsets(np.fromiter(map(len, encoded), np.int64, len(encoded)))
    # As read-only uint32, like the code points of texts, so the kernel is compiled for one type.
    items = np.frombuffer(b"".join(encoded), np.uint8).astype(np.uint32)
    items.flags.writeable = False
    hashes = np.empty(len(encoded), np.uint64)
    hash_ranges(items, offsets[:-1], offsets[1:], hashes)
    return hashes


def spread_counts(per_document: Sequence[Mapping[Key, int]]) -> dict[Key, Ints]:
    """Convert counts by reason of D documents to an int64 `[D]` array for each reason."""
    reasons = dict.fromkeys(chain.from_iterable(per_document))
    return {
        reason: np.array([counts.get(reason, 0) for counts in per_document], np.int64)
        for reason in reasons
    }


def count_by_reason(counts: Mapping[Key, Ints]) -> Counter[Key]:
    """Sum counts over documents; omit reasons with a sum of 0."""
    sums = {reason: int(per_document.sum()) for reason, per_document in counts.items()}
    return Counter({reason: number for reason, number in sums.items() if number})


def _select_items(documents: Ints, offsets: Ints) -> tuple[Ints, Ints]:
    """Find the items of a selection of documents.

    Args:
        documents: int64 `[K]`, indices of documents.
        offsets: int64 `[D + 1]`, offsets of the items of all documents.

    Returns:
        Indices of the items, and int64 `[K + 1]`, their offsets by selected document.
    """
    counts = np.diff(offsets)[documents]
    return count_up(offsets[documents], counts), make_offsets(counts)


def _rows(items: list[Any], offsets: Ints) -> list[list[Any]]:
    bounds = offsets.tolist()
    return [items[start:stop] for start, stop in pairwise(bounds)]


def _pick(values: Sequence[Any], numbers: Ints) -> list[Any]:
    return [values[number] for number in numbers.tolist()]


def _words(words: Sequence[npt.NDArray[np.int32] | None], bases: Ints) -> Ranges:
    """Convert the words of each document, `[W, 2]` or None, to ranges on the line."""
    nothing = np.empty((0, 2), np.int32)
    per_document = [nothing if bounds is None else bounds for bounds in words]
    counts = np.fromiter(map(len, per_document), np.int64, len(per_document))
    bounds = np.concatenate([nothing, *per_document], dtype=np.int64)
    bounds += np.repeat(bases, counts)[:, None]
    return Ranges(make_offsets(counts), bounds[:, 0], bounds[:, 1])


def _document_counts(counts: Mapping[Key, Ints], number: int) -> dict[Key, int]:
    all_counts = {reason: int(per_document[number]) for reason, per_document in counts.items()}
    return {reason: count for reason, count in all_counts.items() if count}
