"""Annotation: which characters of a document are mentions, and of what.

An annotator is a frozen dataclass whose fields are its options. `start` loads its model, once a process; what it
returns annotates documents. Overlaps are resolved afterwards, for all annotators alike, by `resolve.flatten`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from mslm_data.data.document import Document, Span
from mslm_data.registry import Registry


class Annotated(NamedTuple):
    """What an annotator found in a document.

    Attributes:
        spans: In any order; they may overlap each other, but no placeholder.
        left_out: Reason -> mentions that the annotator found and does not give.
    """

    spans: tuple[Span, ...]
    left_out: Mapping[str, int]


class Running(Protocol):
    """An annotator with its model in memory."""

    def annotate(self, documents: Sequence[Document]) -> list[Annotated]:
        """Annotate documents; what one gives does not depend on the others.

        Raises:
            AnnotateError: Something is wrong that is not one document's fault.
        """
        ...


class Annotator(Protocol):
    """Options of an annotator."""

    weak: bool
    """Whether mentions carry concepts and confidences that belong into the shards."""

    def digest(self) -> str:
        """Return a digest of everything but the options that decides what is found: model, table; "" for nothing."""
        ...

    def start(self) -> Running:
        """Load the model.

        Raises:
            AnnotateError: It is missing, damaged, or not the one whose digest was named.
            MissingExtraError: A package is missing.
        """
        ...


ANNOTATORS = Registry(
    "annotator",
    {
        "gold": "mslm_data.annotate.gold:Gold",
        "terms": "mslm_data.annotate.terms.annotator:Terms",
        "medcat": "mslm_data.annotate.medcat.annotator:MedCat",
        "spacy": "mslm_data.annotate.spacy:SpacyNer",
    },
)
