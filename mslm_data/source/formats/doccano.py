"""Reads doccano's exports: JSON lines of texts with labels or entities."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.source import Source
from mslm_data.source.reading import json_rows
from mslm_data.source.reading.encodings import TextOptions
from mslm_data.source.reading.shapes import RowFile, RowOptions, RowReader
from mslm_data.source.reading.versions import UNAPPROVED

_OFFSETS = re.compile(rb'(?<!\\)"start_offset"\s*:')
_COMMENTS = re.compile(rb'(?<!\\)"(?:Comments|comments|annotation_approver)"\s*:')
_LABELS = re.compile(rb'(?<!\\)"(?:label|labels|entities|annotations)"\s*:')


@dataclass(frozen=True, kw_only=True)
class Doccano(RowOptions, TextOptions, Source):
    """Files of doccano's sequence labelling, a document a line.

    Mentions are `[start, end, label]` in `label` or `labels`, or objects in `entities`. Relations
    and comments are left out. doccano exports a file for each annotator: pass one of them.

    Attributes:
        approved: Read only documents that name who approved them, in `annotation_approver`.
    """

    suffixes = json_rows.SUFFIXES

    approved: bool = False

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:
        """Cut a file between lines; an array is one part. See `Source.cut`."""
        return json_rows.cut(part, self, target_bytes=target_bytes)

    def read(self, part: Part) -> Iterator[Document | SetAside | NotChosen]:
        """Read each row; see `Source.read`."""
        reader = RowReader(RowFile(options=self))
        for row in json_rows.rows(part, self):
            if isinstance(row, SetAside):
                yield row
            elif self.approved and not _is_approved(row.value):
                yield NotChosen(UNAPPROVED)
            else:
                yield reader.document(row.value, numbered=row.numbered, place=row.place)

    def columns_of(self, path: Path) -> list[str]:
        """Return the columns of a file's first row; see `Source.columns_of`."""
        return json_rows.columns_of(path)

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> str:  # noqa: ARG003 - the bytes tell
        """Return what speaks for doccano; see `Source.recognises`."""
        if _COMMENTS.search(head) and (_OFFSETS.search(head) or _LABELS.search(head)):
            return "its rows have doccano's comments or approver beside labels"
        return ""


def _is_approved(row: object) -> bool:
    return not isinstance(row, Mapping) or bool(row.get("annotation_approver"))
