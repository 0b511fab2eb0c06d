"""Segmenters that need no model: the source's own sentences, or whole documents."""

from __future__ import annotations

from dataclasses import dataclass

from mslm_data.data.document import Document, Sentence
from mslm_data.segment.cover import cover


@dataclass(frozen=True, kw_only=True)
class Presplit:
    """The sentences (or passages) that the source marks; a document without any is one sentence."""

    def digest(self) -> str:
        """Return "": the digest of the source covers its sentences."""
        return ""

    def sentences(self, document: Document) -> list[Sentence]:
        """Return the source's sentences, made to hold all text and to cut no mention."""
        starts = [sentence.start for sentence in document.sentences or ()]
        return cover(document.text, starts, spans=document.spans, words=document.words)


@dataclass(frozen=True, kw_only=True)
class Whole:
    """The whole document as one sentence, as Abaho et al. 2024 took MIMIC-III's records."""

    def digest(self) -> str:
        """Return "": there is nothing to decide."""
        return ""

    def sentences(self, document: Document) -> list[Sentence]:
        """Return one sentence, or none for a document without text."""
        return cover(document.text, (), words=document.words)
