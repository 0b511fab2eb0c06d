"""Cut long texts into overlapping windows, and merge the mentions found in them.

All positions are word indices. A window has as many whole words as fit. Consecutive windows overlap
by a quarter of a window, so that words near the edge of one have more context in the other.

A seam in the middle of each overlap assigns words to windows: those before it to the first, the
others to the second. If it cuts a mention, both parts are joined if they have the same label.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
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


def windows(places: Ints, room: int, *, first: int = 0, past: int | None = None) -> list[Window]:
    """Return the windows of words `[first, past)`.

    Args:
        places: int64 `[N + 1]`, first token of each of the N words, at most `max_word_tokens(room)`
            tokens each.
        room: Maximum number of tokens in a window, at least 4.
        first: First word. Default: that of `places`.
        past: Word after the last. Default: that of `places`.
    """
    if past is None:
        past = len(places) - 1

    overlap = room // OVERLAP
    found = []
    end = start = first
    while end < past:
        fitting = int(np.searchsorted(places, places[start] + room, side="right")) - 1
        end = min(fitting, past)
        found.append(Window(start, end))
        start = int(np.searchsorted(places, places[end] - overlap, side="left"))
    return found


def merge_windows(
    text_windows: Sequence[Window],
    mentions_per_window: Sequence[Sequence[WordMention]],
    places: Ints,
) -> list[WordMention]:
    """Merge the mentions found in the windows of a text.

    Args:
        text_windows: The windows.
        mentions_per_window: Mentions found in each window, sorted, without overlaps.
        places: See `windows`.
    """
    seams = [_find_seam(*pair, places) for pair in pairwise(text_windows)]
    # Words `[starts[i], ends[i])` are read from window i.
    starts = [window.start for window in text_windows[:1]] + seams
    ends = seams + [window.end for window in text_windows[-1:]]

    mentions: list[WordMention] = []
    for start, end, window_mentions in zip(starts, ends, mentions_per_window, strict=True):
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


def _find_seam(first: Window, second: Window, places: Ints) -> int:
    """Return the first word that is read from the second of two windows."""
    if first.end == second.start:
        return second.start

    # Twice the distance from the middle of the overlap, to stay in integers.
    shared = places[second.start : first.end]
    distance = np.abs(2 * shared - places[second.start] - places[first.end])
    return second.start + int(np.argmin(distance))
