"""Reads BioC XML and JSON: passages, and annotations with offsets in the whole document."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated
from xml.etree.ElementTree import Element

import msgspec
from msgspec import Meta

from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.source.reading import cells, json_rows
from mslm_data.source.reading.cells import Cells, Row
from mslm_data.source.reading.elements import elements
from mslm_data.source.reading.encodings import TextSource
from mslm_data.source.reading.files import ends_with
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.shapes.options import Shape
from mslm_data.source.reading.standoff import Annotation, OffsetSource

_NO_CONCEPT = "-1"
_MOST_DIGITS = 17
_IN_HEAD = re.compile(rb"<collection>|<passage>|BioC.dtd")
_KEYS_IN_HEAD = re.compile(rb'(?<!\\)"(?:documents|PubTator3|passages|infons)"\s*:')


class BiocJson(Shape):
    """A BioC JSON document: passages with an `offset`, and annotations with locations."""

    columns = frozenset({"passages", "annotations"})
    says_none = True

    @classmethod
    def fits(cls, row: Cells) -> bool:
        passages = row.get("passages")
        return isinstance(passages, list) and any(
            isinstance(passage, Mapping) and "offset" in passage for passage in passages
        )

    def read(self, row: Cells, doc_id: str, place: str) -> Document | NotChosen:
        return _json_document(
            row, doc_id, place, options=self.file.options, label="type", concept="identifier"
        )


class BioC(OffsetSource, frozen=True, kw_only=True):
    """BioC files: XML, read as a stream, or JSON, with one collection or a list of collections.

    A file is read in one part, because neither format can be cut safely. If a folder has both
    formats, only the XML files are read, as corpora are often distributed in both.

    The text of a document is made of its passages at their offsets; gaps are filled with spaces and
    a line end. Sentences are those of a passage, or else the passage. Relations are ignored.
    Documents that violate BioC are set aside. A malformed file is an error, as the number of
    documents in its remainder is unknown.
    """

    suffixes = (".xml", ".bioc", ".json")

    label: Annotated[str, Meta(description="Key of the infon with an annotation's label.")] = "type"
    concept: Annotated[
        str,
        Meta(description="Key of the infon with an annotation's concept. `-1` means no concept."),
    ] = "identifier"

    def find(self, inputs: Sequence[Path]) -> Mapping[str, list[Path]]:
        """Find the files of each split. XML files in folders precede JSON; see `Source.find`."""
        by_split = super().find(inputs)
        if all(ends_with(path, ".json") for paths in by_split.values() for path in paths):
            return by_split
        without_json = {
            split: [path for path in paths if not ends_with(path, ".json") or path in inputs]
            for split, paths in by_split.items()
        }
        return {split: paths for split, paths in without_json.items() if paths}

    def read(self, part: Part) -> Iterator[Document | SetAside]:
        """Read each document; see `Source.read`."""
        path = Path(part.path)
        if ends_with(path, ".json"):
            for row in json_rows.rows_within(path, TextSource(), _documents):
                yield row if isinstance(row, SetAside) else self._of_json(row)
            return

        for line, element in elements(path, "document"):
            place = f"{path.name}:{line}"
            try:
                yield self._document(element, place)
            except RecordError as error:
                yield SetAside(_id(element), place, error.reason)

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> str:
        """Return the evidence for BioC; see `Source.recognises`."""
        if ends_with(path, ".json"):
            keys = {match[0].rstrip(b" \t\r\n:") for match in _KEYS_IN_HEAD.finditer(head)}
            is_bioc = {b'"passages"', b'"infons"'} < keys
            return "its documents have passages with infons" if is_bioc else ""
        is_bioc = len({match[0] for match in _IN_HEAD.finditer(head)}) > 1
        return "it is a collection of passages" if is_bioc else ""

    def _of_json(self, row: Row) -> Document | SetAside:
        doc_id = ""
        try:
            document = cells.mapping(row.value)
            value = document.get("id")
            doc_id = str(value).strip() if isinstance(value, str | int) else ""
            if not doc_id:
                raise RecordError("expected an id, got none")
            return _json_document(
                document, doc_id, row.place, options=self, label=self.label, concept=self.concept
            )
        except RecordError as error:
            return SetAside(doc_id, row.place, error.reason)

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
            words=annotation.findtext("text") or None,
            concept="" if concept == _NO_CONCEPT else concept,
        )


class _Collection(msgspec.Struct, rename={"pubtator": "PubTator3"}):
    """The documents of a BioC JSON collection. PubTator 3 has its own key."""

    documents: list[msgspec.Raw] | None = None
    pubtator: list[msgspec.Raw] | None = None


def _documents(data: bytes) -> Iterator[msgspec.Raw]:
    """Yield the documents of a collection, or of a list of collections.

    Raises:
        msgspec.DecodeError: The data are neither.
    """
    collections = msgspec.json.decode(data, type=_Collection | list[_Collection])
    for collection in collections if isinstance(collections, list) else [collections]:
        documents = collection.documents
        if documents is None:
            documents = collection.pubtator
        if documents is None:
            raise msgspec.ValidationError("an object without documents")
        yield from documents


def _pieces(document: Element) -> list[tuple[int, str]]:
    """Return offset and text of each sentence, or of a passage without sentences."""
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


def _number(value: object) -> int:
    """Return an offset or a length. XML and some programs write it as text."""
    if isinstance(value, str):
        digits = value.strip()
        if digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS:
            return int(digits)
    if type(value) is not int or value < 0:
        raise RecordError("expected a whole number as offset and as length, got another value")
    return value


def _json_document(
    document: Cells, doc_id: str, place: str, *, options: OffsetSource, label: str, concept: str
) -> Document:
    """Make a document from a BioC JSON document.

    Args:
        document: The JSON object.
        doc_id: Id of the document.
        place: Place of the document in the input.
        options: Options for placing mentions.
        label: Key of the infon with an annotation's label.
        concept: Key of the infon with an annotation's concept. `-1` means no concept.

    Raises:
        RecordError: The document violates BioC.
    """
    pieces: list[tuple[int, str]] = []
    annotated: list[Cells] = []
    for passage in _objects(document, "passages"):
        sentences = [
            sentence for sentence in _objects(passage, "sentences") if sentence.get("text")
        ]
        for element in sentences or [passage]:
            text = element.get("text")
            if isinstance(text, str) and text:
                pieces.append((_number(element.get("offset")), text))
        annotated += [passage, *_objects(passage, "sentences")]

    # Annotations may belong to the document, a passage or a sentence.
    mentions = [
        _json_mention(annotation, label, concept)
        for element in [*annotated, document]
        for annotation in _objects(element, "annotations")
    ]
    text, bounds, placed = options.lay_out(pieces, mentions)
    if not text:
        raise RecordError("expected passages with text, got none")
    return placed.document(doc_id, text, sentences=bounds, place=place)


def _json_mention(annotation: Cells, label: str, concept: str) -> Annotation:
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


def _objects(row: Cells, name: str) -> Iterator[Cells]:
    """Return the objects in an optional list."""
    value = row.get(name)
    return map(cells.mapping, [] if value is None else cells.objects(value))


def _text(value: object) -> str:
    return str(value).strip() if isinstance(value, str | int) else ""
