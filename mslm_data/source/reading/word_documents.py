"""Makes documents of words and their mentions, for formats whose unit is the word.

A document's text is its words with one space between them, and one newline between sentences.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from mslm_data.data.document import Document, Sentence, SetAside, Span
from mslm_data.data.ragged import offsets_of
from mslm_data.source.reading.tagged_lines import TaggedSentences
from mslm_data.source.reading.tags import Ints, TaggedMentions, WordSpan

LATE = "begins with I"
"""Reason in `Document.adjusted`: a mention begins with a tag that should have continued one."""


def place_words(words: Sequence[str]) -> npt.NDArray[np.int32]:
    """Return where words lie in a text with one character between them.

    Returns:
        int32 `[W, 2]`, half open.
    """
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    starts = offsets_of(lengths + 1)[:-1]
    return np.stack([starts, starts + lengths], axis=1).astype(np.int32)


def document_of_words(
    doc_id: str,
    sentences: Sequence[Sequence[str]],
    mentions: Sequence[Sequence[WordSpan]],
    *,
    place: str,
    late: int = 0,
) -> Document:
    """Make a document of sentences that are lists of words.

    Args:
        doc_id: The document's id.
        sentences: The words of each sentence; no sentence is empty.
        mentions: The mentions of each sentence, in words of that sentence.
        place: Where the document stands in the input.
        late: Mentions that begin with a tag that should have continued one; see `tags.decode`.
    """
    words = place_words([word for sentence in sentences for word in sentence])
    firsts = [0, *itertools.accumulate(map(len, sentences))]

    spans = []
    for first, of_sentence in zip(firsts[:-1], mentions, strict=True):
        for start, end, label in of_sentence:
            spans.append(Span(int(words[first + start, 0]), int(words[first + end - 1, 1]), label))
    return Document(
        id=doc_id,
        text="\n".join([" ".join(sentence) for sentence in sentences]),
        spans=tuple(spans),
        sentences=tuple(
            Sentence(int(words[start, 0]), int(words[stop - 1, 1]))
            for start, stop in itertools.pairwise(firsts)
        ),
        words=words,
        adjusted={LATE: late} if late else {},
        place=place,
    )


def documents_of_lines(
    found: TaggedSentences,
    mentions: TaggedMentions,
    firsts: npt.NDArray[np.int64],
    names: Iterable[tuple[str, str]],
) -> Iterator[Document | SetAside]:
    """Make D documents of S tagged sentences; a document with a broken line is set aside.

    Args:
        found: The sentences.
        mentions: Their mentions.
        firsts: int64 `[D]`, the first sentence of each document, never falling, beginning with 0. A
            document without sentences has the first one of the next document.
        names: Id and place of each document.
    """
    stops = np.append(firsts, len(found.lines))[1:]
    starts_of_sentences = found.bounds[found.offsets[:-1], 0]
    ends_of_sentences = found.bounds[found.offsets[1:] - 1, 1]

    # Positions in `found` count characters of the whole text. `bases` is where each document
    # begins, `shifts` the same for each sentence: less these, positions count from the document's.
    bases = np.append(starts_of_sentences, len(found.text))[firsts]
    shifts = np.repeat(bases, stops - firsts)
    words = found.bounds - np.repeat(shifts, np.diff(found.offsets))[:, None]
    words = words.astype(np.int32, copy=False)
    starts = (starts_of_sentences - shifts).tolist()
    ends = (ends_of_sentences - shifts).tolist()

    sentences = [*map(Sentence, starts, ends)]
    spans = _spans(words, mentions)
    late_before = np.append(0, np.cumsum(mentions.late))
    late_of_documents = (late_before[stops] - late_before[firsts]).tolist()
    ranges = (
        _slices(bases, np.append(0, ends_of_sentences)[stops]),
        _slices(firsts, stops),
        _slices(found.offsets[firsts], found.offsets[stops]),
        _slices(mentions.offsets[firsts], mentions.offsets[stops]),
    )
    for (doc_id, place), late, characters, own, of_words, of_spans in zip(
        names, late_of_documents, *ranges, strict=True
    ):
        broken = found.first_broken(own.start, own.stop)
        if broken is not None:
            name = place.rpartition(":")[0]
            yield SetAside(doc_id, f"{name}:{broken.line}", broken.reason)
            continue
        yield Document(
            id=doc_id,
            text=found.text[characters],
            spans=tuple(spans[of_spans]),
            sentences=tuple(sentences[own]),
            words=words[of_words],
            adjusted={LATE: late} if late else {},
            place=place,
        )


def _spans(words: npt.NDArray[np.int32], mentions: TaggedMentions) -> list[Span]:
    """Return mentions in the characters that `words` count."""
    first, stop, label = mentions.spans.T
    labels = [mentions.labels[number] for number in label.tolist()]
    return [*map(Span, words[first, 0].tolist(), words[stop - 1, 1].tolist(), labels)]


def _slices(starts: Ints, stops: Ints) -> Iterator[slice]:
    return map(slice, starts.tolist(), stops.tolist())
