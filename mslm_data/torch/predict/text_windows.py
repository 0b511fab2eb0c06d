"""Cut long texts into overlapping windows, and merge the mentions found in them.

All positions are word indices. A window has as many whole words as fit. Consecutive windows overlap
by a quarter of a window, so that words near the edge of one have more context in the other.

In an overlap, a seam assigns words to windows: those before it to the first, the others to the
second. The seam is the position closest to the middle of the overlap, counted in tokens, that is
not inside a mention of either window. Mentions are therefore not cut, unless mentions fill the
whole overlap: the seam is then in the middle, and both parts of a cut mention are joined if they
have the same label.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

OVERLAP = 4
"""Consecutive windows share 1 / OVERLAP of their tokens."""


class WordMention(NamedTuple):
    """A mention: words `[start, end)`, label number, and the score of each word."""

    start: int
    end: int
    label: int
    scores: tuple[float, ...]

    def within(self, start: int, end: int) -> WordMention:
        """Return the part of the mention in words `[start, end)`."""
        first = max(start, self.start)
        last = min(end, self.end)
        return WordMention(
            first, last, self.label, self.scores[first - self.start : last - self.start]
        )


class Window(NamedTuple):
    """Words `[start, end)` of a text that fit into one row of the model."""

    start: int
    end: int


def max_word_tokens(room: int) -> int:
    """Return the maximum number of tokens of a word, for windows of `room` tokens."""
    return max(1, room // OVERLAP)


def windows(places: Ints, room: int) -> Iterator[Window]:
    """Yield the windows of a text with at least one word.

    Args:
        places: int64 `[N + 1]`, first token of each of the N words, at most `max_word_tokens(room)`
            tokens each.
        room: Maximum number of tokens in a window, at least 4.
    """
    overlap = room // OVERLAP
    num_words = len(places) - 1
    start = 0
    while True:
        end = int(np.searchsorted(places, places[start] + room, side="right")) - 1
        yield Window(start, end)
        if end == num_words:
            return
        start = int(np.searchsorted(places, places[end] - overlap, side="left"))


def merge_windows(
    text_windows: Sequence[Window],
    mentions_per_window: Sequence[Sequence[WordMention]],
    places: Ints,
) -> list[WordMention]:
    """Merge the mentions found in the windows of a text.

    Args:
        text_windows: The windows.
        mentions_per_window: Mentions found in each window, in words of the text: sorted, without
            overlaps.
        places: See `windows`.
    """
    seams = [
        _find_seam(
            text_windows[i],
            text_windows[i + 1],
            mentions_per_window[i],
            mentions_per_window[i + 1],
            places,
        )
        for i in range(len(text_windows) - 1)
    ]
    # Words `[bounds[i], bounds[i + 1])` are read from window i.
    bounds = [text_windows[0].start, *seams, text_windows[-1].end]

    mentions: list[WordMention] = []
    for i, window_mentions in enumerate(mentions_per_window):
        start, end = bounds[i], bounds[i + 1]
        for mention in window_mentions:
            if mention.end <= start or mention.start >= end:
                continue

            # Join the parts of a mention that the seam has cut.
            part = mention.within(start, end)
            previous = mentions[-1] if mentions else None
            if (
                previous is not None
                and mention.start < start == previous.end
                and previous.label == part.label
            ):
                scores = previous.scores + part.scores
                mentions[-1] = WordMention(previous.start, part.end, part.label, scores)
            else:
                mentions.append(part)
    return mentions


def _find_seam(
    first: Window,
    second: Window,
    first_mentions: Sequence[WordMention],
    second_mentions: Sequence[WordMention],
    places: Ints,
) -> int:
    """Return the first word that is read from the second of two windows."""
    shared = np.arange(second.start, first.end)
    if not len(shared):
        return second.start

    is_inside = np.zeros(len(shared), np.bool_)
    for start, end, *_ in (*first_mentions, *second_mentions):
        is_inside |= (start < shared) & (shared < end)

    # Twice the distance from the middle, to stay in integers. Ties go to the first.
    distance = np.abs(2 * places[shared] - places[second.start] - places[first.end])
    if not is_inside.all():
        distance[is_inside] = np.iinfo(np.int64).max
    return int(shared[np.argmin(distance)])
