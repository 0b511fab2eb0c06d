"""Keeps the mentions of the source."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from mslm_data.annotate import Annotations
from mslm_data.data.documents import Documents
from mslm_data.registry import Options


class Gold(Options, frozen=True, kw_only=True):
    """Keep the mentions of the source, whether gold or weak."""

    weak: Annotated[
        bool, Meta(description="Whether to store concepts and confidences of mentions.")
    ] = False
    slow: ClassVar[bool] = False

    def digest(self) -> str:
        """Return "", since the digest of the source covers its mentions."""
        return ""

    def labels(self) -> tuple[str, ...]:
        """Return no labels: they are known after the source has been read."""
        return ()

    def start(self) -> Gold:
        """Return self; there is no model to load."""
        return self

    def annotate(self, documents: Documents) -> Annotations:
        """Return the documents' own mentions."""
        return Annotations(documents.mentions, documents.unplaced)
