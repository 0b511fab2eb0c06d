"""Segmentation: cuts documents into sentences, which become rows.

A segmenter is a frozen dataclass whose fields are its options, with one method, `sentences`.
"""

from __future__ import annotations

from typing import Protocol

from mslm_data.data.document import Document, Sentence
from mslm_data.registry import Registry


class Segmenter(Protocol):
    """Cuts documents into sentences."""

    def digest(self) -> str:
        """Return a digest of all that decides where sentences end, but for the options.

        This is the model; "" if there is none.
        """
        ...

    def sentences(self, document: Document) -> list[Sentence]:
        """Return the sentences of a document, sorted and not overlapping.

        Together they hold every character but white space, and no mention lies in two of them.
        """
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
