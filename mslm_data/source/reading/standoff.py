"""Mentions that stand apart from their text: pieces are laid out at their offsets, mentions put to the test.

Shared by every source whose mentions are offsets. A mention that does not fit is counted, never moved.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from mslm_data.data.document import Document, Sentence, Span
from mslm_data.source.reading.records import RecordError

Discontinuous = Literal["hull", "set_aside"]
"""What becomes of a mention in several pieces: one from its first to its last character, or none."""
OffsetUnit = Literal["characters", "bytes", "utf-16"]
"""What offsets count: characters (code points), bytes of UTF-8, or code units of UTF-16 (Java, JavaScript)."""

MISMATCH = "offsets do not match the text"
DISCONTINUOUS = "discontinuous"
NO_OFFSETS = "without offsets"
NO_LABEL = "without a label"
"""Reasons in `Document.unplaced`."""

MAX_GAP = 1 << 20
"""Characters of a document that may be without text, and are filled with spaces; beyond it an offset is wrong."""


class Mention(NamedTuple):
    """A mention as a source gives it.

    Attributes:
        fragments: Starts and ends, half open, in characters; several where it is discontinuous.
        words: Its text as the source repeats it, None where it does not.
    """

    fragments: Sequence[tuple[int, int]]
    label: str
    words: str | None = None
    concept: str = ""
    score: float = 1.0


class Placed(NamedTuple):
    """Mentions after `place`.

    Attributes:
        unplaced: Reason -> how many are not among the spans.
        adjusted: Reason -> how many of the spans are not as the source has them: hulls.
    """

    spans: tuple[Span, ...]
    unplaced: Mapping[str, int]
    adjusted: Mapping[str, int]

    def document(
        self, doc_id: str, text: str, *, sentences: tuple[Sentence, ...] | None, place: str
    ) -> Document:
        """Return the document that the mentions were placed in."""
        return Document(
            id=doc_id,
            text=text,
            spans=self.spans,
            sentences=sentences,
            unplaced=self.unplaced,
            adjusted=self.adjusted,
            place=place,
        )


def place(
    text: str, mentions: Iterable[Mention], *, discontinuous: Discontinuous = "hull"
) -> Placed:
    """Turn mentions into spans of a text, and count those that cannot be.

    A mention's own words must be those of the text at its offsets; only white space may differ, as formats of one
    line a mention cannot repeat a line end. Fragments with nothing but white space between them are one.
    """
    spans: list[Span] = []
    unplaced: Counter[str] = Counter()
    adjusted: Counter[str] = Counter()
    for mention in mentions:
        fragments = sorted(mention.fragments)
        reason = _misfit(text, fragments, mention)
        gaps = itertools.pairwise(fragments)
        is_hull = not reason and any(text[left[1] : right[0]].strip() for left, right in gaps)
        if is_hull and discontinuous == "set_aside":
            reason = DISCONTINUOUS
        if reason:
            unplaced[reason] += 1
            continue
        adjusted[DISCONTINUOUS] += is_hull
        end = max(end for _, end in fragments)
        spans.append(Span(fragments[0][0], end, mention.label, mention.concept, mention.score))
    return Placed(tuple(spans), dict(unplaced), dict(+adjusted))


def _misfit(text: str, fragments: Sequence[tuple[int, int]], mention: Mention) -> str:
    """Return why a mention does not fit its text, "" where it does."""
    if not fragments:
        return NO_OFFSETS
    if not mention.label:
        return NO_LABEL
    if not all(0 <= start < end <= len(text) for start, end in fragments):
        return MISMATCH
    if sum(end - start for start, end in fragments) > len(text):
        return MISMATCH  # fragments that overlap could repeat the text without end
    if mention.words is None:
        return ""
    found = " ".join(text[start:end] for start, end in fragments)
    return "" if found == mention.words or found.split() == mention.words.split() else MISMATCH


def width(text: str, *, unit: OffsetUnit) -> int:
    """Return a text's length in the unit that offsets count."""
    if unit == "characters" or text.isascii():
        return len(text)
    return len(text.encode()) if unit == "bytes" else len(text.encode("utf-16-le")) // 2


def in_characters(text: str, *, unit: OffsetUnit) -> Callable[[int], int]:
    """Return what turns an offset of a unit into one of characters, -1 inside a character or beyond the end."""
    if unit == "characters" or text.isascii():
        return lambda offset: offset
    widths = (width(character, unit=unit) for character in text)
    table = {offset: i for i, offset in enumerate(itertools.accumulate(widths, initial=0))}
    return lambda offset: table.get(offset, -1)


def lay_out(
    pieces: Sequence[tuple[int, str]], *, unit: OffsetUnit = "characters"
) -> tuple[str, tuple[Sentence, ...]]:
    """Put pieces of text at their offsets in the document, so that document-wide offsets hold.

    What is missing between two pieces is filled with spaces and one line end.

    Returns:
        The text, and where each piece came to lie, in characters; empty pieces are nowhere.

    Raises:
        RecordError: Two pieces overlap, or one lies far beyond the others.
    """
    out: list[str] = []
    bounds: list[Sentence] = []
    position = start = filled = 0
    for offset, text in sorted((piece for piece in pieces if piece[1]), key=lambda piece: piece[0]):
        gap = offset - position
        filled += gap
        if gap < 0 or filled > MAX_GAP:
            problem = "before the one before it ends" if gap < 0 else "far beyond the text"
            raise RecordError(
                f"expected passages one after the other, got offset {offset}, {problem}"
            )
        if gap:
            out.append(" " * (gap - 1) + "\n")
        out.append(text)
        start += gap
        bounds.append(Sentence(start, start + len(text)))
        start += len(text)
        position = offset + width(text, unit=unit)
    return "".join(out), tuple(bounds)
