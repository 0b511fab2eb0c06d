"""Annotation: finds which characters of a document are mentions, and of what.

An annotator is a frozen dataclass whose fields are its options. `start` loads its model, once a
process, and returns an object that annotates batches of documents. One whose model takes a text at
a time returns a `OneByOne` around a function of single documents. Overlaps are resolved afterwards,
for all annotators alike, by `overlaps.flatten`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from mslm_data.data.documents import Documents, Ints, Mentions
from mslm_data.registry import Registry


class Annotated(NamedTuple):
    """The mentions that an annotator found in D documents.

    Attributes:
        mentions: Those of a document in any order. They may overlap each other, but no placeholder.
        left_out: Reason -> int64 `[D]`, mentions that the annotator found and does not give.
    """

    mentions: Mentions
    left_out: Mapping[str, Ints]


class LoadedAnnotator(Protocol):
    """An annotator with its model in memory."""

    def annotate(self, documents: Documents) -> Annotated:
        """Annotate documents; the result of one does not depend on the others.

        Raises:
            AnnotateError: Something is wrong that is not one document's fault.
        """
        ...


class Annotator(Protocol):
    """Options of an annotator."""

    weak: bool
    """Whether mentions carry concepts and confidences that belong into the shards."""

    def digest(self) -> str:
        """Return a digest of all that decides which mentions are found, but for the options.

        This is the model or the table; "" if there is neither.
        """
        ...

    def labels(self) -> tuple[str, ...]:
        """Return the labels that mentions can have; empty if only the source knows.

        Raises:
            AnnotateError: The model or table is missing or damaged.
        """
        ...

    def start(self) -> LoadedAnnotator:
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
        "none": "mslm_data.annotate.none:NoMentions",
        "terms": "mslm_data.annotate.terms.annotator:Terms",
        "medcat": "mslm_data.annotate.medcat.annotator:MedCat",
        "spacy": "mslm_data.annotate.spacy:SpacyNer",
    },
)
