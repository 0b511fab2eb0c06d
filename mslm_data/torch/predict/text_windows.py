"""Cut long texts into overlapping windows, and merge the mentions found in them.

All positions are words. A window has as many whole words as fit. The next one begins a quarter of
a window earlier than it ends, so that words near an edge are seen with more text around them by
the other window.

Where two windows overlap, a seam divides them: the words before it are the first window's, the
others the second's. It is the place nearest the middle, counted in tokens, that is inside no
mention of either window. So a mention is never cut, but where mentions leave no such place in all
of an overlap: then the seam is nearest the middle, and the two parts of a mention of one label are
put together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

OVERLAP = 4
"""One window's share of tokens that the next one has too is 1 / OVERLAP."""


class WordMention(NamedTuple):
    """A mention: words `[start, end)`, the number of its label, and the score of each word."""

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
    """Words `[start, end)` of a text that the model reads at once."""

    start: int
    end: int


def max_word_tokens(room: int) -> int:
    """Return the maximum number of tokens read of a word, for a window of `room` tokens."""
    return max(1, room // OVERLAP)


def windows(places: Ints, room: int) -> Iterator[Window]:
    """Yield the windows of a text with at least one word.

    Args:
        places: int64 `[N + 1]`, where each of its N words begins, in tokens; each has at most
            `max_word_tokens(room)`.
        room: Tokens of a window, at least 4.
    """
    overlap = room // OVERLAP
    words = len(places) - 1
    start = 0
    while True:
        end = int(np.searchsorted(places, places[start] + room, side="right")) - 1
        yield Window(start, end)
        if end == words:
            return
        start = int(np.searchsorted(places, places[end] - overlap, side="left"))


def joined(
    text_windows: Sequence[Window], found: Sequence[Sequence[WordMention]], places: Ints
) -> list[WordMention]:
    """Merge the mentions found in the windows of a text.

    Args:
        text_windows: Its windows.
        found: The mentions that each of them says, in words of the text, rising, not overlapping.
        places: See `windows`.
    """
    seams = [
        _seam(text_windows[i], text_windows[i + 1], found[i], found[i + 1], places)
        for i in range(len(text_windows) - 1)
    ]
    bounds = [text_windows[0].start, *seams, text_windows[-1].end]

    mentions: list[WordMention] = []
    for i, window_mentions in enumerate(found):
        start, end = bounds[i], bounds[i + 1]
        for mention in window_mentions:
            if mention.end <= start or mention.start >= end:
                continue
            part = mention.within(start, end)
            before = mentions[-1] if mentions else None
            if (
                before is not None
                and mention.start < start == before.end
                and before.label == part.label
            ):
                scores = before.scores + part.scores
                mentions[-1] = WordMention(before.start, part.end, part.label, scores)
            else:
                mentions.append(part)
    return mentions


def _seam(
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

    # Twice the distance from the middle, so that it is whole; of two equal ones the first is taken.
    distance = np.abs(2 * places[shared] - places[second.start] - places[first.end])
    if not is_inside.all():
        distance[is_inside] = np.iinfo(np.int64).max
    return int(shared[np.argmin(distance)])
