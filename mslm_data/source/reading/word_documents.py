"""Makes documents from words and their mentions.

The text of a document is its words, separated by one newline between sentences, and by one space
within sentences except after glued words.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from mslm_data.data.document import Document, Sentence, SetAside, Span
from mslm_data.data.documents import Documents, Mentions, Ranges
from mslm_data.data.reason import Reason
from mslm_data.source.reading.standoff import NO_LABEL, misplaced
from mslm_data.source.reading.tagged_lines import BrokenLine, TaggedSentences
from mslm_data.source.reading.tags import TaggedMentions, WordSpan

LATE = "begins with I"
"""Reason in `Document.adjusted`: a mention begins with a continuing tag, such as I."""


def place_words(words: Sequence[str], *, glued: Collection[int] = ()) -> npt.NDArray[np.int32]:
    """Return the half-open character ranges of words, int32 `[W, 2]`.

    Words are separated by one character, except after the `glued` words.
    """
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    steps = lengths + 1
    if glued:
        steps[list(glued)] -= 1
    ranges = np.empty((len(words), 2), np.int32)
    ranges[:, 0] = steps.cumsum() - steps
    ranges[:, 1] = ranges[:, 0] + lengths
    return ranges


def make_word_document(
    doc_id: str,
    sentences: Sequence[Sequence[str]],
    mentions: Iterable[WordSpan],
    *,
    place: str,
    glued: Collection[int] = (),
) -> Document:
    """Make a document from the words of its sentences.

    Mentions beyond the words or without a label count as unplaced.

    Args:
        doc_id: Id of the document.
        sentences: Words of each sentence. No sentence is empty.
        mentions: Mentions in words of the document.
        place: Place of the document in the input.
        glued: Indices of words that no space follows. Sentences are separated in any case.
    """
    firsts = [0, *itertools.accumulate(map(len, sentences))]
    glued = set(glued).difference(stop - 1 for stop in firsts)
    words = place_words([word for sentence in sentences for word in sentence], glued=glued)

    lines = [
        _join(sentence, first, glued) for first, sentence in zip(firsts, sentences, strict=False)
    ]

    spans = []
    unplaced: Counter[Reason] = Counter()
    for start, end, label in mentions:
        if not label:
            unplaced[NO_LABEL] += 1
        elif reason := misplaced(start, end, length=len(words)):
            unplaced[reason] += 1
        else:
            spans.append(Span(int(words[start, 0]), int(words[end - 1, 1]), label))
    return Document(
        id=doc_id,
        text="\n".join(lines),
        spans=tuple(spans),
        sentences=tuple(
            Sentence(int(words[start, 0]), int(words[stop - 1, 1]))
            for start, stop in itertools.pairwise(firsts)
        ),
        words=words,
        unplaced=dict(unplaced),
        place=place,
    )


def _join(sentence: Sequence[str], first: int, glued: Collection[int]) -> str:
    """Join the words of a sentence; `first` is the number of its first word."""
    if not glued:
        return " ".join(sentence)
    pieces = [
        word if number in glued else f"{word} " for number, word in enumerate(sentence, start=first)
    ]
    return "".join(pieces)[:-1]


def make_line_documents(
    sentences: TaggedSentences,
    mentions: TaggedMentions,
    firsts: npt.NDArray[np.int64],
    ids: Sequence[str],
    places: Sequence[str],
) -> Iterator[Documents | SetAside]:
    """Make a batch of D documents from S tagged sentences.

    Documents with a broken line are set aside, and come before the batch.

    Args:
        sentences: The sentences.
        mentions: Mentions of the sentences.
        firsts: int64 `[D]`, first sentence of each document, non-decreasing, starting with 0. An
            empty document has the first sentence of the next document.
        ids: Id of each document.
        places: `file:line` of each document.
    """
    bounds = sentences.bounds.astype(np.int64)
    sentence_starts = bounds[sentences.offsets[:-1], 0]
    sentence_ends = bounds[sentences.offsets[1:] - 1, 1]

    # The documents share the scanned text as their line. Document i has sentences
    # [offsets[i], offsets[i + 1]). An empty document starts and ends where the next one starts.
    offsets = np.append(firsts, len(sentences.lines))
    is_empty = offsets[:-1] == offsets[1:]
    starts = np.append(sentence_starts, len(sentences.text))[firsts]
    ends = np.where(is_empty, starts, np.append(0, sentence_ends)[offsets[1:]])

    # Mentions are in the order of sentences, so a document's mentions are one range.
    first, stop, labels = mentions.spans.T
    late_before = np.append(0, np.cumsum(mentions.late))
    late = np.diff(late_before[offsets])
    documents = Documents(
        ids=ids,
        places=places,
        line=sentences.text,
        starts=starts,
        ends=ends,
        mentions=Mentions(
            offsets=mentions.offsets[offsets],
            starts=bounds[first, 0],
            ends=bounds[stop - 1, 1],
            labels=labels,
            names=mentions.labels,
        ),
        sentences=Ranges(offsets, sentence_starts, sentence_ends),
        words=Ranges(sentences.offsets[offsets].astype(np.int64), bounds[:, 0], bounds[:, 1]),
        has_words=np.ones(len(firsts), np.bool_),
        placeholders=Ranges.none(len(firsts)),
        unplaced={},
        adjusted={LATE: late} if late.any() else {},
    )

    # Find the first broken line of each document. The document of a sentence is the last one that
    # begins at or before it.
    broken: dict[int, BrokenLine] = {}
    for sentence, line in sentences.broken.items():
        document = int(np.searchsorted(firsts, sentence, side="right")) - 1
        broken.setdefault(document, line)

    for document, line in broken.items():
        name = places[document].rpartition(":")[0]
        begin, end = mentions.offsets[offsets[document : document + 2]]
        yield SetAside(ids[document], f"{name}:{line.line}", line.reason, int(end - begin))
    yield documents.take(np.delete(np.arange(len(firsts)), [*broken]))
