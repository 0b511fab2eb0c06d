"""Reads doccano's exports: JSON lines of texts with labels or entities."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from mslm_data.source import Guess, Sample
from mslm_data.source.reading.json_sources import JsonRows
from mslm_data.source.reading.versions import UNAPPROVED

_OFFSETS = re.compile(rb'(?<!\\)"start_offset"\s*:')
_COMMENTS = re.compile(rb'(?<!\\)"(?:Comments|comments|annotation_approver)"\s*:')
_LABELS = re.compile(rb'(?<!\\)"(?:label|labels|entities|annotations)"\s*:')


class Doccano(JsonRows, frozen=True, kw_only=True):
    """Exports of doccano's sequence labelling, one document per line.

    Mentions are `[start, end, label]` in `label` or `labels`, or objects in `entities`. Relations
    and comments are ignored. doccano exports one file per annotator; pass one of them.
    """

    approved: Annotated[
        bool, Meta(description="Read only documents with an approver, in `annotation_approver`.")
    ] = False

    def why_not_chosen(self, row: object) -> str:
        """Return why a row is not read; see `JsonRows.why_not_chosen`."""
        return UNAPPROVED if self.approved and not _is_approved(row) else ""

    def sniff(self, sample: Sample) -> Guess:
        """Recognise doccano; see `Source.sniff`."""
        head = sample.head
        if _COMMENTS.search(head) and (_OFFSETS.search(head) or _LABELS.search(head)):
            return Guess("its rows have doccano's comments or approver beside labels")
        return Guess()


def _is_approved(row: object) -> bool:
    return not isinstance(row, Mapping) or bool(row.get("annotation_approver"))
