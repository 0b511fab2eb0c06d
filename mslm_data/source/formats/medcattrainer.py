"""Reads MedCATtrainer's exports: one JSON object of projects with their documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec

from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.registry import Help
from mslm_data.source import Source
from mslm_data.source.reading import cells, json_rows
from mslm_data.source.reading.cells import Cells
from mslm_data.source.reading.encodings import TextOptions
from mslm_data.source.reading.json_rows import JsonRow
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.shapes.mention_forms import LABELS
from mslm_data.source.reading.shapes.options import Shape
from mslm_data.source.reading.standoff import NOT_RIGHT, Annotation, OffsetOptions
from mslm_data.source.reading.versions import Version, VersionOptions

_CUI = re.compile(rb'"cui"\s*:\s*"([\x20-\x7e]*?)"')
_DIGIT = re.compile(rb"[0-9]")
_WRONG = ("deleted", "killed", "irrelevant")
_BEGINS = re.compile(rb'\s*\{\s*"projects"\s*:')


class _Project(msgspec.Struct):
    """A project, as far as it is read."""

    documents: list[msgspec.Raw]
    name: str | int = ""


class _Export(msgspec.Struct):
    """A file."""

    projects: list[_Project]


class MedcatTrainerDocument(Shape):
    """A row that is one document of an export: `text` and `annotations` with a `cui`.

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
            isinstance(one, Mapping) and "cui" in one and cells.first_filled(one, LABELS) is None
            for one in annotations
        )

    def read(self, row: Cells, doc_id: str, place: str) -> Document | NotChosen:
        options = self.file.options
        return _document(row, doc_id, place, options=options, label=options.untyped)


@dataclass(frozen=True, kw_only=True)
class MedcatTrainer(VersionOptions, OffsetOptions, TextOptions, Source):
    """Files that MedCATtrainer exports, with the texts.

    Only mentions that annotators said are right are read, by the rule of MedCAT itself: validated
    where that is said, not deleted, killed or irrelevant, and correct, of an alternative concept or
    made by hand. The others are counted. The concept of a mention is its `cui`. Meta-annotations
    and relations are left out.

    A document that stands in several projects, with the same id and text, has several annotations:
    `of_several` says which is read, in the order of the file. `annotator` is the name of a project.
    """

    suffixes = (".json",)

    label: Annotated[str, Help('Label of every mention; "cui" for its concept.')] = "Concept"

    def read(self, part: Part) -> Iterator[Document | SetAside | NotChosen]:
        """Read each document; see `Source.read`."""
        path = Path(part.path)
        projects: list[str] = []

        def documents(data: bytes) -> Iterator[msgspec.Raw]:
            for project in msgspec.json.decode(data, type=_Export).projects:
                projects.extend([str(project.name)] * len(project.documents))
                yield from project.documents

        rows = list(json_rows.rows_within(path, self, documents))
        reasons = self.chosen(
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

    def _document(self, row: JsonRow) -> Document | SetAside:
        doc_id = row.numbered
        try:
            document = cells.mapping(row.value)
            if document.get("id") is not None:
                doc_id = str(document["id"])
            return _document(document, doc_id, row.place, options=self, label=self.label)
        except RecordError as error:
            return SetAside(doc_id, row.place, error.reason)

    @classmethod
    def suggest_options(cls, path: Path, head: bytes) -> Mapping[str, Any]:  # noqa: ARG003
        """Take concepts for labels where they are words, as in de-identification; see `Source`."""
        concepts = set(_CUI.findall(head))
        are_words = not any(map(_DIGIT.search, concepts))
        return {"label": "cui"} if concepts and are_words else {}

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> str:  # noqa: ARG003 - the bytes tell
        """Return what speaks for MedCATtrainer; see `Source.recognises`."""
        is_export = _BEGINS.match(head.removeprefix(b"\xef\xbb\xbf")) and b'"documents"' in head
        return "it is one object of projects with documents" if is_export else ""


def _version(document: object, project: str) -> Version | None:
    """Return which annotation of a document this is, None for what is not a document."""
    if not isinstance(document, Mapping) or document.get("id") is None:
        return None
    of = (str(document["id"]), str(document.get("text")))
    return Version(of, annotators=frozenset({project}))


def _document(
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
    right = [one for one in annotations if _is_right(one)]
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


def _is_right(annotation: Cells) -> bool:
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
