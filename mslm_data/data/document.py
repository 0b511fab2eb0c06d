"""Documents, their mentions and sentences, and the pieces of input files that they are read from.

Sources give these; `documents.py` has batches of documents, which the offline stages pass on. All
positions are half open. Positions in a `Document` count characters of its text, those in a `Part`
bytes of its file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mslm_data.data.reason import Reason

SPLITS = ("train", "validation", "test")
"""The usual splits, in the order in which they are listed."""


def split_order(name: str) -> tuple[int, str]:
    """Return a key that sorts splits: the usual ones first, then others by name."""
    place = SPLITS.index(name) if name in SPLITS else len(SPLITS)
    return place, name


class Span(NamedTuple):
    """Mark a mention: characters `[start, end)` of a document.

    Attributes:
        start: First character.
        end: Character after the last.
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
    """Mark where something was taken out of a document, such as `[**2101-3-4**]`.

    No mention may overlap a placeholder.

    Attributes:
        start: First character.
        end: Character after the last.
        word: The word that is tokenised in its place; "" for nothing, None for the characters
            themselves.
    """

    start: int
    end: int
    word: str | None = None


class Sentence(NamedTuple):
    """Mark a sentence: characters `[start, end)` of a document."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """Hold one document of a source.

    A stage that changes a field calls a method here for the changed copy: no other code copies
    documents field by field. Stages pass documents on in batches, in columns; see `Documents`.

    Attributes:
        id: Unique within its split.
        text: As the source has it, never altered.
        spans: Mentions, in any order from sources; sorted and not overlapping after `annotate`.
        sentences: Sentences, sorted, not overlapping; None where the source does not say.
        words: int32 `[W, 2]`, starts and ends of words, rising; None for running text.
        placeholders: Where something was taken out, sorted, not overlapping.
        unplaced: Reason -> number of the source's mentions that are not in `spans`.
        adjusted: Reason -> number of spans that differ from the source's.
        place: Where the document begins in the input (`train.tsv:17`), for messages.
        doc_label: The label of the whole document, "" where it has none.
    """

    id: str
    text: str
    spans: tuple[Span, ...] = ()
    sentences: tuple[Sentence, ...] | None = None
    words: npt.NDArray[np.int32] | None = None
    placeholders: tuple[Placeholder, ...] = ()
    unplaced: Mapping[Reason, int] = field(default_factory=dict)
    adjusted: Mapping[str, int] = field(default_factory=dict)
    place: str = ""
    doc_label: str = ""

    def with_spans(self, spans: Iterable[Span]) -> Document:
        """Return a copy with other mentions."""
        return replace(self, spans=tuple(spans))

    def with_doc_label(self, label: str) -> Document:
        """Return a copy with a label of the whole document."""
        return replace(self, doc_label=label)


class SetAside(NamedTuple):
    """Report a document that cannot be used.

    Attributes:
        id: Its id, or "" where it could not be read.
        place: `file:line` or `file:byte`, the file's name without its folders.
        reason: Why it cannot be used.
        mentions: Number of its mentions that are lost with it, -1 where nobody has counted them.
    """

    id: str
    place: str
    reason: Reason
    mentions: int = -1


class NotChosen(NamedTuple):
    """Report a record outside the corpus that was asked for, such as a note of another category.

    It is counted by its reason. It is not among the documents that were read, nor among those set
    aside.
    """

    reason: str


class Part(NamedTuple):
    """Name a piece of one input file that can be read alone.

    Attributes:
        path: The file.
        start: First byte; for Arrow and parquet files, first row.
        stop: Byte or row after the last; -1 for the end of the file.
        first: Number of the file's records before the piece, so that numbered documents keep their
            numbers.
        line: Number of the piece's first line, from 1.
    """

    path: str
    start: int = 0
    stop: int = -1
    first: int = 0
    line: int = 1

    @property
    def is_whole(self) -> bool:
        """Whether the piece is all of its file."""
        return self.start == 0 and self.stop < 0
