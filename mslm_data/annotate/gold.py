"""Keeps the source's own mentions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mslm_data.annotate import Annotated
from mslm_data.data.documents import Documents


@dataclass(frozen=True, kw_only=True)
class Gold:
    """Keeps the mentions of the source: gold ones, or weak ones that were made elsewhere.

    Attributes:
        weak: Whether mentions carry concepts and confidences.
    """

    weak: bool = False
    slow: ClassVar[bool] = False

    def digest(self) -> str:
        """Return "": the digest of the source covers its mentions."""
        return ""

    def labels(self) -> tuple[str, ...]:
        """Return no label: they are known when the source has been read."""
        return ()

    def start(self) -> Gold:
        """Return itself, as there is no model to load."""
        return self

    def annotate(self, documents: Documents) -> Annotated:
        """Return the mentions that the documents have."""
        return Annotated(documents.mentions, documents.unplaced)
