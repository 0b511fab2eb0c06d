"""The shape of MedCATtrainer: a document with annotations of concepts."""

from __future__ import annotations

from collections.abc import Mapping

from mslm_data.source.form import Findings
from mslm_data.source.reading import cells
from mslm_data.source.reading.cells import Cells
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.shapes.base import RowsFile, Shape
from mslm_data.source.reading.standoff import NOT_RIGHT, Annotation

_WRONG = ("deleted", "killed", "irrelevant")


def _is_document(row: Cells) -> bool:
    annotations = row.get("annotations")
    if not isinstance(annotations, list) or not isinstance(row.get("text"), str):
        return False
    # In other tools, annotations may have a concept in addition to their label.
    return bool(annotations) and all(
        isinstance(annotation, Mapping)
        and "cui" in annotation
        and cells.first_filled(annotation, cells.LABELS) is None
        for annotation in annotations
    )


def read_document(row: Cells, file: RowsFile, found: Findings) -> None:
    """Read a document of an export."""
    text = row.get("text")
    if not isinstance(text, str) or not text:
        raise RecordError("expected the text of a document, got none; export it with the text")
    found.text = text
    label = file.options.label_of_concepts
    annotations = [cells.mapping(item) for item in cells.column_list(row, "annotations")]
    right = [annotation for annotation in annotations if _is_right(annotation)]
    for annotation in right:
        concept = annotation.get("cui")
        if not isinstance(concept, str) or not concept:
            raise RecordError("expected a concept in the field 'cui', got none")
        found.mentions.append(
            Annotation(
                cells.pairs([[annotation.get("start"), annotation.get("end")]]),
                label=concept if label == "cui" else label,
                words=cells.joined(annotation.get("value")),
                concept=concept,
            )
        )
    if len(right) < len(annotations):
        found.left_out[NOT_RIGHT] = len(annotations) - len(right)


def _is_right(annotation: Cells) -> bool:
    """Return whether annotators confirmed an annotation, by the flags that MedCAT reads.

    It must be looked at (`validated`), not wrong (`deleted`, `killed`, `irrelevant`), and right as
    found, right with another concept, or made by hand (`correct`, `alternative`,
    `manually_created`). A missing flag does not count against it.
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


MEDCATTRAINER = Shape(  # text, annotations [{start, end, cui, value, correct}]
    name="MedCATtrainer",
    fits=_is_document,
    read=read_document,
    texts=frozenset({"text"}),
    columns=frozenset({"annotations"}),
    in_file=("projects", "medcattrainer"),
)
