"""Tag sequences of any scheme to mentions: one decoder, as all schemes differ only in what may be left out."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from mslm_data.data import bio

TAG = re.compile(r"(?:(?P<prefix>[BIESLUMW])(?:[-_](?P<label>.+))?|(?P<outside>O))\Z")

Ints: TypeAlias = npt.NDArray[np.signedinteger[Any]]


class WordSpan(NamedTuple):
    """A mention in words `[start, end)`."""

    start: int
    end: int
    label: str


@functools.lru_cache(maxsize=4096)
def parse(tag: str) -> tuple[str, str] | None:
    """Return prefix and label of a tag, `("O", "")` for outside, a label of "" for a bare prefix; None for no tag."""
    match = TAG.match(tag)
    if match is None:
        return None
    return (match["prefix"] or "O", match["label"] or "")


def is_tag(tag: str) -> bool:
    """Say whether a field can be a tag of any of the schemes."""
    return parse(tag) is not None


def decode(tags: Sequence[str], *, untyped: str) -> tuple[list[WordSpan], int]:
    """Turn tags of one sentence into mentions; see `meanings`.

    Args:
        tags: One tag a word.
        untyped: Label of tags without a type.

    Returns:
        The mentions in order, and how many began with a tag that should have continued one
        (regular in IOB1 and IO, a defect in IOB2 and IOBES).

    Raises:
        ValueError: A field that is no tag; the message names its position from 0, not the field.
    """
    if tags.count("O") == len(tags):
        return [], 0
    numbers = {tag: number for number, tag in enumerate(dict.fromkeys(tags))}
    for tag in numbers:
        if not is_tag(tag):
            raise ValueError(f"position {tags.index(tag)}: expected a tag such as O, B-X or I-X")
    of_words = np.array([numbers[tag] for tag in tags])
    found = find(of_words, np.array([0, len(tags)]), meanings(tuple(numbers), untyped=untyped))
    return found.of(0), int(found.late[0])


@dataclass(frozen=True, slots=True, eq=False)
class Meanings:
    """What M tags mean, for `find`.

    Attributes:
        table: int64 `[M + 1, 4]`, of each tag and then of no tag: as `data.bio.find` takes it.
        labels: The label of each number in it.
    """

    table: npt.NDArray[np.int64]
    labels: list[str]


@functools.lru_cache(maxsize=256)
def meanings(tags: tuple[str, ...], *, untyped: str) -> Meanings:
    """Say what tags of IOB1, IOB2, IO, IOBES or BILOU mean, typed or bare.

    B, S and U open a mention; I, E, M and L go on with an open one of the same label and open one where there is
    none (MSLM's own reading, and what makes IOB1 and IO come out right); E, S, L, U and W close it. O closes too.

    Args:
        tags: Distinct ones; what is no tag means the same as O.
        untyped: Label of tags without a type.
    """
    labels: dict[str, int] = {}
    table = []
    for prefix, label in (parse(tag) or ("O", "") for tag in tags):
        of = -1 if prefix == "O" else labels.setdefault(label or untyped, len(labels))
        table.append((of, prefix in "IEML", prefix in "ESLUW", prefix in "IEML"))
    return Meanings(np.array([*table, bio.NO_TAG], np.int64), list(labels))


def meanings_of_labels(tags: Sequence[str], *, outside: str) -> Meanings:
    """Say what tags mean that are labels themselves: equal neighbours are one mention.

    Args:
        tags: Distinct ones.
        outside: The one of words in no mention.
    """
    table = [(-1 if tag == outside else number, 1, 0, 0) for number, tag in enumerate(tags)]
    return Meanings(np.array([*table, bio.NO_TAG], np.int64), list(tags))


@dataclass(frozen=True, slots=True, eq=False)
class Mentions:
    """The mentions of S sentences.

    Attributes:
        spans: int64 `[N, 3]`: first word, word after the last, both counted over all sentences, and label.
        offsets: int64 `[S + 1]`, mentions of each sentence.
        late: int64 `[S]`, how many of them began with a tag that should have continued one.
        labels: The label of each number.
    """

    spans: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    late: npt.NDArray[np.int64]
    labels: list[str]

    def of(self, sentence: int) -> list[WordSpan]:
        """Return the mentions of one sentence."""
        spans = self.spans[self.offsets[sentence] : self.offsets[sentence + 1]].tolist()
        return [WordSpan(start, end, self.labels[label]) for start, end, label in spans]


def find(tags: Ints, offsets: Ints, means: Meanings) -> Mentions:
    """Find the mentions of sentences.

    Args:
        tags: `[W]`, a tag's number in `means` for each word; -1 where a word has none.
        offsets: `[S + 1]`, words of each sentence.
        means: What they mean.
    """
    found = bio.find(tags, offsets, means.table)
    return Mentions(found.spans, found.offsets, found.late, means.labels)


def runs(labels: Sequence[str], *, outside: str) -> list[WordSpan]:
    """Turn one label a word into mentions: equal neighbours make one.

    Args:
        labels: One label a word.
        outside: The label of words that are in no mention.
    """
    spans: list[WordSpan] = []
    start = 0
    for i in range(1, len(labels) + 1):
        if i == len(labels) or labels[i] != labels[start]:
            if labels[start] != outside:
                spans.append(WordSpan(start, i, labels[start]))
            start = i
    return spans
