"""Counts of documents, mentions and rows, which add up.

A batch, a work unit, a split and a folder are counted by the same `Counts`, and
`sum(counts, Counts())` leads from one to the next. `Counts.check` is the law that nothing is lost
without a reason.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import msgspec

from mslm_data.data.document import SetAside
from mslm_data.data.reason import Reason

Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
"""A count in a file. The upper limit keeps sums of counts within 64 bits."""


class Counts(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Count documents, mentions and rows.

    A row::

        read  written  set_aside        given_mentions  left_out               cut_pieces  mentions
         100       98  {"no token": 2}             250  {"not a label": 5}              2       247

    Two of 100 documents have no row. Of their 250 mentions, 5 are left out. One of the others is
    longer than a row, and was cut into 3 pieces. So the rows have `250 - 5 + 2 = 247` mentions.

    Attributes:
        read: Number of documents read.
        written: Number of documents with rows.
        set_aside: Reason -> number of documents without rows.
        uncounted: Reason -> number of documents set aside before their mentions could be counted.
        not_chosen: Reason -> number of records excluded by an option, such as a sample or a note
            category. These are not in `read`.
        sequences: Number of rows.
        tokens: Number of tokens, including special tokens.
        mentions: Number of mentions in the rows.
        given_mentions: Number of mentions given by the source or found by the annotator, including
            those of documents set aside, as far as they are known.
        left_out: Reason -> number of mentions that are in no row.
        adjusted: Reason -> number of mentions that differ from the source: hulls of discontinuous
            mentions, corrected tags, shared tokens.
        cut_mentions: Number of mentions longer than a row.
        cut_pieces: Number of additional mentions made by cutting these.
        widened_mentions: Number of mentions that start or end inside a token, and were extended to
            the token.
        windowed: Number of sentences cut because they were longer than a row.
        empty: Number of sentences without tokens.
        copies: `exact` and `near` -> number of documents that are copies of another document, kept
            or not.
        equal_texts: `within the split` and `in OTHER` -> number of texts that equal an earlier text
            of the split, or a text of another split. A text is a sentence where the source has
            sentences, otherwise a document.
        reasons: Text -> reason, of all texts in `set_aside` and `left_out`. Manifests leave it out.
    """

    read: Count = 0
    written: Count = 0
    set_aside: dict[str, Count] = {}
    uncounted: dict[str, Count] = {}
    not_chosen: dict[str, Count] = {}
    sequences: Count = 0
    tokens: Count = 0
    mentions: Count = 0
    given_mentions: Count = 0
    left_out: dict[str, Count] = {}
    adjusted: dict[str, Count] = {}
    cut_mentions: Count = 0
    cut_pieces: Count = 0
    widened_mentions: Count = 0
    windowed: Count = 0
    empty: Count = 0
    copies: dict[str, Count] = {}
    equal_texts: dict[str, Count] = {}
    reasons: dict[str, Reason] = {}

    @property
    def aside(self) -> int:
        """Number of documents set aside."""
        return sum(self.set_aside.values())

    def __add__(self, other: Counts) -> Counts:
        """Return the counts of both together. Keys of mappings are sorted."""
        sums: dict[str, object] = {"reasons": self.reasons | other.reasons}
        for name in Counts.__struct_fields__:
            ours, theirs = getattr(self, name), getattr(other, name)
            if isinstance(ours, int):
                sums[name] = ours + theirs
            elif name != "reasons":
                keys = sorted({*ours, *theirs})
                sums[name] = {key: ours.get(key, 0) + theirs.get(key, 0) for key in keys}
        return Counts(**sums)  # type: ignore[arg-type]

    def put_aside(self, document: SetAside) -> None:
        """Count a document that is read and has no row, and its mentions as given and left out."""
        reason = document.reason
        _count(self.set_aside, reason.text, 1)
        self.reasons[reason.text] = reason

        if document.mentions < 0:
            _count(self.uncounted, reason.text, 1)
        else:
            self.given_mentions += document.mentions
            self.leave_out(in_aside(reason), document.mentions)

    def leave_out(self, reason: Reason, mentions: int) -> None:
        """Count mentions that are given and in no row; 0 mentions change nothing."""
        if mentions:
            _count(self.left_out, reason.text, mentions)
            self.reasons[reason.text] = reason

    def adjust(self, reason: str, mentions: int) -> None:
        """Count mentions that differ from the source; 0 mentions change nothing."""
        if mentions:
            _count(self.adjusted, reason, mentions)

    def not_choose(self, reason: str) -> None:
        """Count a record excluded by an option."""
        _count(self.not_chosen, reason, 1)

    def check(self) -> None:
        """Check that every document and mention is in the rows, or counted with a reason.

        Raises:
            ValueError: The counts do not add up. The message has numbers only.
        """
        if self.read != self.written + self.aside:
            raise ValueError(
                "expected read = written + set aside, got "
                f"{self.read} = {self.written} + {self.aside}"
            )

        placed = self.given_mentions - sum(self.left_out.values()) + self.cut_pieces
        if self.mentions != placed:
            raise ValueError(
                f"expected {placed} mentions according to the counts, got {self.mentions}"
            )


def in_aside(reason: Reason) -> Reason:
    """Return the reason for mentions in documents that are set aside for a reason."""
    return replace(reason, text=f"in documents set aside: {reason}")


def _count(counts: dict[str, int], name: str, number: int) -> None:
    counts[name] = counts.get(name, 0) + number
