"""Segmentation: splits documents into sentences, which become rows.

A segmenter is a class of `Options`, whose fields are its options, with one method, `sentences`.
"""

from __future__ import annotations

from typing import Protocol

from mslm_data.data.documents import Documents, Ranges
from mslm_data.registry import Registry


class Segmenter(Protocol):
    """Split documents into sentences."""

    def digest(self) -> str:
        """Return a digest of the model; "" for a segmenter without model.

        It covers everything besides the options that affects the sentences.
        """
        ...

    def sentences(self, documents: Documents) -> Ranges:
        """Return the sentences of each document, sorted and non-overlapping.

        The sentences cover all characters except white space, do not cut mentions, and do not
        depend on other documents. `cover` makes such sentences from their starts.
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
)
