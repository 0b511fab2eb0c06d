"""Reads Label Studio's exports: JSON, tasks with their annotations, and JSON-MIN."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mslm_data.source.reading.json_sources import JsonVersions
from mslm_data.source.reading.shapes.label_studio import version_of_row
from mslm_data.source.reading.versions import Version

_TASK_KEYS = [
    re.compile(rb'(?<!\\)"%s"\s*:' % key) for key in (rb"data", rb"result", rb"to_name", rb"labels")
]
_MIN_KEYS = [re.compile(rb'(?<!\\)"%s"\s*:' % key) for key in (rb"annotation_id", rb"labels")]


@dataclass(frozen=True, kw_only=True)
class LabelStudio(JsonVersions):
    """Files of tasks of Label Studio, as JSON or as JSON-MIN.

    Of the annotations of a task, one is read: that marked as ground truth, or else the one that
    `of_several` says, by the time of its creation; "all" joins their mentions in tasks, while of
    the rows of JSON-MIN with one id the first is read, and the others are set aside. Cancelled
    annotations are never read, and neither are predictions, drafts, relations and choices. A task
    without annotations is counted, and not read. `annotator` is the number, the name or the
    address in `completed_by`.

    A region with several labels is several mentions. Label Studio's offsets count UTF-16, as
    JavaScript does; `offsets = "auto"` finds that by the words that each region repeats.
    """

    def version_of(self, row: object, number: int) -> Version | None:  # noqa: ARG002 - unused
        """Return which annotation of its task a row of JSON-MIN is, None for other rows."""
        return version_of_row(row) if isinstance(row, Mapping) else None

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> str:  # noqa: ARG003 - the bytes tell
        """Return what speaks for Label Studio; see `Source.recognises`."""
        if all(key.search(head) for key in _TASK_KEYS):
            return "its tasks have data, results and to_name"
        if all(key.search(head) for key in _MIN_KEYS):
            return "its rows have an annotation_id beside lists of labels"
        return ""
