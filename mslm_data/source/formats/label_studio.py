"""Reads Label Studio's exports: JSON, tasks with their annotations, and JSON-MIN."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.source import Source
from mslm_data.source.reading import json_rows
from mslm_data.source.reading.encodings import TextOptions
from mslm_data.source.reading.json_rows import JsonRow
from mslm_data.source.reading.shapes import RowFile, RowOptions, RowReader
from mslm_data.source.reading.shapes.label_studio import version_of_row
from mslm_data.source.reading.versions import Version, VersionOptions

_TASK_KEYS = [
    re.compile(rb'(?<!\\)"%s"\s*:' % key) for key in (rb"data", rb"result", rb"to_name", rb"labels")
]
_MIN_KEYS = [re.compile(rb'(?<!\\)"%s"\s*:' % key) for key in (rb"annotation_id", rb"labels")]


@dataclass(frozen=True, kw_only=True)
class LabelStudio(VersionOptions, RowOptions, TextOptions, Source):
    """Files of tasks of Label Studio, as JSON or as JSON-MIN.

    Of the annotations of a task, one is read: that marked as ground truth, or else the one that
    `of_several` says, by the time of its creation; "all" joins their mentions. Cancelled
    annotations are never read, and neither are predictions, drafts, relations and choices. A task
    without annotations is counted, and not read. `annotator` is the number, the name or the
    address in `completed_by`.

    A region with several labels is several mentions. Label Studio's offsets count UTF-16, as
    JavaScript does; `offsets = "auto"` finds that by the words that each region repeats.
    """

    suffixes = json_rows.SUFFIXES

    def read(self, part: Part) -> Iterator[Document | SetAside | NotChosen]:
        """Read each task; see `Source.read`."""
        reader = RowReader(RowFile(options=self, versions=self))
        # The file is read twice, so that only what tells its rows apart is held.
        reasons = self.chosen(_version(row) for row in json_rows.rows(part, self))
        for row, reason in zip(json_rows.rows(part, self), reasons, strict=True):
            if isinstance(row, SetAside):
                yield row
            elif reason:
                yield NotChosen(reason)
            else:
                yield reader.document(row.value, numbered=row.numbered, place=row.place)

    def columns_of(self, path: Path) -> list[str]:
        """Return the columns of a file's first row; see `Source.columns_of`."""
        return json_rows.columns_of(path)

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> str:  # noqa: ARG003 - the bytes tell
        """Return what speaks for Label Studio; see `Source.recognises`."""
        if all(key.search(head) for key in _TASK_KEYS):
            return "its tasks have data, results and to_name"
        if all(key.search(head) for key in _MIN_KEYS):
            return "its rows have an annotation_id beside lists of labels"
        return ""


def _version(row: JsonRow | SetAside) -> Version | None:
    """Return which annotation of its task a row of JSON-MIN is, None for other rows."""
    if isinstance(row, SetAside) or not isinstance(row.value, Mapping):
        return None
    return version_of_row(row.value)
