"""Example of a source plug-in: GATE XML, with annotations that refer to nodes in the text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated
from xml.etree.ElementTree import Element

from msgspec import Meta

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.data.reason import Reason
from mslm_data.source.reading.elements import MalformedError, elements
from mslm_data.source.reading.standoff import Annotation, OffsetSource


class Gate(OffsetSource, frozen=True, kw_only=True):
    """GATE XML, a document per file. Mentions are annotations of the given types.

    The text is the content of `TextWithNodes`; node ids are character offsets. Broken files are set
    aside.
    """

    suffixes = (".xml",)
    segmenter = "clinical"

    types: Annotated[
        tuple[str, ...],
        Meta(description="Annotation types to read as mentions; they are the labels."),
    ] = ("Person", "Location", "Organization")
    annotation_set: Annotated[
        str, Meta(description='Name of the annotation set; "" is GATE\'s default set.')
    ] = ""

    def read(self, part: Part) -> Iterator[Document | SetAside]:
        """Yield the document of a file, or a `SetAside` with the reason."""
        path = Path(part.path)
        doc_id = path.name.removesuffix(".gz").removesuffix(".xml")
        place = f"{path.name}:1"
        text = ""
        annotations: list[Annotation] = []
        try:
            for _, element in elements(path, "TextWithNodes", "AnnotationSet"):
                if element.tag == "TextWithNodes":
                    text = "".join(element.itertext())
                elif element.get("Name", "") == self.annotation_set:
                    annotations += self._annotations(element)
        except MalformedError as error:
            yield SetAside(doc_id, f"{path.name}:{error.line}", error.reason)
            return
        except ValueError:
            yield SetAside(doc_id, place, Reason("expected nodes with numbers, got others"))
            return

        if not text:
            yield SetAside(doc_id, place, Reason("expected a text in TextWithNodes, got none"))
            return
        yield self.place(text, annotations).document(doc_id, text, sentences=None, place=place)

    def _annotations(self, element: Element) -> Iterator[Annotation]:
        for annotation in element.iter("Annotation"):
            label = annotation.get("Type", "")
            if label in self.types:
                start, end = (
                    int(annotation.get("StartNode", "")),
                    int(annotation.get("EndNode", "")),
                )
                yield Annotation([(start, end)], label=label)

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> str:  # noqa: ARG003 - the head is enough
        """Return why a file is GATE XML, "" if it is not. Used by `--source auto`."""
        return "it is a GateDocument" if b"<GateDocument" in head else ""
