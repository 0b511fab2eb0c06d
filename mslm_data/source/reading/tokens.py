"""From words and their mentions to a `Document`: shared by every source whose unit is the word."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from mslm_data.data.document import Document, Sentence, SetAside, Span
from mslm_data.data.ragged import offsets_of
from mslm_data.source.reading.rows import Sentences
from mslm_data.source.reading.tags import Ints, Mentions, WordSpan


def place_words(words: Sequence[str]) -> npt.NDArray[np.int32]:
    """Return `[W, 2]` starts and ends of words, in characters, where one character stands between words."""
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    starts = offsets_of(lengths + 1)[:-1]
    return np.stack([starts, starts + lengths], axis=1).astype(np.int32)


def document_of_words(
    doc_id: str,
    sentences: Sequence[Sequence[str]],
    mentions: Sequence[Sequence[WordSpan]],
    *,
    place: str,
    opened_late: int = 0,
) -> Document:
    """Make a document of sentences that are lists of words.

    The text is the words with one space between words and one newline between sentences.

    Args:
        doc_id: The document's id.
        sentences: Words of each sentence; no sentence is empty.
        mentions: Mentions of each sentence, in words of that sentence.
        place: Where it stands in the input.
        opened_late: Mentions that begin with a tag that should go on with one; see `tags.decode`.
    """
    bounds = place_words([word for sentence in sentences for word in sentence])
    first = [0, *itertools.accumulate(map(len, sentences))]
    spans = [
        Span(int(bounds[base + span.start, 0]), int(bounds[base + span.end - 1, 1]), span.label)
        for base, of_sentence in zip(first, mentions, strict=False)
        for span in of_sentence
    ]
    return Document(
        id=doc_id,
        text="\n".join([" ".join(sentence) for sentence in sentences]),
        spans=tuple(spans),
        sentences=tuple(
            [
                Sentence(int(bounds[start, 0]), int(bounds[stop - 1, 1]))
                for start, stop in itertools.pairwise(first)
            ]
        ),
        words=bounds,
        adjusted={"begins with I": opened_late} if opened_late else {},
        place=place,
    )


def documents_of_rows(
    found: Sentences,
    mentions: Mentions,
    firsts: npt.NDArray[np.int64],
    names: Iterable[tuple[str, str]],
) -> Iterator[Document | SetAside]:
    """Make documents of S sentences, and set those aside that have a broken line.

    Args:
        found: The sentences.
        mentions: Theirs.
        firsts: int64 `[D]`, the first sentence of each document, never falling, the first of them 0; a document
            without a sentence has that of the next.
        names: Id and place of each document.
    """
    stops = np.append(firsts, len(found.lines))[1:]
    begins, ends = found.bounds[found.offsets[:-1], 0], found.bounds[found.offsets[1:] - 1, 1]
    bases = np.append(begins, len(found.text))[firsts]
    shifts = np.repeat(
        bases, stops - firsts
    )  # of each sentence's characters, so that they count from its document's
    words = (found.bounds - np.repeat(shifts, np.diff(found.offsets))[:, None]).astype(
        np.int32, copy=False
    )
    sentences = [*map(Sentence, (begins - shifts).tolist(), (ends - shifts).tolist())]
    spans = _spans(words, mentions)
    late = mentions.late.tolist() if mentions.late.any() else []
    ranges = (
        _slices(bases, np.append(0, ends)[stops]),
        _slices(firsts, stops),
        _slices(found.offsets[firsts], found.offsets[stops]),
        _slices(mentions.offsets[firsts], mentions.offsets[stops]),
    )
    for (doc_id, place), characters, own, of_words, of_spans in zip(names, *ranges, strict=True):
        problem = found.problem(own.start, own.stop)
        if problem is not None:
            yield SetAside(doc_id, f"{place.rpartition(':')[0]}:{problem.line}", problem.reason)
            continue
        opened_late = sum(late[own])
        yield Document(
            id=doc_id,
            text=found.text[characters],
            spans=tuple(spans[of_spans]),
            sentences=tuple(sentences[own]),
            words=words[of_words],
            adjusted={"begins with I": opened_late} if opened_late else {},
            place=place,
        )


def _spans(words: npt.NDArray[np.int32], mentions: Mentions) -> list[Span]:
    """Return mentions in the characters that words are in."""
    first, stop, label = mentions.spans.T
    labels = [mentions.labels[number] for number in label.tolist()]
    return [*map(Span, words[first, 0].tolist(), words[stop - 1, 1].tolist(), labels)]


def _slices(starts: Ints, stops: Ints) -> Iterator[slice]:
    return map(slice, starts.tolist(), stops.tolist())
