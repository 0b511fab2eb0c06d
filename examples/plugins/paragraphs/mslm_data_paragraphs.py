"""A segmenter for mslm-data: a row for each paragraph, which ends at an empty line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from mslm_data.data.documents import Documents, Ranges
from mslm_data.registry import Help
from mslm_data.segment.cover import cover, on_line

_NEXT = re.compile(r"\n[ \t\r]*\n\s*(?=\S)")


@dataclass(frozen=True, kw_only=True)
class Paragraphs:
    """A sentence for each paragraph."""

    least: Annotated[
        int, Help("Minimum length in characters; a shorter paragraph joins the one before.")
    ] = 1

    def digest(self) -> str:
        """Return "": there is no model."""
        return ""

    def sentences(self, documents: Documents) -> Ranges:
        """Return the paragraphs of each document."""
        starts = [self._starts(text) for text, _ in documents.texts()]
        # It keeps the law: all text is in a sentence, and no mention in two.
        return cover(documents, on_line(documents, starts))

    def _starts(self, text: str) -> list[int]:
        starts = [0]
        for found in _NEXT.finditer(text):
            if found.start() - starts[-1] >= self.least:
                starts.append(found.end())
        return starts
