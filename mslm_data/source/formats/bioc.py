"""Reads BioC XML: documents of passages, with annotations at document-wide offsets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.source import Source
from mslm_data.source.reading.elements import elements
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.standoff import Annotation, OffsetOptions

_NO_CONCEPT = "-1"
_MOST_DIGITS = 17


@dataclass(frozen=True, kw_only=True)
class BioC(OffsetOptions, Source):
    """BioC XML files, each read as a stream.

    A file is one part, as XML has no places where it could be cut safely.

    The text of a document is that of its passages at their offsets; gaps are filled with spaces and
    a line end. Its sentences are the sentence elements of a passage, or else the passage itself. A
    document that breaks BioC's rules is set aside. XML that is not well-formed is an error, as the
    number of documents in the rest of the file is unknown.

    Attributes:
        label: Key of the infon that holds an annotation's label.
        concept: Key of the infon that holds its concept; `-1` stands for no concept.
    """

    suffixes = (".xml", ".bioc")

    label: str = "type"
    concept: str = "identifier"

    def read(self, part: Part) -> Iterator[Document | SetAside]:
        """Read each document; see `Source.read`."""
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
        mentions = map(self._mention, element.iter("annotation"))
        text, bounds, placed = self.lay_out(_pieces(element), mentions)
        if not text:
            raise RecordError("expected passages with text, got none")
        return placed.document(doc_id, text, sentences=bounds, place=place)

    def _mention(self, annotation: Element) -> Annotation:
        infons = {
            infon.get("key"): (infon.text or "").strip() for infon in annotation.findall("infon")
        }
        concept = infons.get(self.concept, "")

        fragments = []
        for location in annotation.findall("location"):
            start = _number(location.get("offset"))
            fragments.append((start, start + _number(location.get("length"))))

        return Annotation(
            fragments,
            label=infons.get(self.label, ""),
            words=annotation.findtext("text"),
            concept="" if concept == _NO_CONCEPT else concept,
        )


def _pieces(document: Element) -> list[tuple[int, str]]:
    """Return offset and text of each sentence, or of each passage that has none with text."""
    pieces: list[tuple[int, str]] = []
    for passage in document.iter("passage"):
        sentences = [
            sentence for sentence in passage.findall("sentence") if sentence.findtext("text")
        ]
        for element in sentences or [passage]:
            text = element.findtext("text")
            if text:
                pieces.append((_number(element.findtext("offset")), text))
    return pieces


def _id(document: Element) -> str:
    return (document.findtext("id") or "").strip()


def _number(value: str | None) -> int:
    digits = (value or "").strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS):
        raise RecordError("expected a whole number as offset and as length, got another value")
    return int(digits)
