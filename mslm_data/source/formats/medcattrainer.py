"""Reads exports of MedCATtrainer: a JSON object of projects with their documents."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from mslm_data.data.document import Part, SetAside
from mslm_data.source import Guess, Sample
from mslm_data.source.form import Container, JsonWithin, Record
from mslm_data.source.formats.row_sources import RowSource
from mslm_data.source.reading.cells import Cells
from mslm_data.source.reading.encodings import TextReading
from mslm_data.source.reading.shapes.medcattrainer import MEDCATTRAINER
from mslm_data.source.reading.versions import Version

_CUI = re.compile(rb'"cui"\s*:\s*"([\x20-\x7e]*?)"')
_DIGIT = re.compile(rb"[0-9]")
_BEGINS = re.compile(rb'\s*\{\s*"projects"\s*:')
_PROJECT = "project_name"
"""Column with the name of a document's project."""


class _Project(msgspec.Struct):
    """A project, with the fields that are read."""

    documents: list[msgspec.Raw]
    name: str | int = ""


class _Export(msgspec.Struct):
    """An export."""

    projects: list[_Project]


class _Documents(Container[TextReading]):
    """A record for each document of an export, with the name of its project."""

    def records(self, options: TextReading, part: Part, /) -> Iterator[Record | SetAside]:
        # `documents` fills in the project of each document, in parallel.
        projects: list[str] = []

        def documents(data: bytes) -> Iterator[msgspec.Raw]:
            for project in msgspec.json.decode(data, type=_Export).projects:
                projects.extend([str(project.name)] * len(project.documents))
                yield from project.documents

        records = JsonWithin(documents).records(options, part)
        for record, project in zip(records, projects, strict=True):
            if isinstance(record, Record) and isinstance(record.content, Mapping):
                yield record._replace(content={**record.content, _PROJECT: project})
            else:
                yield record


def _version(row: Cells, _: int) -> Version | None:
    """Return the key and project of a document, None for a document without an id."""
    if row.get("id") is None:
        return None
    key = (str(row["id"]), str(row.get("text")))
    return Version(key, annotators=frozenset({row[_PROJECT]}))


class MedcatTrainer(RowSource, frozen=True, kw_only=True):
    """Exports of MedCATtrainer that include the texts.

    Only mentions confirmed by annotators are read, by MedCAT's own rule: validated; not deleted,
    killed or irrelevant; and correct, alternative or manually created. Other mentions are counted.
    A mention's concept is its `cui`. Meta-annotations and relations are ignored.

    A document in several projects, with the same id and text, has several annotations; `of_several`
    selects by the order of the file. `annotator` is the name of a project.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".json",)
    by_content: ClassVar[bool] = False
    container = _Documents()
    name = "medcattrainer"
    shapes = (replace(MEDCATTRAINER, fits=lambda _: True, version=_version),)

    label: Annotated[
        str, Meta(description='Label of all mentions. "cui" uses the concept of each mention.')
    ] = "Concept"

    @property
    def label_of_concepts(self) -> str:
        """Label of all mentions."""
        return self.label

    def disowns(self, path: Path) -> str:  # noqa: ARG002 - an export has no rows of its own
        """Return ""; see `Source.disowns`."""
        return ""

    def sniff(self, sample: Sample) -> Guess:
        """Recognise MedCATtrainer; see `Source.sniff`. Concepts that are words become labels."""
        head = sample.head.removeprefix(BOM_UTF8)
        if not _BEGINS.match(head) or b'"documents"' not in head:
            return Guess()
        concepts = set(_CUI.findall(head))
        are_words = not any(map(_DIGIT.search, concepts))
        options = {"label": "cui"} if concepts and are_words else {}
        return Guess("it is one object of projects with documents", options)
