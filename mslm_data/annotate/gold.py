"""The source's own mentions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mslm_data.annotate import Annotated
from mslm_data.data.document import Document


@dataclass(frozen=True, kw_only=True)
class Gold:
    """Keeps what the source has: gold mentions, or weak ones that were made elsewhere."""

    weak: bool = False

    def digest(self) -> str:
        """Return nothing: the source's digest says it all."""
        return ""

    def start(self) -> Gold:
        """Return itself: there is no model."""
        return self

    def annotate(self, documents: Sequence[Document]) -> list[Annotated]:
        """See `Running`."""
        return [Annotated(document.spans, document.unplaced) for document in documents]
