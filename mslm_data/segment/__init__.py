"""Segmentation: which characters of a document make one sequence.

A segmenter is a frozen dataclass whose fields are its options, with one method, `sentences`.
"""

from __future__ import annotations

from typing import Protocol

from mslm_data.data.document import Document, Sentence
from mslm_data.registry import Registry


class Segmenter(Protocol):
    """Cuts documents into sequences."""

    def digest(self) -> str:
        """Return a digest of everything but the options that decides where sentences end; "" for nothing."""
        ...

    def sentences(self, document: Document) -> list[Sentence]:
        """Return sequences, sorted, not overlapping, that together hold every character but white space."""
        ...


SEGMENTERS = Registry(
    "segmenter",
    {
        "clinical": "mslm_data.segment.clinical:Clinical",
        "presplit": "mslm_data.segment.presplit:Presplit",
        "spacy": "mslm_data.segment.spacy:SpacySentences",
        "whole": "mslm_data.segment.presplit:Whole",
    },
)
