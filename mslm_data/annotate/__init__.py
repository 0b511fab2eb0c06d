"""Annotation: finds mentions in documents and labels them.

An annotator is a frozen dataclass whose fields are its options. `start` loads its model, once a
process, and returns an object that annotates batches of documents. If the model takes one text at a
time, this object is a `CachedAnnotator`. Overlaps are resolved afterwards, for all annotators
alike, by `overlaps.flatten`.

Annotators that run models of torch stand in the room `torch`, as they need its modules and those of
`encode`. This room does not import them: the registry names them, and loads them when they are
used.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol

from mslm_data.data.documents import Documents, Ints, Mentions
from mslm_data.data.reason import Reason
from mslm_data.registry import Registry


class FoundBy(NamedTuple):
    """A label and the annotators that found a mention of it.

    Attributes:
        label: The label.
        by: The names of the annotators, sorted.
    """

    label: str
    by: tuple[str, ...]


class Annotations(NamedTuple):
    """The mentions found in D documents.

    Attributes:
        mentions: Those of a document in any order. They may overlap each other, but no placeholder.
        left_out: Reason -> int64 `[D]`, mentions that the annotator found and does not give.
        found_by: Number of mentions that the same ones of several annotators found, before any were
            left out; empty if there is one annotator.
    """

    mentions: Mentions
    left_out: Mapping[Reason, Ints]
    found_by: Mapping[FoundBy, int] = MappingProxyType({})


class LoadedAnnotator(Protocol):
    """An annotator with its model in memory."""

    def annotate(self, documents: Documents) -> Annotations:
        """Annotate documents, each independently of the others.

        Raises:
            AnnotateError: Something is wrong that is not one document's fault.
        """
        ...


class Annotator(Protocol):
    """Options of an annotator; `start` loads it."""

    weak: bool
    """Whether mentions carry concepts and confidences that belong into the shards."""

    @property
    def slow(self) -> bool:
        """Whether the annotator reads only kilobytes per second; work units are then small."""
        ...

    def digest(self) -> str:
        """Return a digest of everything beside the options that decides which mentions are found.

        This is the model or the table; "" if there is neither.
        """
        ...

    def labels(self) -> tuple[str, ...]:
        """Return the possible labels of mentions; empty if only the source knows them.

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
        "model": "mslm_data.torch.predict.model_ner:ModelNer",
        "ensemble": "mslm_data.annotate.ensemble:Ensemble",
    },
    plugins="mslm_data.annotators",
    has=("digest", "labels", "start"),
)
