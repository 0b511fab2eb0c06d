"""Ignores all mentions, for corpora with base-level masking only."""

from __future__ import annotations

from typing import ClassVar

from mslm_data.annotate import Annotations
from mslm_data.data.documents import Documents, Mentions
from mslm_data.registry import Options


class NoMentions(Options, frozen=True, kw_only=True):
    """Ignore the mentions of the source."""

    weak: ClassVar[bool] = False
    slow: ClassVar[bool] = False

    def digest(self) -> str:
        """Return "", since there is no model."""
        return ""

    def labels(self) -> tuple[str, ...]:
        """Return no labels."""
        return ()

    def start(self) -> NoMentions:
        """Return self; there is no model to load."""
        return self

    def annotate(self, documents: Documents) -> Annotations:
        """Return no mentions."""
        return Annotations(Mentions.from_rows([()] * len(documents), documents.starts), {})
