"""Single documents with their mentions and sentences, and parts of input files.

Sources produce these records. The later stages of a build work on batches of documents, see
`documents.py`.

All ranges are half open. Positions in a `Document` count characters of its text; positions in a
`Part` count bytes of its file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mslm_data.data.reason import Reason

SPLITS = ("train", "validation", "test")
"""The usual splits, in listing order."""


def split_order(name: str) -> tuple[int, str]:
    """Return a sort key for splits: the usual splits come first, others follow by name."""
    place = SPLITS.index(name) if name in SPLITS else len(SPLITS)
    return place, name


class Span(NamedTuple):
    """Store a mention: characters `[start, end)` of a document.

    A row::

        start  end  label     concept   score
            0    7  Chemical  C0004057   0.98

    Characters 0 to 6, `Aspirin`, are a Chemical with CUI C0004057, found with confidence 0.98.

    Attributes:
        start: First character.
        end: Character after the last.
        label: Entity type, such as `Disease`.
        concept: Concept identifier (a CUI). Default: "", unknown.
        score: Confidence in `[0, 1]`. Default: 1, as for gold mentions.
    """

    start: int
    end: int
    label: str
    concept: str = ""
    score: float = 1.0


class Placeholder(NamedTuple):
    """Store the position of a de-identification mark, such as `[**2101-3-4**]`.

    Mentions never overlap placeholders.

    Attributes:
        start: First character.
        end: Character after the last.
        word: Word to tokenise instead of the mark; "" removes the mark. Default: None, tokenise
            the mark itself.
    """

    start: int
    end: int
    word: str | None = None


def overwrite(
    text: str, placeholders: Iterable[Placeholder], replacement: Callable[[int], str]
) -> str:
    """Replace the characters of placeholders. The length of the text stays the same.

    Args:
        text: Text of a document.
        placeholders: Sorted placeholders.
        replacement: Function from a length to as many characters.
    """
    pieces: list[str] = []
    past = 0
    for start, end, _ in placeholders:
        pieces += (text[past:start], replacement(end - start))
        past = end
    return "".join([*pieces, text[past:]])


class Sentence(NamedTuple):
    """Store a sentence: characters `[start, end)` of a document."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """Hold one document of a source. Documents are immutable; `with_…` methods make changed copies.

    A row::

        id       text             spans             sentences  words            place
        train:0  Aspirin helps .  (0, 7, Chemical)  (0, 15)    (0, 7), (8, 13)  train.tsv:1
                                                               (14, 15)

    This document starts in line 1 of `train.tsv`, and has one sentence of three words and one
    mention. `Documents` stores a batch of documents as columns.

    Attributes:
        id: Unique within the split.
        text: The unmodified text of the source.
        spans: Mentions. A source may give them in any order; after `annotate` they are sorted and
            do not overlap.
        sentences: Sorted, non-overlapping sentences. Default: None, the source has no sentences.
        words: int32 `[W, 2]`, sorted start and end of each word. Default: None, running text.
        placeholders: Sorted, non-overlapping placeholders.
        unplaced: Reason -> number of mentions of the source missing from `spans`; `left_out` in the
            manifest.
        adjusted: Reason -> number of `spans` whose position differs from the source's.
        place: Position of the document in the input, such as `train.tsv:17`, for messages.
        doc_label: Label of the whole document. Default: "", no label.
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


class SetAside(NamedTuple):
    """Report a document that is set aside because it cannot be used.

    Attributes:
        id: Document id, or "" if the id is unreadable.
        place: `file:line` or `file:byte`, with the name of the file but not its folder.
        reason: Why the document cannot be used.
        mentions: Number of mentions lost with the document. Default: -1, unknown.
    """

    id: str
    place: str
    reason: Reason
    mentions: int = -1


class NotChosen(NamedTuple):
    """Report a record excluded by an option, such as a note of another category.

    Excluded records are counted by reason. They count neither as read nor as set aside.
    """

    reason: str


class Part(NamedTuple):
    """A part of an input file, which can be read independently of other parts.

    A row::

        path       start  stop  first  line
        train.tsv   4096  8192     37   412

    This part is the second 4 KiB of the file. It follows 37 records, and starts at line 412.

    Attributes:
        path: The file.
        start: First byte, or first row of an Arrow or parquet file. Default: 0.
        stop: Byte or row after the last. Default: -1, the end of the file.
        first: Number of records before the part, for sources that number their documents.
        line: Number of the first line, counted from 1.
    """

    path: str
    start: int = 0
    stop: int = -1
    first: int = 0
    line: int = 1
