"""Keeps the source's own mentions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from mslm_data.annotate import Annotations
from mslm_data.data.documents import Documents
from mslm_data.registry import Help


@dataclass(frozen=True, kw_only=True)
class Gold:
    """Keeps the mentions of the source: gold ones, or weak ones that were made elsewhere."""

    weak: Annotated[bool, Help("Whether mentions carry concepts and confidences.")] = False
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

    def annotate(self, documents: Documents) -> Annotations:
        """Return the mentions that the documents have."""
        return Annotations(documents.mentions, documents.unplaced)
