"""Example of a source plug-in: GATE XML, with annotations that refer to nodes in the text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated
from xml.etree.ElementTree import Element

from msgspec import Meta

from mslm_data.source import Guess, Sample
from mslm_data.source.form import Findings, FormSource, Record, WholeFile
from mslm_data.source.reading.elements import elements
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.standoff import Annotation, OffsetSource


class Gate(FormSource, OffsetSource, frozen=True, kw_only=True):
    """GATE XML, a document per file. Mentions are annotations of the given types.

    The text is the content of `TextWithNodes`; node ids are character offsets. Broken files are set
    aside.
    """

    suffixes = (".xml",)
    segmenter = "clinical"
    container = WholeFile()

    types: Annotated[
        tuple[str, ...],
        Meta(description="Annotation types to read as mentions; they are the labels."),
    ] = ("Person", "Location", "Organization")
    annotation_set: Annotated[
        str, Meta(description='Name of the annotation set; "" is GATE\'s default set.')
    ] = ""

    def understand(self, record: Record, found: Findings) -> None:
        """Read the text of a file, and its annotations."""
        try:
            for _, element in elements(record.path, "TextWithNodes", "AnnotationSet"):
                if element.tag == "TextWithNodes":
                    found.text = "".join(element.itertext())
                elif element.get("Name", "") == self.annotation_set:
                    found.mentions += self._annotations(element)
        except ValueError:
            raise RecordError("expected nodes with numbers, got others") from None

    def _annotations(self, element: Element) -> Iterator[Annotation]:
        for annotation in element.iter("Annotation"):
            label = annotation.get("Type", "")
            if label in self.types:
                start, end = (
                    int(annotation.get("StartNode", "")),
                    int(annotation.get("EndNode", "")),
                )
                yield Annotation([(start, end)], label=label)

    def sniff(self, sample: Sample) -> Guess:
        """Recognise GATE XML. Used by `--source auto`."""
        return Guess("it is a GateDocument" if b"<GateDocument" in sample.head else "")
