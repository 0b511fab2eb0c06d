"""Segmenters without a model: sentences of the source, or whole documents."""

from __future__ import annotations

from mslm_data.data.documents import Documents, Ranges
from mslm_data.data.ragged import Ragged
from mslm_data.registry import Options
from mslm_data.segment.cover import cover


class GivenSentences(Options, frozen=True, kw_only=True):
    """Keep the sentences or passages of the source; a document without any is one sentence."""

    def digest(self) -> str:
        """Return "", since the digest of the source covers its sentences."""
        return ""

    def sentences(self, documents: Documents) -> Ranges:
        """Return the sentences of the source, extended to all text, without cutting mentions."""
        sentences = documents.sentences
        return cover(documents, Ragged(sentences.starts, sentences.offsets))


class Whole(Options, frozen=True, kw_only=True):
    """Make each document one sentence, as Abaho et al. 2024 did for the notes of MIMIC-III."""

    def digest(self) -> str:
        """Return "", since there is no model."""
        return ""

    def sentences(self, documents: Documents) -> Ranges:
        """Return one sentence for each document with text."""
        nothing = Ranges.none(len(documents))
        return cover(documents, Ragged(nothing.starts, nothing.offsets))
