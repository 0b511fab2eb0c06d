"""Segmenters that need no model: the source's own sentences, or whole documents."""

from __future__ import annotations

from dataclasses import dataclass

from mslm_data.data.documents import Documents, Ranges
from mslm_data.data.ragged import Ragged
from mslm_data.segment.cover import cover


@dataclass(frozen=True, kw_only=True)
class GivenSentences:
    """The sentences (or passages) that the source marks; a document without any is one sentence."""

    def digest(self) -> str:
        """Return "": the digest of the source covers its sentences."""
        return ""

    def sentences(self, documents: Documents) -> Ranges:
        """Return the source's sentences, made to hold all text and to cut no mention."""
        given = documents.sentences
        return cover(documents, Ragged(given.starts, given.offsets))


@dataclass(frozen=True, kw_only=True)
class Whole:
    """The whole document as one sentence, as Abaho et al. 2024 took MIMIC-III's records."""

    def digest(self) -> str:
        """Return "": there is nothing to decide."""
        return ""

    def sentences(self, documents: Documents) -> Ranges:
        """Return one sentence for each document, none for one without text."""
        nothing = Ranges.none(len(documents))
        return cover(documents, Ragged(nothing.starts, nothing.offsets))
