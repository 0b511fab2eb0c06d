"""Makes sentences of the places where they begin: the law that all segmenters keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from mslm_data.data.document import Sentence, Span

Words = npt.NDArray[np.int32]


def cover(
    text: str, starts: Sequence[int], *, spans: Sequence[Span] = (), words: Words | None = None
) -> list[Sentence]:
    """Return sentences that hold every character but white space, and cut no mention.

    Text between two sentences joins the first of them; text before all sentences joins the very
    first. Where a mention or a given word crosses the beginning of a sentence, that sentence and
    the one before become one.

    Args:
        text: The document's text.
        starts: Characters at which sentences begin, rising. Without any the text is one sentence.
        spans: Mentions, flat and sorted.
        words: `[W, 2]`, starts and ends of the source's words, rising; None for running text.
    """
    cuts = list(_cuts(starts[1:], spans, words))
    sentences: list[Sentence] = []
    for start, end in pairwise([0, *cuts, len(text)]):
        sentence = _trim(text, start, end) if words is None else _trim_to_words(words, start, end)
        if sentence.start < sentence.end:
            sentences.append(sentence)
    return sentences


def _cuts(starts: Sequence[int], spans: Sequence[Span], words: Words | None) -> Iterator[int]:
    """Give the places among `starts` that lie within no mention and no given word."""
    rest = iter(spans)
    span = next(rest, None)
    for start in starts:
        while span is not None and span.end <= start:
            span = next(rest, None)
        in_mention = span is not None and span.start < start
        if not in_mention and not _is_in_word(words, start):
            yield start


def _is_in_word(words: Words | None, place: int) -> bool:
    """Return whether a place lies within a given word, past its first character."""
    if words is None:
        return False
    before = int(np.searchsorted(words[:, 0], place)) - 1
    return before >= 0 and bool(words[before, 1] > place)


def _trim(text: str, start: int, end: int) -> Sentence:
    """Return `[start, end)` without white space at its ends."""
    piece = text[start:end]
    num_leading = len(piece) - len(piece.lstrip())
    num_trailing = len(piece) - len(piece.rstrip())
    return Sentence(start + num_leading, end - num_trailing)


def _trim_to_words(words: Words, start: int, end: int) -> Sentence:
    """Return `[start, end)` from its first given word to its last; words may be white space."""
    first, past = np.searchsorted(words[:, 0], (start, end))
    if first == past:
        return Sentence(0, 0)
    return Sentence(int(words[first, 0]), int(words[past - 1, 1]))
