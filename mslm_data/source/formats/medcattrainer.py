"""Reads exports of MedCATtrainer: a JSON object of projects with their documents."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.source import Guess, Sample
from mslm_data.source.reading import cells, json_rows
from mslm_data.source.reading.cells import Cells, Row
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.shapes.mention_forms import LABELS
from mslm_data.source.reading.shapes.options import Shape
from mslm_data.source.reading.standoff import NOT_RIGHT, Annotation, OffsetSource, OffsetTextSource
from mslm_data.source.reading.versions import (
    AnnotatorOption,
    SeveralOption,
    Version,
    VersionOptions,
)

_CUI = re.compile(rb'"cui"\s*:\s*"([\x20-\x7e]*?)"')
_DIGIT = re.compile(rb"[0-9]")
_WRONG = ("deleted", "killed", "irrelevant")
_BEGINS = re.compile(rb'\s*\{\s*"projects"\s*:')


class _Project(msgspec.Struct):
    """A project, with the fields that are read."""

    documents: list[msgspec.Raw]
    name: str | int = ""


class _Export(msgspec.Struct):
    """An export."""

    projects: list[_Project]


class MedcatTrainerDocument(Shape):
    """A row that is a single document of an export: `text`, and `annotations` with a `cui`.

    The label of its mentions is `untyped`, or their concept if `untyped` is "cui".
    """

    columns = frozenset({"text", "annotations"})
    says_none = True

    @classmethod
    def fits(cls, row: Cells) -> bool:
        annotations = row.get("annotations")
        if not isinstance(annotations, list) or not isinstance(row.get("text"), str):
            return False
        # In other tools, annotations may have a concept in addition to their label.
        return bool(annotations) and all(
            isinstance(annotation, Mapping)
            and "cui" in annotation
            and cells.first_filled(annotation, LABELS) is None
            for annotation in annotations
        )

    def read(self, row: Cells, doc_id: str, place: str) -> Document | NotChosen:
        options = self.file.options
        return _document(row, doc_id, place, options=options, label=options.untyped)


class MedcatTrainer(OffsetTextSource, frozen=True, kw_only=True):
    """Exports of MedCATtrainer that include the texts.

    Only mentions confirmed by annotators are read, by MedCAT's own rule: validated; not deleted,
    killed or irrelevant; and correct, alternative or manually created. Other mentions are counted.
    A mention's concept is its `cui`. Meta-annotations and relations are ignored.

    A document in several projects, with the same id and text, has several annotations; `of_several`
    selects by the order of the file. `annotator` is the name of a project.
    """

    suffixes = (".json",)

    label: Annotated[
        str, Meta(description='Label of all mentions. "cui" uses the concept of each mention.')
    ] = "Concept"
    annotator: AnnotatorOption = ""
    of_several: SeveralOption = "last"

    def read(self, part: Part) -> Iterator[Document | SetAside | NotChosen]:
        """Read each document; see `Source.read`."""
        path = Path(part.path)

        # `documents` fills in the project of each row, in parallel.
        projects: list[str] = []

        def documents(data: bytes) -> Iterator[msgspec.Raw]:
            for project in msgspec.json.decode(data, type=_Export).projects:
                projects.extend([str(project.name)] * len(project.documents))
                yield from project.documents

        rows = list(json_rows.rows_within(path, self, documents))
        versions = VersionOptions(annotator=self.annotator, of_several=self.of_several)
        reasons = versions.chosen(
            None if isinstance(row, SetAside) else _version(row.value, project)
            for row, project in zip(rows, projects, strict=True)
        )
        for row, reason in zip(rows, reasons, strict=True):
            if isinstance(row, SetAside):
                yield row
            elif reason:
                yield NotChosen(reason)
            else:
                yield self._document(row)

    def _document(self, row: Row) -> Document | SetAside:
        doc_id = row.numbered
        try:
            document = cells.mapping(row.value)
            if document.get("id") is not None:
                doc_id = str(document["id"])
            return _document(document, doc_id, row.place, options=self, label=self.label)
        except RecordError as error:
            return SetAside(doc_id, row.place, error.reason)

    def sniff(self, sample: Sample) -> Guess:
        """Recognise MedCATtrainer; see `Source.sniff`. Concepts that are words become labels."""
        head = sample.head.removeprefix(BOM_UTF8)
        if not _BEGINS.match(head) or b'"documents"' not in head:
            return Guess()
        concepts = set(_CUI.findall(head))
        are_words = not any(map(_DIGIT.search, concepts))
        options = {"label": "cui"} if concepts and are_words else {}
        return Guess("it is one object of projects with documents", options)


def _version(document: object, project: str) -> Version | None:
    """Return the key and project of a document, None if the value is not a document."""
    if not isinstance(document, Mapping) or document.get("id") is None:
        return None
    key = (str(document["id"]), str(document.get("text")))
    return Version(key, annotators=frozenset({project}))


def _document(
    row: Cells, doc_id: str, place: str, *, options: OffsetSource, label: str
) -> Document:
    """Make a document from a document of an export.

    Args:
        row: The JSON object.
        doc_id: Id of the document.
        place: Place of the document in the input.
        options: Options for placing mentions.
        label: Label of all mentions; "cui" uses the concept of each mention.

    Raises:
        RecordError: The document has no text, or an annotation has no offsets or no concept.
    """
    text = row.get("text")
    if not isinstance(text, str) or not text:
        raise RecordError("expected the text of a document, got none; export it with the text")
    annotations = [cells.mapping(item) for item in cells.column_list(row, "annotations")]
    right = [annotation for annotation in annotations if _is_right(annotation)]
    mentions = []
    for annotation in right:
        concept = annotation.get("cui")
        if not isinstance(concept, str) or not concept:
            raise RecordError("expected a concept in the field 'cui', got none")
        mentions.append(
            Annotation(
                cells.pairs([[annotation.get("start"), annotation.get("end")]]),
                label=concept if label == "cui" else label,
                words=cells.joined(annotation.get("value")),
                concept=concept,
            )
        )

    left_out = {NOT_RIGHT: len(annotations) - len(right)}
    placed = options.place(text, mentions).leaving_out(left_out)
    return placed.document(doc_id, text, sentences=None, place=place)


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
