"""Segmenters that need no model: the source's own sentences, or whole documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mslm_data.data.document import Document, Sentence


@dataclass(frozen=True, kw_only=True)
class Presplit:
    """The sentences (or passages) that the source marks; a document without any is one sequence."""

    def digest(self) -> str:
        """Return nothing: the source's digest says it all."""
        return ""

    def sentences(self, document: Document) -> list[Sentence]:
        """See `Segmenter`."""
        return cover(document, document.sentences or ())


@dataclass(frozen=True, kw_only=True)
class Whole:
    """The whole document as one sequence, as Abaho et al. 2024 took MIMIC-III's records."""

    def digest(self) -> str:
        """Return nothing: there is nothing to decide."""
        return ""

    def sentences(self, document: Document) -> list[Sentence]:
        """See `Segmenter`."""
        return cover(document, ())


def cover(document: Document, sentences: Sequence[Sentence]) -> list[Sentence]:
    """Make sentences hold every character but white space, and cut no mention.

    Text between two sentences joins the first of them, text before all sentences the very first. Where a mention or
    a given word crosses the end of a sentence, the two sentences become one.

    Args:
        document: With flat, sorted mentions.
        sentences: Sorted, not overlapping; none at all makes one of the document.
    """
    cuts: list[int] = []
    spans = iter(document.spans)
    span = next(spans, None)
    for sentence in sentences[1:]:
        while span is not None and span.end <= sentence.start:
            span = next(spans, None)
        if (span is None or span.start >= sentence.start) and not _is_in_word(
            document, sentence.start
        ):
            cuts.append(sentence.start)
    pieces = (
        _trim(document, start, end) for start, end in pairwise([0, *cuts, len(document.text)])
    )
    return [piece for piece in pieces if piece.start < piece.end]


def _is_in_word(document: Document, place: int) -> bool:
    """Say whether a place lies within a given word, past its first character."""
    if document.words is None:
        return False
    before = int(np.searchsorted(document.words[:, 0], place)) - 1
    return before >= 0 and bool(document.words[before, 1] > place)


def _trim(document: Document, start: int, end: int) -> Sentence:
    """Return `[start, end)` without white space at its ends; given words are never trimmed away."""
    if document.words is not None:
        first, last = np.searchsorted(document.words[:, 0], (start, end))
        return (
            Sentence(int(document.words[first, 0]), int(document.words[last - 1, 1]))
            if first < last
            else Sentence(0, 0)
        )
    piece = document.text[start:end]
    return Sentence(
        start + len(piece) - len(piece.lstrip()), end - (len(piece) - len(piece.rstrip()))
    )
