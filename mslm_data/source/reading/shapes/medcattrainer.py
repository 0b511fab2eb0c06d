"""Reads MedCATtrainer's documents, whose annotations say by flags whether they are right."""

from __future__ import annotations

from collections.abc import Mapping

from mslm_data.data.document import Document, NotChosen
from mslm_data.source.reading import cells
from mslm_data.source.reading.cells import Cells
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.shapes.mention_forms import LABELS
from mslm_data.source.reading.shapes.options import Shape
from mslm_data.source.reading.standoff import NOT_RIGHT, Annotation, OffsetOptions

_WRONG = ("deleted", "killed", "irrelevant")


class MedcatTrainerDocument(Shape):
    """A document of an export of MedCATtrainer: `text` and `annotations` with a `cui`.

    Its mentions get the label `untyped`, or their concept where that option is "cui".
    """

    columns = frozenset({"text", "annotations"})
    says_none = True

    @classmethod
    def fits(cls, row: Cells) -> bool:
        annotations = row.get("annotations")
        if not isinstance(annotations, list) or not isinstance(row.get("text"), str):
            return False
        # Of other tools an annotation may have a concept beside its label.
        return bool(annotations) and all(
            isinstance(one, Mapping) and "cui" in one and cells.first_of(one, LABELS) is None
            for one in annotations
        )

    def read(self, row: Cells, doc_id: str, place: str) -> Document | NotChosen:
        options = self.file.options
        return document_of_medcattrainer(row, doc_id, place, options=options, label=options.untyped)


def document_of_medcattrainer(
    row: Cells, doc_id: str, place: str, *, options: OffsetOptions, label: str
) -> Document:
    """Make a document of one of an export.

    Args:
        row: The JSON object.
        doc_id: Its id.
        place: Its place.
        options: How mentions are placed.
        label: Label of each mention; "cui" for its concept.

    Raises:
        RecordError: It has no text, or an annotation has no offsets or no concept.
    """
    text = row.get("text")
    if not isinstance(text, str) or not text:
        raise RecordError("expected the text of a document, got none; export it with the text")
    annotations = [cells.mapping(one) for one in cells.column_list(row, "annotations")]
    right = [one for one in annotations if is_right(one)]
    found = []
    for one in right:
        concept = one.get("cui")
        if not isinstance(concept, str) or not concept:
            raise RecordError("expected a concept in the field 'cui', got none")
        found.append(
            Annotation(
                cells.pairs([[one.get("start"), one.get("end")]]),
                label=concept if label == "cui" else label,
                words=cells.joined(one.get("value")),
                concept=concept,
            )
        )

    left_out = {NOT_RIGHT: len(annotations) - len(right)}
    placed = options.place(text, found).leaving_out(left_out)
    return placed.document(doc_id, text, sentences=None, place=place)


def is_right(annotation: Cells) -> bool:
    """Return whether annotators say that an annotation is right, by the flags that MedCAT reads.

    It was looked at (`validated`), nobody called it wrong (`deleted`, `killed`, `irrelevant`), and
    it is right as it was found, or with another concept, or was made by hand (`correct`,
    `alternative`, `manually_created`). A flag that is missing says nothing against it.
    """
    if annotation.get("validated", True) is False:
        return False
    if any(annotation.get(flag) for flag in _WRONG):
        return False
    return bool(
        annotation.get("correct", True)
        or annotation.get("alternative")
        or annotation.get("manually_created")
    )
