"""Annotation: finds and labels mentions in documents.

An annotator is a class of `Options`, with a field for each. `start` loads the model, once per
process, and returns an object that annotates batches of documents. For a model of single texts,
this object is a `CachedAnnotator`. Afterwards, `overlaps.flatten` resolves overlaps for all
annotators.

Annotators with torch models are in the room `torch`. The registry has their names, and imports them
when they are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol

from mslm_data.data.documents import Documents, Ints, Mentions
from mslm_data.data.reason import Reason
from mslm_data.registry import Registry


class FoundBy(NamedTuple):
    """A label and the annotators that found a mention.

    Attributes:
        label: Label of the mention.
        by: Sorted names of the annotators.
    """

    label: str
    by: tuple[str, ...]


class Annotations(NamedTuple):
    """The mentions found in D documents.

    Attributes:
        mentions: Mentions of each document, in any order. They may overlap each other, but not a
            placeholder.
        left_out: Reason -> int64 `[D]`, number of mentions that were found and left out.
        found_by: Label and annotators -> number of mentions, for an ensemble. Default: empty.
    """

    mentions: Mentions
    left_out: Mapping[Reason, Ints]
    found_by: Mapping[FoundBy, int] = MappingProxyType({})


class LoadedAnnotator(Protocol):
    """An annotator with its model in memory."""

    def annotate(self, documents: Documents) -> Annotations:
        """Annotate documents. The mentions of a document do not depend on the other documents.

        Raises:
            AnnotateError: The annotation failed, for any document.
        """
        ...


class Annotator(Protocol):
    """Options of an annotator. `start` loads it."""

    weak: bool
    """Whether to store concepts and confidences of mentions in the shards."""

    @property
    def slow(self) -> bool:
        """Whether the annotator processes only kilobytes per second. Work units are then small."""
        ...

    def digest(self) -> str:
        """Return a digest of the model or table; "" if there is none.

        It covers everything besides the options that affects the mentions.
        """
        ...

    def labels(self) -> tuple[str, ...]:
        """Return the possible labels of mentions; empty if they depend on the source.

        Raises:
            AnnotateError: The model or table is missing or damaged.
        """
        ...

    def start(self) -> LoadedAnnotator:
        """Load the model.

        Raises:
            AnnotateError: The model is missing or damaged, or has another digest than requested.
            MissingExtraError: A package is not installed.
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
        "model": "mslm_data.torch.predict.model_ner:ModelNer",
        "ensemble": "mslm_data.annotate.ensemble:Ensemble",
    },
    plugins="mslm_data.annotators",
)
