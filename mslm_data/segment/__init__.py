"""Segmentation: splits documents into sentences, which become rows.

A segmenter is a frozen dataclass whose fields are its options, with one method, `sentences`.
"""

from __future__ import annotations

from typing import Protocol

from mslm_data.data.documents import Documents, Ranges
from mslm_data.registry import Registry


class Segmenter(Protocol):
    """Split documents into sentences."""

    def digest(self) -> str:
        """Return a digest of everything beside the options that decides where sentences end.

        This is the model; "" if there is none.
        """
        ...

    def sentences(self, documents: Documents) -> Ranges:
        """Return the sentences of each document, sorted and not overlapping.

        Those of a document hold every character of it but white space, and no mention lies in two
        of them. They do not depend on the other documents.
        """
        ...


SEGMENTERS = Registry(
    "segmenter",
    {
        "clinical": "mslm_data.segment.clinical:Clinical",
        "given": "mslm_data.segment.given:GivenSentences",
        "spacy": "mslm_data.segment.spacy:SpacySentences",
        "whole": "mslm_data.segment.given:Whole",
    },
    plugins="mslm_data.segmenters",
    has=("digest", "sentences"),
)
