"""What sources give and the offline stages pass on: documents, their mentions, and pieces of input files.

All positions are half open. Positions in a `Document` count characters of its text; those of a `Part` bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

SPLITS = ("train", "validation", "test")
"""The usual splits, in the order in which they are named."""


def split_order(name: str) -> tuple[int, str]:
    """Return what splits are sorted by: the usual ones first."""
    return (SPLITS.index(name) if name in SPLITS else len(SPLITS), name)


class Span(NamedTuple):
    """A mention: characters `[start, end)` of a document.

    Attributes:
        label: Its type, such as `Disease`.
        concept: Its concept (a CUI), "" where none is known.
        score: Confidence in `[0, 1]`; 1 for gold.
    """

    start: int
    end: int
    label: str
    concept: str = ""
    score: float = 1.0


class Placeholder(NamedTuple):
    """Characters `[start, end)` where something was taken out of a document, such as `[**2101-3-4**]`.

    No mention may overlap one.

    Attributes:
        word: What is tokenised in its place: None the characters themselves, "" nothing, else this word.
    """

    start: int
    end: int
    word: str | None = None


class Sentence(NamedTuple):
    """Characters `[start, end)` of a document."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document of a source.

    Attributes:
        id: Unique within its split.
        text: As the source has it, never altered.
        spans: Mentions; sources give them in any order, `annotate` makes them flat and sorted.
        sentences: Sentences, sorted, not overlapping; None where the source does not say.
        words: `[W, 2]` starts and ends of words, rising; None for running text.
        placeholders: Where something was taken out, sorted, not overlapping.
        unplaced: Reason -> number of the source's mentions that are not in `spans`.
        adjusted: Reason -> number of spans that are not just as the source has them.
        place: Where it begins in the input (`train.tsv:17`), for messages.
    """

    id: str
    text: str
    spans: tuple[Span, ...] = ()
    sentences: tuple[Sentence, ...] | None = None
    words: npt.NDArray[np.int32] | None = None
    placeholders: tuple[Placeholder, ...] = ()
    unplaced: Mapping[str, int] = field(default_factory=dict)
    adjusted: Mapping[str, int] = field(default_factory=dict)
    place: str = ""


class SetAside(NamedTuple):
    """A document that cannot be used.

    Attributes:
        id: Its id, or "" where it could not be read.
        place: `file:line` or `file:byte`, the file's name without its folders.
        reason: What was expected and what came, without the document's words.
    """

    id: str
    place: str
    reason: str


class NotChosen(NamedTuple):
    """A record that is no part of the corpus that was asked for: counted by its reason, neither read nor set aside."""

    reason: str


class Part(NamedTuple):
    """A piece of one input file that can be read alone.

    Attributes:
        path: The file.
        start: First byte; for Arrow and parquet files, first row.
        stop: Byte or row after the last; -1 for all of the file.
        first: How many records of the file come before it, so that numbered documents keep their numbers.
        line: Number of its first line, from 1.
    """

    path: str
    start: int = 0
    stop: int = -1
    first: int = 0
    line: int = 1


class WorkUnit(NamedTuple):
    """A piece of a build that one process does and that becomes one shard: a pure function of inputs and pipeline."""

    split: str
    number: int
    parts: tuple[Part, ...]

    @property
    def name(self) -> str:
        """What its receipt and its messages call it."""
        return f"{self.split}-{self.number:05d}"
