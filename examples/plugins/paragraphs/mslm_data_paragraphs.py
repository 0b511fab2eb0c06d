"""Example of a segmenter plug-in: a row per paragraph, with an empty line between paragraphs."""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta

from mslm_data.data.documents import Documents, Ranges
from mslm_data.registry import Options
from mslm_data.segment.cover import cover, on_line

_PARAGRAPH_BREAK = re.compile(r"\n[ \t\r]*\n\s*(?=\S)")


class Paragraphs(Options, frozen=True, kw_only=True):
    """A sentence per paragraph."""

    least: Annotated[
        int,
        Meta(
            ge=1,
            description="Minimum length in characters. Shorter paragraphs are joined with the next "
            "one.",
        ),
    ] = 1

    def digest(self) -> str:
        """Return an empty digest, as there is no model."""
        return ""

    def sentences(self, documents: Documents) -> Ranges:
        """Return the paragraphs of each document as ranges of characters."""
        starts = [self._starts(text) for text, _ in documents.texts()]

        # `cover` keeps the law: all text is in a sentence, and no mention is in two.
        return cover(documents, on_line(documents, starts))

    def _starts(self, text: str) -> list[int]:
        starts = [0]
        for boundary in _PARAGRAPH_BREAK.finditer(text):
            if boundary.start() - starts[-1] >= self.least:
                starts.append(boundary.end())
        return starts
