"""Places annotations that stand apart from their text, as offsets.

Pieces of text are laid out at their offsets, and every annotation is tested against the text there.
One that does not fit is counted, never moved.

Sources whose annotations have offsets derive from `OffsetOptions`, and place them by its methods.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from mslm_data.data.document import Document, Sentence, Span
from mslm_data.data.reason import Reason
from mslm_data.registry import Help
from mslm_data.source.reading.records import RecordError

Discontinuous = Literal["hull", "set_aside"]
"""Treatments of a mention in several pieces: one from its first to its last character ("hull"),
or none."""
OffsetUnit = Literal["characters", "utf-16", "bytes"]
"""Units that offsets count: characters (code points), code units of UTF-16 (Java, JavaScript), or
bytes of UTF-8."""
Ends = Literal["exclusive", "inclusive"]
"""Meanings of an annotation's end: the place after its last character ("exclusive"), or the place
of its last character ("inclusive")."""
Newlines = Literal["two", "one"]
"""Counts of CR LF: two characters, or one where texts got their CR after they were
annotated."""

MISMATCH = Reason(
    "offsets do not match the text",
    advice={
        "ends": "{set} source.ends=inclusive, source.offsets=utf-16 or bytes, or "
        "source.newlines=one, as the corpus has them"
    },
)
NO_OFFSETS = Reason("without offsets")
NO_LABEL = Reason(
    "without a label",
    advice={
        "label_feature": "name the feature that holds the label with source.label_feature",
        "label": "name what holds the label with source.label",
    },
)
ONE_END = Reason("without a beginning or an end")
OTHER_TEXT = Reason(
    "in another text of the record",
    advice={"text_column": "choose the text that is read with source.text_column"},
)
DISCONTINUOUS = Reason("discontinuous", is_rule=True)
CANCELLED = Reason("in an annotation that was cancelled", is_rule=True)
VERSIONS = Reason("in another annotation of the document", is_rule=True)
NOT_RIGHT = Reason("not marked as right", is_rule=True)
"""Reasons in `Document.unplaced`. Rules follow from an option, or from what annotators said."""

_BOM = "\ufeff"

_LEFT_OUT = re.compile(r"\s+(?:\.\.\.|\[\.\.\.\]|\u2026)\s+")
"""The marks that some sources write between the words of two fragments."""

MAX_GAP = 1 << 20
"""Characters of a document that may have no text and are filled with spaces; more means that an
offset is wrong."""


class Annotation(NamedTuple):
    """A mention as a source gives it.

    Attributes:
        fragments: Starts and ends, half open, in characters; several where the mention is
            discontinuous.
        label: Its type.
        words: Its text as the source repeats it, None where the source does not.
        concept: Its concept, "" where none is known.
    """

    fragments: Sequence[tuple[int, int]]
    label: str
    words: str | None = None
    concept: str = ""


class Placed(NamedTuple):
    """The annotations of a text after `place`.

    Attributes:
        spans: Those that fit.
        unplaced: Reason -> how many do not fit.
        adjusted: Reason -> how many of the spans differ from what the source has: hulls.
    """

    spans: tuple[Span, ...]
    unplaced: Mapping[Reason, int]
    adjusted: Mapping[str, int]

    @property
    def misfits(self) -> int:
        """Number of annotations whose words do not match the text at their offsets."""
        return self.unplaced.get(MISMATCH, 0)

    def leaving_out(self, counts: Mapping[Reason, int]) -> Placed:
        """Add the mentions that were left out before placing.

        Args:
            counts: Reason -> how many, maybe 0.
        """
        unplaced = Counter(self.unplaced) + Counter(counts)
        return self._replace(unplaced=dict(unplaced))

    def document(
        self, doc_id: str, text: str, *, sentences: tuple[Sentence, ...] | None, place: str
    ) -> Document:
        """Make the document that the annotations were placed in."""
        return Document(
            id=doc_id,
            text=text,
            spans=self.spans,
            sentences=sentences,
            unplaced=self.unplaced,
            adjusted=self.adjusted,
            place=place,
        )


class _Convention(NamedTuple):
    """The meaning of offsets; the usual convention by default."""

    unit: OffsetUnit = "characters"
    ends: Ends = "exclusive"
    newlines: Newlines = "two"

    def understand(self, text: str, annotations: Sequence[Annotation]) -> Sequence[Annotation]:
        """Return annotations with half open offsets in characters of a text."""
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
    """A text, where each of its pieces lies in it, and its annotations."""

    text: str
    bounds: tuple[Sentence, ...]
    placed: Placed


@dataclass(frozen=True, kw_only=True)
class OffsetOptions:
    """The options of every source whose annotations have offsets.

    "auto" takes, for each document, the convention under which the most annotations lie where their
    own words stand, the usual one first. A source that does not repeat an annotation's words has
    nothing to tell by; there, "auto" is the usual convention: characters, exclusive, two. In rows
    of JSON ends are inclusive where nearly all would cut a word otherwise.
    """

    offsets: Annotated[Literal["auto"] | OffsetUnit, Help("What offsets count.")] = "auto"
    ends: Annotated[Literal["auto"] | Ends, Help("What an end is.")] = "auto"
    newlines: Annotated[Literal["auto"] | Newlines, Help("What CR LF counts as.")] = "auto"
    discontinuous: Annotated[
        Discontinuous,
        Help(
            "What becomes of a mention in several pieces. Pieces with only white space between "
            "them are one."
        ),
    ] = "hull"

    def place(self, text: str, annotations: Iterable[Annotation]) -> Placed:
        """Place annotations in a text."""
        return self.lay_out([(0, text)], annotations).placed

    def place_in_file(self, text: str, annotations: Sequence[Annotation]) -> tuple[str, Placed]:
        """Place annotations in the text of a file, and return it without its byte order mark.

        Some programs count the mark as a character and some do not: the reading that places more
        annotations is taken.
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
        """Put pieces of text at their offsets, and place annotations in them.

        Args:
            pieces: As of the function `lay_out`.
            annotations: Their offsets are those of the whole document.

        Raises:
            RecordError: As from the function `lay_out`.
        """
        listed = list(annotations)
        has_words = any(annotation.words is not None for annotation in listed)

        best: LaidOut | None = None
        problem: RecordError | None = None
        for convention in self._conventions("".join(piece for _, piece in pieces)):
            try:
                text, bounds = lay_out(pieces, unit=convention.unit)
            except RecordError as error:
                problem = problem or error
                continue
            understood = convention.understand(text, listed)
            placed = place(text, understood, discontinuous=self.discontinuous)
            if best is None or placed.misfits < best.placed.misfits:
                best = LaidOut(text, bounds, placed)
            if not best.placed.misfits or not has_words:
                break
        if best is None:
            raise problem or RecordError("expected passages with text, got none")
        return best

    def _conventions(self, text: str) -> Iterator[_Convention]:
        """Give the conventions that the options allow and that differ in a text, usual first."""
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


def place(
    text: str, annotations: Iterable[Annotation], *, discontinuous: Discontinuous = "hull"
) -> Placed:
    """Turn annotations into spans of a text, and count those that do not fit.

    An annotation's own words must be those at its offsets. Only white space may differ, as formats
    of one line a mention cannot repeat a line end, and `...` may stand between the words of two
    fragments. Fragments with nothing but white space between them are one.
    """
    spans: list[Span] = []
    unplaced: Counter[Reason] = Counter()
    adjusted: Counter[str] = Counter()
    for annotation in annotations:
        fragments = sorted(annotation.fragments)
        reason = _misfit(text, fragments, annotation)
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
    """Return why an annotation does not fit its text, None where it does."""
    if not fragments:
        return NO_OFFSETS
    if not annotation.label:
        return NO_LABEL
    return None if _fits(text, fragments, annotation.words) else MISMATCH


def _fits(text: str, fragments: Sequence[tuple[int, int]], words: str | None) -> bool:
    """Return whether fragments lie in a text and hold these words, None for any."""
    if not all(0 <= start < end <= len(text) for start, end in fragments):
        return False
    # Many overlapping fragments could repeat the text without end in the join below.
    if sum(end - start for start, end in fragments) > len(text):
        return False
    if words is None:
        return True
    pieces = [text[start:end] for start, end in fragments]
    if " ".join(pieces) == words or " ".join(pieces).split() == words.split():
        return True
    repeated = _LEFT_OUT.split(words)
    return len(repeated) == len(pieces) > 1 and all(
        piece.split() == copy.split() for piece, copy in zip(pieces, repeated, strict=True)
    )


def _has_gaps(text: str, fragments: Sequence[tuple[int, int]]) -> bool:
    """Return whether anything but white space stands between fragments."""
    return any(text[left[1] : right[0]].strip() for left, right in itertools.pairwise(fragments))


def width(text: str, *, unit: OffsetUnit) -> int:
    """Return a text's length in the unit that offsets count."""
    if unit == "characters" or text.isascii():
        return len(text)
    if unit == "bytes":
        return len(text.encode())
    return len(text.encode("utf-16-le")) // 2


def in_characters(
    text: str, *, unit: OffsetUnit, newlines: Newlines = "two"
) -> Callable[[int], int]:
    """Return a function that turns an offset of a unit into one of characters.

    It gives -1 for an offset inside a character or beyond the text's end.

    Args:
        text: The text that offsets point into.
        unit: What they count.
        newlines: What CR LF counts as.
    """
    one_newline = newlines == "one" and "\r\n" in text
    if (unit == "characters" or text.isascii()) and not one_newline:
        return lambda offset: offset

    table: dict[int, int] = {}
    offset = 0
    for i, character in enumerate(text):
        if one_newline and character == "\n" and text[i - 1 : i] == "\r":
            continue  # it stands where its CR stands
        table[offset] = i
        offset += width(character, unit=unit)
    table[offset] = len(text)
    return lambda offset: table.get(offset, -1)


def lay_out(
    pieces: Sequence[tuple[int, str]], *, unit: OffsetUnit = "characters"
) -> tuple[str, tuple[Sentence, ...]]:
    """Put pieces of text at their offsets, so that document-wide offsets hold.

    The gap between two pieces is filled with spaces and one line end.

    Args:
        pieces: Offset and text of each, in any order; empty ones are ignored.
        unit: What offsets count.

    Returns:
        The text, and where each piece lies, in characters.

    Raises:
        RecordError: Two pieces overlap, or one lies far beyond the others.
    """
    out: list[str] = []
    bounds: list[Sentence] = []
    position = 0  # in the unit of the offsets
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
