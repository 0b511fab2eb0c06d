"""Reads lines of words with tags: joined, as in `Ada/B-PER met/O`, or in a file beside the words.

The second are files such as `seq.in` and `seq.out`, or `train.words.txt` and `train.tags.txt`.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from mslm_data.source.reading import tags
from mslm_data.source.reading.files import NumberedLine, lines, read_bytes, read_head
from mslm_data.source.reading.records import RecordError, decode_utf8

_SEPARATORS = ("###", "/", "|", ":", "\\", "#", "_")
_MOST_OF = 0.95
"""Minimum share of the words that must have a tag."""
_FEWEST = 10
"""Minimum number of words."""
_MOST_LABELS = 40
_BESIDE = {
    "in": ("out",),
    "words": ("tags", "labels"),
    "tokens": ("tags", "labels"),
    "sentences": ("labels", "tags"),
    "text": ("tags", "labels"),
}
"""Words in the name of a file of words, and in that of the file with their tags."""
_TRIED_LINES = 20


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

    def list_tags(self, line: NumberedLine) -> list[str]:
        """Return the tags in a line, even if it cannot be split."""
        return [*map(self.find_tag, line.data.decode(errors="replace").split())]

    def split(self, line: NumberedLine) -> tuple[list[str], list[str]]:
        """Split a line into words and tags.

        Words without a tag at the end of a line, such as its label, are left out.

        Raises:
            RecordError: Another word has no tag.
        """
        joined = self.drop_end(decode_utf8(line.data).split())
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


class TagsBeside(NamedTuple):
    """The lines of a file with a tag for each word of another file."""

    lines: Sequence[str]
    are_labels: bool = False

    def list_tags(self, line: NumberedLine) -> list[str]:
        """Return the tags of a line of words."""
        return self.lines[line.number - 1].split() if line.number <= len(self.lines) else []

    def split(self, line: NumberedLine) -> tuple[list[str], list[str]]:
        """Return the words in a line and their tags.

        Raises:
            RecordError: There is another number of tags than of words, or one is no tag.
        """
        words = decode_utf8(line.data).split()
        found = self.list_tags(line)
        if len(words) != len(found) or not all(map(tags.is_tag, found)):
            raise RecordError(
                f"expected a tag for each word in the file beside it, got {len(words)} word(s) and "
                f"{sum(map(tags.is_tag, found))} tag(s)",
                code="a tag for each word",
            )
        return words, found


def find_tag_file(path: Path) -> Path | None:
    """Return the file beside a file of words that has their tags, None if there is none."""
    for word in re.finditer(r"[A-Za-z]+", path.name):
        for other in _BESIDE.get(word[0].lower(), ()):
            beside = path.with_name(path.name[: word.start()] + other + path.name[word.end() :])
            if beside.is_file() and _have_tags(path, beside):
                return beside
    return None


def read_tag_file(path: Path) -> TagsBeside:
    """Read a file of tags.

    Raises:
        SourceError: The file cannot be read.
    """
    read = lines(read_bytes(path))
    return TagsBeside([line.data.decode(errors="replace") for line in read])


def _have_tags(path: Path, beside: Path) -> bool:
    """Return whether the first lines of a file have a tag for each word of another file."""
    words, found = (
        [line.data.decode(errors="replace").split() for line in lines(read_head(file))]
        for file in (path, beside)
    )
    # The last lines may be cut.
    pairs = [*zip(words, found, strict=False)][:_TRIED_LINES]
    first = pairs[: max(1, len(pairs) - 1)]
    return (
        bool(first)
        and all(len(left) == len(right) for left, right in first)
        and all(map(tags.is_tag, itertools.chain.from_iterable(right for _, right in first)))
        and any(len(tag) > 1 for _, right in first for tag in right)
    )


def find_joined(texts: Sequence[str]) -> JoinedWords | None:
    """Return how the words of some lines are joined with tags, None if they are not."""
    words = [text.split() for text in texts]
    found = (joined for separator in _SEPARATORS for joined in _candidates(separator, words))
    return next((joined for joined in found if _fits(joined, words)), None)


def _candidates(separator: str, texts: Sequence[Sequence[str]]) -> Iterator[JoinedWords]:
    """Yield ways to join words with a separator that most words have, tags before labels."""
    counts = Counter(word.count(separator) for words in texts for word in words)
    if 2 * counts[0] < counts.total():
        # A word may contain the separator itself.
        num_fields = min(number for number in counts if number)
        for are_labels in (False, True):
            yield JoinedWords(separator, num_fields, are_labels)


def _fits(joined: JoinedWords, texts: Sequence[Sequence[str]]) -> bool:
    words = [word for text in texts for word in joined.drop_end(text)]
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
