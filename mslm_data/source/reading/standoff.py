"""Places stand-off annotations, whose offsets refer to a text elsewhere.

Pieces of text are placed at their offsets, and every annotation is compared with the text at its
offsets. Annotations that do not match are counted; they are never moved.

Sources of annotations with offsets derive from `OffsetSource` and place them with its methods.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from mslm_data.data.document import Sentence, Span
from mslm_data.data.reason import Reason
from mslm_data.source import Source
from mslm_data.source.reading.encodings import EncodingOption, TextReading
from mslm_data.source.reading.records import RecordError

Discontinuous = Literal["hull", "set_aside"]
"""Treatment of mentions in several fragments: one mention from the first to the last character
("hull"), or none ("set_aside")."""
NegatedOption = Annotated[
    Literal["keep", "leave_out"],
    Meta(
        description='Mentions that the file marks as negated: "keep" reads them like others, since '
        'they are terms too, "leave_out" leaves them out.'
    ),
]
OffsetUnit = Literal["characters", "utf-16", "bytes"]
"""Unit of offsets: characters (code points), UTF-16 code units (Java, JavaScript), UTF-8 bytes."""
Ends = Literal["exclusive", "inclusive"]
"""Meaning of an end offset: the position after the last character ("exclusive"), or the position of
the last character ("inclusive")."""
Newlines = Literal["two", "one"]
"""Length of CRLF: two characters, or one if line ends became CRLF after annotation."""

MISMATCH = Reason(
    "offsets do not match the text",
    advice={
        "ends": "{set} source.ends=inclusive, source.offsets=utf-16 or bytes, or "
        "source.newlines=one, as the corpus has them"
    },
)
OUTSIDE = Reason(
    "offsets outside the text",
    advice={
        "offsets": "check that the texts are those that were annotated, or {set} "
        "source.offsets=utf-16 or bytes if the corpus counts these"
    },
)
NO_WIDTH = Reason("end at or before the start")
NO_OFFSETS = Reason("without offsets")
NO_LABEL = Reason(
    "without a label", advice={"label": "set the label, or its key, with source.label"}
)
ONE_END = Reason("without a beginning or an end")
OTHER_TEXT = Reason(
    "in another text of the record",
    advice={"text_column": "choose another text with source.text_column"},
)
DISCONTINUOUS = Reason("discontinuous", is_rule=True)
CANCELLED = Reason("in an annotation that was cancelled", is_rule=True)
VERSIONS = Reason("in another annotation of the document", is_rule=True)
NOT_RIGHT = Reason("not marked as right", is_rule=True)
"""Reasons in `Document.unplaced`. Rules follow from an option or from the annotators' decision."""

_BOM = "\ufeff"

_LEFT_OUT = re.compile(r"\s+(?:\.\.\.|\[\.\.\.\]|\u2026)\s+")
"""Ellipses that some sources write between the fragments of a mention."""

MAX_GAP = 1 << 20
"""Maximum number of characters in gaps between pieces of text. More means a wrong offset."""


class Annotation(NamedTuple):
    """A mention as given by the source.

    Attributes:
        fragments: Half-open ranges of characters; several for a discontinuous mention.
        label: Label of the mention.
        words: Text of the mention, None or "" if the source does not repeat it.
        concept: Concept id, "" if unknown.
    """

    fragments: Sequence[tuple[int, int]]
    label: str
    words: str | None = None
    concept: str = ""


class Placed(NamedTuple):
    """The result of `place`.

    Attributes:
        spans: Annotations that match the text.
        unplaced: Reason -> number of annotations that do not.
        adjusted: Reason -> number of spans that differ from the source, such as hulls.
    """

    spans: tuple[Span, ...]
    unplaced: Mapping[Reason, int]
    adjusted: Mapping[str, int]

    @property
    def misfits(self) -> int:
        """Number of annotations whose offsets do not fit the text."""
        return sum(self.unplaced.get(reason, 0) for reason in (MISMATCH, OUTSIDE, NO_WIDTH))


class _Convention(NamedTuple):
    """A meaning of offsets. Default: characters, exclusive ends, CRLF as two characters."""

    unit: OffsetUnit = "characters"
    ends: Ends = "exclusive"
    newlines: Newlines = "two"

    def understand(self, text: str, annotations: Sequence[Annotation]) -> Sequence[Annotation]:
        """Convert annotations to half-open offsets in characters of a text."""
        if self == _Convention():
            return annotations
        at = in_characters(text, unit=self.unit, newlines=self.newlines)
        past = int(self.ends == "inclusive")
        return [
            annotation._replace(
                fragments=[(at(start), at(end + past)) for start, end in annotation.fragments]
            )
            for annotation in annotations
        ]


class LaidOut(NamedTuple):
    """A text, the ranges of its pieces, and its annotations."""

    text: str
    bounds: tuple[Sentence, ...]
    placed: Placed


class OffsetSource(Source, frozen=True, kw_only=True):
    """Base class of sources of annotations with offsets.

    "auto" chooses for each document the convention with the most annotations whose words match the
    text; the default convention (characters, exclusive, two) wins ties. If the source does not
    repeat the words of annotations, "auto" is the default convention, except that in JSON rows ends
    are inclusive if nearly all ends would split a word otherwise.
    """

    offsets: Annotated[Literal["auto"] | OffsetUnit, Meta(description="Unit of offsets.")] = "auto"
    ends: Annotated[Literal["auto"] | Ends, Meta(description="Meaning of end offsets.")] = "auto"
    newlines: Annotated[
        Literal["auto"] | Newlines, Meta(description="Length of CRLF in characters.")
    ] = "auto"
    discontinuous: Annotated[
        Discontinuous,
        Meta(
            description='Treatment of mentions in several fragments: "hull" reads a mention from '
            'the first to the last character, "set_aside" leaves it out. Fragments separated by '
            "white space only are joined."
        ),
    ] = "hull"

    def with_defaults(
        self, unit: OffsetUnit | Literal[""], ends: Ends | Literal[""]
    ) -> OffsetSource:
        """Return options with these conventions in place of "auto"; "" for no change."""
        return OffsetSource(
            offsets=unit if unit and self.offsets == "auto" else self.offsets,
            ends=ends if ends and self.ends == "auto" else self.ends,
            newlines=self.newlines,
            discontinuous=self.discontinuous,
        )

    def place(self, text: str, annotations: Iterable[Annotation]) -> Placed:
        """Place annotations in a text."""
        return self.lay_out([(0, text)], annotations).placed

    def place_in_file(self, text: str, annotations: Sequence[Annotation]) -> tuple[str, Placed]:
        """Place annotations in the text of a file. Returns the text without its byte order mark.

        Some programs count the mark as a character. The convention that places more annotations is
        used.
        """
        bare = text.removeprefix(_BOM)
        placed = self.place(bare, annotations)
        if bare == text:
            return bare, placed

        moved = [
            annotation._replace(
                fragments=[(start - 1, end - 1) for start, end in annotation.fragments]
            )
            for annotation in annotations
        ]
        placed_moved = self.place(bare, moved)
        if len(placed_moved.spans) > len(placed.spans):
            placed = placed_moved
        return bare, placed

    def lay_out(
        self, pieces: Sequence[tuple[int, str]], annotations: Iterable[Annotation]
    ) -> LaidOut:
        """Place pieces of text at their offsets, and annotations in the result.

        Args:
            pieces: Offset and text of each piece, in any order. Empty pieces are ignored. A gap
                between two pieces is filled with spaces and a line end.
            annotations: Annotations with offsets in the whole document.

        Raises:
            RecordError: Two pieces overlap, or gaps exceed `MAX_GAP` characters.
        """
        listed = list(annotations)
        has_words = any(annotation.words for annotation in listed)

        best: LaidOut | None = None
        # Try conventions in order, and stop at the first in which every annotation matches.
        problem: RecordError | None = None
        for convention in self._conventions("".join(piece for _, piece in pieces)):
            try:
                text, bounds = _join(pieces, unit=convention.unit)
            except RecordError as error:
                problem = problem or error
                continue
            understood = convention.understand(text, listed)
            placed = _place(text, understood, discontinuous=self.discontinuous)
            if best is None or placed.misfits < best.placed.misfits:
                best = LaidOut(text, bounds, placed)
            # Without words to compare, no convention is better than the first.
            if not best.placed.misfits or not has_words:
                break
        if best is None:
            raise problem or RecordError("expected passages with text, got none")
        return best

    def _conventions(self, text: str) -> Iterator[_Convention]:
        """Yield the allowed conventions that differ for a text, the default first."""
        units: Sequence[OffsetUnit] = ("characters", "utf-16", "bytes")
        newlines: Sequence[Newlines] = ("two", "one")
        ends: Sequence[Ends] = ("exclusive", "inclusive")
        if self.offsets != "auto":
            units = (self.offsets,)
        elif text.isascii():
            units = units[:1]
        if self.newlines != "auto":
            newlines = (self.newlines,)
        elif "\r\n" not in text:
            newlines = newlines[:1]
        if self.ends != "auto":
            ends = (self.ends,)
        for convention in itertools.product(units, ends, newlines):
            yield _Convention(*convention)


class OffsetTextSource(TextReading, OffsetSource, frozen=True, kw_only=True):
    """Base class of sources of text files with offsets."""

    encoding: EncodingOption = "utf-8"


def _place(text: str, annotations: Iterable[Annotation], *, discontinuous: Discontinuous) -> Placed:
    """Convert annotations to spans of a text, and count those that do not match.

    The words of an annotation must equal the text at its offsets, except for white space (formats
    with one mention per line cannot repeat a line end) and `...` between fragments. Fragments
    separated by white space only are joined.
    """
    spans: list[Span] = []
    unplaced: Counter[Reason] = Counter()
    adjusted: Counter[str] = Counter()
    for annotation in annotations:
        fragments = sorted(annotation.fragments)
        reason = _misfit(text, fragments, annotation)

        # Fragments separated by white space only are one mention in any case.
        is_hull = not reason and _has_gaps(text, fragments)
        if is_hull and discontinuous == "set_aside":
            reason = DISCONTINUOUS
        if reason:
            unplaced[reason] += 1
            continue

        if is_hull:
            adjusted[DISCONTINUOUS.text] += 1
        start = fragments[0][0]
        end = max(end for _, end in fragments)
        spans.append(Span(start, end, annotation.label, annotation.concept))
    return Placed(tuple(spans), dict(unplaced), dict(adjusted))


def _misfit(
    text: str, fragments: Sequence[tuple[int, int]], annotation: Annotation
) -> Reason | None:
    """Return why an annotation does not match the text, None if it does."""
    if not fragments:
        return NO_OFFSETS
    if not annotation.label:
        return NO_LABEL
    for start, end in fragments:
        if reason := misplaced(start, end, length=len(text)):
            return reason
    return None if _fits(text, fragments, annotation.words) else MISMATCH


def misplaced(start: int, end: int, *, length: int) -> Reason | None:
    """Return why `[start, end)` is no range of a text with this length, None if it is."""
    if 0 <= start < end <= length:
        return None
    return NO_WIDTH if 0 <= end <= start <= length else OUTSIDE


def _fits(text: str, fragments: Sequence[tuple[int, int]], words: str | None) -> bool:
    """Return whether fragments of a text match these words, if there are any."""
    if len(fragments) == 1:
        start, end = fragments[0]
        if not words or text[start:end] == words:
            return True
    # Overlapping fragments could repeat the text many times in the join below.
    if sum(end - start for start, end in fragments) > len(text):
        return False
    if not words:
        return True
    pieces = [text[start:end] for start, end in fragments]
    if " ".join(pieces) == words or " ".join(pieces).split() == words.split():
        return True
    repeated = _LEFT_OUT.split(words)
    return len(repeated) == len(pieces) > 1 and all(
        piece.split() == copy.split() for piece, copy in zip(pieces, repeated, strict=True)
    )


def _has_gaps(text: str, fragments: Sequence[tuple[int, int]]) -> bool:
    """Return whether fragments are separated by more than white space."""
    return any(text[left[1] : right[0]].strip() for left, right in itertools.pairwise(fragments))


def width(text: str, *, unit: OffsetUnit) -> int:
    """Return the length of a text in a unit of offsets."""
    if unit == "characters" or text.isascii():
        return len(text)
    if unit == "bytes":
        return len(text.encode())
    return len(text.encode("utf-16-le")) // 2


def in_characters(
    text: str, *, unit: OffsetUnit, newlines: Newlines = "two"
) -> Callable[[int], int]:
    """Return a function that converts an offset in some unit to an offset in characters.

    The function returns -1 for an offset within a character or beyond the end of the text.

    Args:
        text: The text that offsets refer to.
        unit: Unit of offsets.
        newlines: Length of CRLF.
    """
    one_newline = newlines == "one" and "\r\n" in text
    if (unit == "characters" or text.isascii()) and not one_newline:
        return lambda offset: offset

    # Offset in `unit` -> offset in characters, for the start of each character.
    table: dict[int, int] = {}
    offset = 0
    for i, character in enumerate(text):
        if one_newline and character == "\n" and text[i - 1 : i] == "\r":
            continue  # LF has the position of its CR
        table[offset] = i
        offset += width(character, unit=unit)
    table[offset] = len(text)
    return lambda offset: table.get(offset, -1)


def _join(
    pieces: Sequence[tuple[int, str]], *, unit: OffsetUnit
) -> tuple[str, tuple[Sentence, ...]]:
    """Join pieces of text at their offsets. Returns the text, and each piece's characters."""
    out: list[str] = []
    bounds: list[Sentence] = []
    position = 0  # in `unit`
    start = 0  # in characters
    filled = 0
    for offset, text in sorted((piece for piece in pieces if piece[1]), key=lambda piece: piece[0]):
        gap = offset - position
        filled += gap
        if gap < 0 or filled > MAX_GAP:
            problem = "before the one before it ends" if gap < 0 else "far beyond the text"
            raise RecordError(
                f"expected passages one after the other, got offset {offset}, {problem}",
                code=f"passages {problem}",
            )
        if gap:
            out.append(" " * (gap - 1) + "\n")
            start += gap
        out.append(text)
        bounds.append(Sentence(start, start + len(text)))
        start += len(text)
        position = offset + width(text, unit=unit)
    return "".join(out), tuple(bounds)
