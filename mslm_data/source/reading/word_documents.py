"""Makes documents of words and their mentions, for formats whose unit is the word.

A document's text is its words with one space between them, and one newline between sentences.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from mslm_data.data.document import Document, Sentence, SetAside, Span
from mslm_data.data.documents import Documents, Mentions, Ranges
from mslm_data.data.ragged import make_offsets
from mslm_data.source.reading.tagged_lines import BrokenLine, TaggedSentences
from mslm_data.source.reading.tags import TaggedMentions, WordSpan

LATE = "begins with I"
"""Reason in `Document.adjusted`: a mention begins with a tag that should have continued one."""


def place_words(words: Sequence[str]) -> npt.NDArray[np.int32]:
    """Return where words lie in a text with one character between them.

    Returns:
        int32 `[W, 2]`, half open.
    """
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    starts = make_offsets(lengths + 1)[:-1]
    return np.stack([starts, starts + lengths], axis=1).astype(np.int32)


def make_word_document(
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
    for first, sentence_mentions in zip(firsts[:-1], mentions, strict=True):
        for start, end, label in sentence_mentions:
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


def make_line_documents(
    sentences: TaggedSentences,
    mentions: TaggedMentions,
    firsts: npt.NDArray[np.int64],
    ids: Sequence[str],
    places: Sequence[str],
) -> Iterator[Documents | SetAside]:
    """Make one batch of D documents of S tagged sentences.

    Documents with a broken line are not in it: they are set aside, before it.

    Args:
        sentences: The sentences.
        mentions: Their mentions.
        firsts: int64 `[D]`, the first sentence of each document, never falling, beginning with 0. A
            document without sentences has the first one of the next document.
        ids: Of each document.
        places: Of each document, `file:line`.
    """
    bounds = sentences.bounds.astype(np.int64)
    sentence_starts = bounds[sentences.offsets[:-1], 0]
    sentence_ends = bounds[sentences.offsets[1:] - 1, 1]

    # The scanned text is the documents' line as it stands. Document i has the sentences from
    # `offsets[i]` to `offsets[i + 1]`; one without sentences is empty, where the next begins.
    offsets = np.append(firsts, len(sentences.lines))
    is_empty = offsets[:-1] == offsets[1:]
    starts = np.append(sentence_starts, len(sentences.text))[firsts]
    ends = np.where(is_empty, starts, np.append(0, sentence_ends)[offsets[1:]])

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

    # The first broken line of each document that has one, by the last document that begins at or
    # before its sentence.
    broken: dict[int, BrokenLine] = {}
    for sentence, line in sentences.broken.items():
        document = int(np.searchsorted(firsts, sentence, side="right")) - 1
        broken.setdefault(document, line)

    for document, line in broken.items():
        name = places[document].rpartition(":")[0]
        begin, end = mentions.offsets[offsets[document : document + 2]]
        yield SetAside(ids[document], f"{name}:{line.line}", line.reason, int(end - begin))
    yield documents.take(np.delete(np.arange(len(firsts)), [*broken]))
