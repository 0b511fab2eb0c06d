"""Reads lines of words that are joined with their tags, as in `Ada/B-PER met/O Bo/B-PER`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mslm_data.source.reading import tags
from mslm_data.source.reading.records import RecordError

_SEPARATORS = ("###", "/", "|", ":", "\\", "#", "_")
_MOST_OF = 0.95
"""Minimum share of the words that must have a tag."""
_FEWEST = 10
"""Minimum number of words."""
_MOST_LABELS = 40


class JoinedWords(NamedTuple):
    """How words are joined with their tags.

    Attributes:
        separator: Separator of word and tag.
        num_fields: Number of fields behind the word. The last one is the tag.
        are_labels: Whether tags are labels without prefixes, of which equal neighbours form one
            mention.
    """

    separator: str
    num_fields: int
    are_labels: bool

    def split(self, line: str) -> tuple[list[str], list[str]]:
        """Split a line into words and tags.

        Words without a tag at the end of a line, such as its label, are left out.

        Raises:
            RecordError: Another word has no tag.
        """
        joined = self.drop_end(line.split())
        if not joined or not all(map(self.has_tag, joined)):
            raise RecordError("expected words that are joined with their tags, got one without")
        words = [one.rsplit(self.separator, self.num_fields)[0] for one in joined]
        return words, [self.find_tag(one) for one in joined]

    def drop_end(self, joined: Sequence[str]) -> Sequence[str]:
        """Drop words without a tag at the end of a line."""
        stop = len(joined)
        while stop and not self.has_tag(joined[stop - 1]):
            stop -= 1
        return joined[:stop]

    def has_tag(self, joined: str) -> bool:
        """Return whether a word has a tag."""
        tag = self.find_tag(joined)
        has_word = bool(joined.rsplit(self.separator, self.num_fields)[0])
        return has_word and (tag[:1].isupper() if self.are_labels else tags.is_tag(tag))

    def find_tag(self, joined: str) -> str:
        """Return the tag of a word, "" if it has none."""
        fields = joined.rsplit(self.separator, self.num_fields)
        return fields[-1] if len(fields) > self.num_fields else ""


def find_joined(lines: Sequence[str]) -> JoinedWords | None:
    """Return how the words of some lines are joined with tags, None if they are not."""
    words = [line.split() for line in lines]
    found = (joined for separator in _SEPARATORS for joined in _candidates(separator, words))
    return next((joined for joined in found if _fits(joined, words)), None)


def _candidates(separator: str, lines: Sequence[Sequence[str]]) -> Iterator[JoinedWords]:
    """Yield ways to join words with a separator that most words have, tags before labels."""
    counts = Counter(word.count(separator) for words in lines for word in words)
    if 2 * counts[0] < counts.total():
        # A word may contain the separator itself.
        num_fields = min(number for number in counts if number)
        for are_labels in (False, True):
            yield JoinedWords(separator, num_fields, are_labels)


def _fits(joined: JoinedWords, lines: Sequence[Sequence[str]]) -> bool:
    words = [word for line in lines for word in joined.drop_end(line)]
    found = Counter(joined.find_tag(word) for word in words if joined.has_tag(word))
    labels = {tag: number for tag, number in found.items() if tag != "O"}
    if len(words) < _FEWEST or found.total() < _MOST_OF * len(words) or not found["O"]:
        return False
    if joined.are_labels:
        # Labels repeat, unlike words, and most words are outside of mentions, unlike in a text
        # with parts of speech.
        repeat = 0 < 2 * len(labels) <= sum(labels.values())
        is_mostly_outside = 2 * found["O"] > found.total()
        return repeat and is_mostly_outside and len(labels) <= _MOST_LABELS
    return any(len(tag) > 1 for tag in labels)
