"""Reads documents of BioC in its JSON form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mslm_data.data.document import Document, NotChosen
from mslm_data.source.reading import cells
from mslm_data.source.reading.cells import Cells
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.shapes.options import Shape
from mslm_data.source.reading.standoff import Annotation, OffsetOptions

_NO_CONCEPT = "-1"


class BiocJson(Shape):
    """A document of BioC JSON: passages with an `offset` each, and annotations with locations."""

    columns = frozenset({"passages", "annotations"})
    says_none = True

    @classmethod
    def fits(cls, row: Cells) -> bool:
        passages = row.get("passages")
        return isinstance(passages, list) and any(
            isinstance(passage, Mapping) and "offset" in passage for passage in passages
        )

    def read(self, row: Cells, doc_id: str, place: str) -> Document | NotChosen:
        return document_of_bioc(
            row, doc_id, place, options=self.file.options, label="type", concept="identifier"
        )


def document_of_bioc(
    document: Cells, doc_id: str, place: str, *, options: OffsetOptions, label: str, concept: str
) -> Document:
    """Make a document of one of BioC JSON.

    Args:
        document: The JSON object.
        doc_id: Its id.
        place: Its place.
        options: How mentions are placed.
        label: Key of the infon that holds an annotation's label.
        concept: Key of the infon that holds its concept; `-1` stands for no concept.

    Raises:
        RecordError: It breaks the rules of BioC.
    """
    pieces: list[tuple[int, str]] = []
    found: list[Annotation] = []
    for passage in _objects(document, "passages"):
        sentences = [one for one in _objects(passage, "sentences") if one.get("text")]
        for element in sentences or [passage]:
            text = element.get("text")
            if isinstance(text, str) and text:
                pieces.append((_number(element.get("offset")), text))
        for element in [passage, *_objects(passage, "sentences")]:
            found += [_mention(one, label, concept) for one in _objects(element, "annotations")]
    found += [_mention(one, label, concept) for one in _objects(document, "annotations")]

    text, bounds, placed = options.lay_out(pieces, found)
    if not text:
        raise RecordError("expected passages with text, got none")
    return placed.document(doc_id, text, sentences=bounds, place=place)


def _mention(annotation: Cells, label: str, concept: str) -> Annotation:
    infons = annotation.get("infons")
    values = infons if isinstance(infons, Mapping) else {}
    fragments = []
    for location in _objects(annotation, "locations"):
        start = _number(location.get("offset"))
        fragments.append((start, start + _number(location.get("length"))))
    identity = _text(values.get(concept))
    return Annotation(
        fragments,
        label=_text(values.get(label)),
        words=cells.joined(annotation.get("text")),
        concept="" if identity == _NO_CONCEPT else identity,
    )


def _objects(of: Cells, name: str) -> Iterator[Cells]:
    """Give the objects in a list that may be missing."""
    value = of.get(name)
    return map(cells.mapping, [] if value is None else cells.objects(value))


def _text(value: object) -> str:
    return str(value).strip() if isinstance(value, str | int) else ""


def _number(value: object) -> int:
    """Return an offset or a length, which some programs write as text."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 17:
        return int(value)
    if type(value) is not int or value < 0:
        raise RecordError("expected a whole number as offset and as length, got another value")
    return value
