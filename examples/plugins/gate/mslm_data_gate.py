"""Example of a source plug-in: GATE XML, with annotations that refer to nodes in the text."""

from __future__ import annotations

from typing import Annotated
from xml.etree.ElementTree import Element

from msgspec import Meta

from mslm_data.data.reason import Reason
from mslm_data.source import Guess, Sample
from mslm_data.source.form import Findings, FormSource, Record, WholeFile
from mslm_data.source.reading.elements import elements
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.standoff import Annotation, OffsetSource

OTHER_TYPE = Reason("type of annotation not in source.types", is_rule=True)
"""Reason for mentions that the option leaves out, which is not data loss."""


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
        annotations: list[Element] = []
        for _, element in elements(record.path, "TextWithNodes", "AnnotationSet"):
            if element.tag == "TextWithNodes":
                found.text = "".join(element.itertext())
            elif element.get("Name", "") == self.annotation_set:
                annotations += element.iter("Annotation")

        chosen = [item for item in annotations if item.get("Type", "") in self.types]
        found.left_out[OTHER_TYPE] += len(annotations) - len(chosen)
        found.lost = len(chosen)  # before reading offsets, which may fail
        found.mentions = [_read_annotation(item) for item in chosen]

    def sniff(self, sample: Sample) -> Guess:
        """Recognise GATE XML. Used by `--source auto`."""
        return Guess("it is a GateDocument" if b"<GateDocument" in sample.head else "")


def _read_annotation(item: Element) -> Annotation:
    try:
        start = int(item.get("StartNode", ""))
        end = int(item.get("EndNode", ""))
    except ValueError:
        raise RecordError("expected nodes with numbers, got others") from None
    return Annotation([(start, end)], label=item.get("Type", ""))
