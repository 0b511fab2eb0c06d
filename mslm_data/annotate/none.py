"""Finds no mentions, for corpora that only base-level masking is wanted on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mslm_data.annotate import Annotations
from mslm_data.data.documents import Documents, Mentions


@dataclass(frozen=True, kw_only=True)
class NoMentions:
    """Passes over the mentions that a source may have."""

    weak: ClassVar[bool] = False
    slow: ClassVar[bool] = False

    def digest(self) -> str:
        """Return "": nothing decides."""
        return ""

    def labels(self) -> tuple[str, ...]:
        """Return no label."""
        return ()

    def start(self) -> NoMentions:
        """Return itself, as there is no model to load."""
        return self

    def annotate(self, documents: Documents) -> Annotations:
        """Return no mentions."""
        return Annotations(Mentions.of([()] * len(documents), documents.starts), {})
