"""Converts rows with text to words and mentions, for word-based export formats.

A word of a row is divided at white space, and at the start or end of a mention inside the word.
Characters without a token become words too, so that no text is lost.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

_FILLED = re.compile(r"\S+")


class RowWords(NamedTuple):
    """The W words of a row, with white space and mentions.

    A row::

        words     Aspirin  helps  .
        gaps      ""  " "  ""  ""
        mentions  (0, 1, Chemical)

    There is a space before `helps`. Word 0 is a mention.

    Attributes:
        doc_id: Document of the row.
        words: `[W]`, words without white space.
        gaps: `[W + 1]`, white space before each word and after the last.
        mentions: First word, word after the last, and label of each mention; sorted,
            non-overlapping.
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
        row: Row of a folder built with `encode.keep_text`.
        labels: Label names, indexed by `span_labels`.
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

    # Cut the text at the start of each word and at both ends of each mention, then at white space.
    cuts = {0, len(text)}
    cuts.update(starts[token] for token in _firsts(row["word_ids"]))
    cuts.update(itertools.chain.from_iterable(span[:2] for span in spans))
    pieces = [
        (match.start(), match.end())
        for start, stop in itertools.pairwise(sorted(cuts))
        for match in _FILLED.finditer(text, start, stop)
    ]

    # Convert mentions from characters to words.
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
    """Yield the first token of each word."""
    before = -1
    for token, word in enumerate(word_ids):
        if word >= 0 and word != before:
            yield token
        before = word
