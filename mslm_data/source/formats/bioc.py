"""Reads BioC XML and JSON: passages, and annotations with offsets in the whole document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any
from xml.etree.ElementTree import Element

import msgspec
from msgspec import Meta

from mslm_data.source import Guess, Sample
from mslm_data.source.form import (
    Findings,
    FormSource,
    JsonWithin,
    Record,
    XmlElements,
    by_suffix,
)
from mslm_data.source.reading import cells
from mslm_data.source.reading.cells import Cells
from mslm_data.source.reading.files import ends_with
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.standoff import Annotation, OffsetSource

_NO_CONCEPT = "-1"
_MOST_DIGITS = 17
_IN_HEAD = re.compile(rb"<collection>|<passage>|BioC.dtd")
_KEYS_IN_HEAD = re.compile(rb'(?<!\\)"(?:documents|PubTator3|passages|infons)"\s*:')
_CHILDREN = {
    "document": ("passage", "annotation"),
    "passage": ("sentence", "annotation"),
    "sentence": ("annotation",),
}
"""Element of XML -> its children that JSON has as a list, such as `passages`."""


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


_JSON = JsonWithin(_documents)
_XML = XmlElements("document")


class BioC(FormSource, OffsetSource, frozen=True, kw_only=True):
    """BioC files: XML, read as a stream, or JSON, with one collection or a list of collections.

    A file is read in one part, because neither format can be cut safely. A split may have files of
    one format only, as corpora are often distributed in both.

    The text of a document is made of its passages at their offsets; gaps are filled with spaces and
    a line end. Sentences are those of a passage, or else the passage. Relations are ignored.
    Documents that violate BioC are set aside. A malformed file is an error, as the number of
    documents in its remainder is unknown.
    """

    suffixes = (".xml", ".bioc", ".json")
    container = by_suffix({(".json",): _JSON}, lambda _: _XML)

    label: Annotated[str, Meta(description="Key of the infon with an annotation's label.")] = "type"
    concept: Annotated[
        str,
        Meta(description="Key of the infon with an annotation's concept. `-1` means no concept."),
    ] = "identifier"

    def sniff(self, sample: Sample) -> Guess:
        """Recognise BioC; see `Source.sniff`."""
        if ends_with(sample.path, ".json"):
            keys = {match[0].rstrip(b" \t\r\n:") for match in _KEYS_IN_HEAD.finditer(sample.head)}
            is_bioc = {b'"passages"', b'"infons"'} < keys
            return Guess("its documents have passages with infons" if is_bioc else "")
        is_bioc = len({match[0] for match in _IN_HEAD.finditer(sample.head)}) > 1
        return Guess("it is a collection of passages" if is_bioc else "")

    def understand(self, record: Record, found: Findings) -> None:
        """Read a document of XML or JSON."""
        found.id = ""
        content = record.content
        if isinstance(content, Element):
            content = _to_json(content)
        document = cells.mapping(content)
        found.id = _text(document.get("id"))
        if not found.id:
            raise RecordError("expected an id, got none")
        read_document(document, found, label=self.label, concept=self.concept)


def _to_json(element: Element) -> dict[str, Any]:
    """Convert an element of BioC XML to an object of BioC JSON."""
    value: dict[str, Any] = {"infons": {}, "locations": []}
    in_lists = _CHILDREN.get(element.tag, ())
    for child in element:
        name = child.tag
        if name == "infon":
            value["infons"][child.get("key")] = child.text
        elif name == "location":
            value["locations"].append(child.attrib)
        elif name in in_lists:
            value.setdefault(f"{name}s", []).append(_to_json(child))
        elif name in ("id", "offset", "text"):
            value.setdefault(name, child.text)
    return value


def read_document(document: Cells, found: Findings, *, label: str, concept: str) -> None:
    """Read a BioC JSON document.

    Args:
        document: The JSON object.
        found: Object to fill.
        label: Key of the infon with an annotation's label.
        concept: Key of the infon with an annotation's concept. `-1` means no concept.

    Raises:
        RecordError: The document violates BioC.
    """
    annotated: list[Cells] = []
    for passage in _objects(document, "passages"):
        sentences = list(_objects(passage, "sentences"))
        with_text = [sentence for sentence in sentences if sentence.get("text")]
        for element in with_text or [passage]:
            text = element.get("text")
            if isinstance(text, str) and text:
                found.pieces.append((_number(element.get("offset")), text))
        annotated += [passage, *sentences]

    # Annotations may belong to the document, a passage or a sentence.
    found.mentions = [
        _mention(annotation, label, concept)
        for element in [*annotated, document]
        for annotation in _objects(element, "annotations")
    ]


def _mention(annotation: Cells, label: str, concept: str) -> Annotation:
    infons = annotation.get("infons")
    values = infons if isinstance(infons, dict) else {}
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


def _number(value: object) -> int:
    """Return an offset or a length. XML and some programs write it as text."""
    if isinstance(value, str):
        digits = value.strip()
        if digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS:
            return int(digits)
    if type(value) is not int or value < 0:
        raise RecordError("expected a whole number as offset and as length, got another value")
    return value
