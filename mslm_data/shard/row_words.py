"""Converts rows with text to words with mentions, for word-based formats.

Words are those of the row, cut at white space and where a mention begins or ends within one. What
no token stands for is a word too, so that all of the text is there.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

_FILLED = re.compile(r"\S+")


class RowWords(NamedTuple):
    """The words of a row.

    Attributes:
        doc_id: The document that it comes from.
        words: Each without white space.
        gaps: The white space before each word; W + 1, with what follows the last one.
        mentions: First word, word after the last, and label; sorted, not overlapping.
    """

    doc_id: str
    words: list[str]
    gaps: list[str]
    mentions: list[tuple[int, int, str]]

    def tags(self) -> list[str]:
        """Return the IOB2 tag of each word."""
        tags = ["O"] * len(self.words)
        for first, stop, label in self.mentions:
            tags[first] = f"B-{label}"
            tags[first + 1 : stop] = [f"I-{label}"] * (stop - first - 1)
        return tags


def words_in_row(row: Mapping[str, Any], labels: Sequence[str]) -> RowWords:
    """Return the words of a row.

    Args:
        row: A row of a folder that was built with `keep_text`.
        labels: The label of each index of `span_labels`.
    """
    text = row["text"]
    starts = row["token_starts"]
    ends = row["token_ends"]
    spans = [
        (starts[first], ends[stop - 1], labels[label])
        for first, stop, label in zip(
            row["span_starts"], row["span_ends"], row["span_labels"], strict=True
        )
    ]

    # A word ends where the next one begins, a mention begins or ends, or white space stands.
    cuts = {0, len(text)}
    cuts.update(starts[token] for token in _firsts(row["word_ids"]))
    cuts.update(itertools.chain.from_iterable(span[:2] for span in spans))
    pieces = [
        (found.start(), found.end())
        for start, stop in itertools.pairwise(sorted(cuts))
        for found in _FILLED.finditer(text, start, stop)
    ]

    begins = [start for start, _ in pieces]
    stops = [stop for _, stop in pieces]
    mentions = [
        (bisect.bisect_left(begins, start), bisect.bisect_right(stops, stop), label)
        for start, stop, label in spans
    ]
    bounds = [0, *itertools.chain.from_iterable(pieces), len(text)]
    return RowWords(
        doc_id=row["doc_id"],
        words=[text[start:stop] for start, stop in pieces],
        gaps=[text[start:stop] for start, stop in zip(bounds[::2], bounds[1::2], strict=True)],
        mentions=[mention for mention in mentions if mention[0] < mention[1]],
    )


def _firsts(word_ids: Sequence[int]) -> Iterator[int]:
    """Yield the first token of each word; special tokens have none."""
    before = -1
    for token, word in enumerate(word_ids):
        if word >= 0 and word != before:
            yield token
        before = word
