"""BioC XML: a collection of documents of passages (of sentences) with annotations at document-wide offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree.ElementTree import Element

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.source.reading import standoff
from mslm_data.source.reading.elements import elements
from mslm_data.source.reading.inputs import SingleFile, by_split
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.standoff import Discontinuous, Mention, OffsetUnit

SUFFIXES = (".xml", ".bioc")


@dataclass(frozen=True, kw_only=True)
class BioC(SingleFile):
    """BioC XML files, each read as a stream: one file is one part.

    The text is that of the passages at their offsets, gaps filled with spaces and a line end. Sentences are the
    sentence elements where a passage has them, else the passages. A document that breaks BioC's rules is set aside.
    XML that is not well-formed is an error, as nobody can say how many documents the rest of the file had.

    Attributes:
        label: Key of the infon that holds an annotation's label.
        concept: Key of the infon that holds its concept; `-1` stands for none.
        offsets: What offsets count; BioC's own text leaves bytes and characters open.
        discontinuous: What becomes of an annotation with several locations.
        splits: Split -> patterns of file names, see `inputs.by_split`.
    """

    label: str = "type"
    concept: str = "identifier"
    offsets: OffsetUnit = "characters"
    discontinuous: Discontinuous = "hull"
    splits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def find(self, inputs: Sequence[Path]) -> Mapping[str, list[Path]]:
        """Return split -> files; see `Source.find`."""
        return by_split(inputs, suffixes=SUFFIXES, splits=self.splits)

    def cut(self, path: Path, *, target_bytes: int) -> Iterator[Part]:  # noqa: ARG002 -- XML has no safe places to cut
        """Give the whole file as one part; see `Source.cut`."""
        yield Part(str(path))

    def read(self, part: Part) -> Iterator[Document | SetAside]:
        """Give each document; see `Source.read`."""
        path = Path(part.path)
        for line, element in elements(path, "document"):
            place = f"{path.name}:{line}"
            try:
                yield self._document(element, place)
            except RecordError as error:
                yield SetAside(_id(element), place, str(error))

    def _document(self, element: Element, place: str) -> Document:
        doc_id = _id(element)
        if not doc_id:
            raise RecordError("expected an id, got none")
        text, bounds = standoff.lay_out(_pieces(element), unit=self.offsets)
        if not text:
            raise RecordError("expected passages with text, got none")
        at = standoff.in_characters(text, unit=self.offsets)
        mentions = [self._mention(annotation, at) for annotation in element.iter("annotation")]
        placed = standoff.place(text, mentions, discontinuous=self.discontinuous)
        return placed.document(doc_id, text, sentences=bounds, place=place)

    def _mention(self, annotation: Element, at: Callable[[int], int]) -> Mention:
        infons = {
            infon.get("key"): (infon.text or "").strip() for infon in annotation.findall("infon")
        }
        fragments = []
        for location in annotation.findall("location"):
            offset = _number(location.get("offset"))
            fragments.append((at(offset), at(offset + _number(location.get("length")))))
        concept = infons.get(self.concept, "")
        label = infons.get(self.label, "")
        return Mention(
            fragments, label, annotation.findtext("text"), "" if concept == "-1" else concept
        )


def _pieces(document: Element) -> list[tuple[int, str]]:
    """Return offset and text of each sentence, or of each passage that has no sentences."""
    pieces: list[tuple[int, str]] = []
    for passage in document.iter("passage"):
        sentences = [
            sentence for sentence in passage.findall("sentence") if sentence.findtext("text")
        ]
        texts = [(element, element.findtext("text")) for element in sentences or [passage]]
        pieces += [(_number(element.findtext("offset")), text) for element, text in texts if text]
    return pieces


def _id(document: Element) -> str:
    return (document.findtext("id") or "").strip()


def _number(value: str | None) -> int:
    digits = (value or "").strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) < 18):
        raise RecordError("expected a whole number as offset and as length, got another value")
    return int(digits)
