"""Reads UIMA CAS of Apache cTAKES: mentions of all clinical types, with their UMLS concepts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, ClassVar

from msgspec import Meta

from mslm_data.data.context import REASONS
from mslm_data.data.reason import Reason
from mslm_data.source import Guess, Sample
from mslm_data.source.formats.cas import (
    CTAKES,
    CasFiles,
    Structure,
    is_named,
    references,
    text_value,
    with_subtypes,
)
from mslm_data.source.reading.standoff import NegatedOption

_CONCEPTS = "ontologyConceptArr"
"""Feature with a mention's concepts."""
_ARRAY = "FSArray"
_NEGATED = "-1"
"""Polarity of negated mentions."""
_OTHER_TYPE = Reason(
    "of a type that is not read",
    advice={"mention_types": "add the type to source.mention_types, such as EntityMention"},
    is_rule=True,
)


class Ctakes(CasFiles, frozen=True, kw_only=True):
    """Files of Apache cTAKES, one document each: XMI as its writers make it, or JSON CAS.

    Mentions are the annotations of several types, such as `DiseaseDisorderMention`. Their label is
    the type without "Mention": `DiseaseDisorder`. Their concept is the CUI of the concepts in
    `ontologyConceptArr`; different CUIs are joined with `|`. Annotations of other types, such as
    words and modifiers, are ignored, but those with concepts are counted as left out. cTAKES often
    marks the parts of a mention too, and the longest of overlapping mentions is kept.

    A type system beside the files is only needed for subtypes of your own. Offsets count UTF-16
    code units, as in Java. Malformed files are set aside.
    """

    referenced: ClassVar[Collection[str]] = (_ARRAY, "UmlsConcept", "OntologyConcept")

    mention_types: Annotated[
        tuple[str, ...],
        Meta(min_length=1, description="Types of mentions, with or without their package."),
    ] = (
        "AnatomicalSiteMention",
        "DiseaseDisorderMention",
        "LabMention",
        "MedicationMention",
        "ProcedureMention",
        "SignSymptomMention",
    )
    label: Annotated[
        str, Meta(description="Label of all mentions. Default: their type without `Mention`.")
    ] = ""
    concept_feature: Annotated[
        str,
        Meta(
            description='Feature of concepts with their id, such as `cui` or `code`, "" for no '
            "concepts. Concepts without it have their `code`."
        ),
    ] = "cui"
    negated: NegatedOption = "keep"
    sentence_type: Annotated[str, Meta(description='Type of sentences, "" for none.')] = (
        "org.apache.ctakes.typesystem.type.textspan.Sentence"
    )

    def sniff(self, sample: Sample) -> Guess:
        """Recognise a CAS of cTAKES; see `Source.sniff`."""
        if any(mark in sample.head for mark in CTAKES):
            return Guess("it has types of org.apache.ctakes.typesystem")
        return Guess()

    def find_types(self, supertypes: Mapping[str, str]) -> Collection[str]:
        """Return the types of mentions and their subtypes; see `CasFiles.find_types`."""
        return set().union(*(with_subtypes(name, supertypes) for name in self.mention_types))

    def is_mention(self, structure: Structure, mention_types: Collection[str]) -> bool:
        """Return whether a structure is a mention or has concepts; see `CasFiles.is_mention`."""
        return self._is_chosen(structure, mention_types) or bool(references(structure, _CONCEPTS))

    def _is_chosen(self, structure: Structure, mention_types: Collection[str]) -> bool:
        names = (structure.type, structure.type.rpartition(".")[2])
        return structure.type in mention_types or any(name in self.mention_types for name in names)

    def read_mention(
        self,
        mention: Structure,
        mention_types: Collection[str],
        referenced: Mapping[str, Structure],
    ) -> tuple[str, str] | Reason:
        """Return the type and the concepts of a mention; see `CasFiles.read_mention`."""
        if not self._is_chosen(mention, mention_types):
            return _OTHER_TYPE
        if self.negated == "leave_out" and str(mention.features.get("polarity")) == _NEGATED:
            return REASONS["negated"]
        label = self.label or mention.type.rpartition(".")[2].removesuffix("Mention")
        found = (self._concept_id(concept) for concept in _concepts(mention, referenced))
        return label, "|".join(dict.fromkeys(filter(None, found)))

    def _concept_id(self, concept: Structure) -> str:
        if not self.concept_feature:
            return ""
        return text_value(concept, self.concept_feature) or text_value(concept, "code")


def _concepts(mention: Structure, referenced: Mapping[str, Structure]) -> Iterator[Structure]:
    """Yield the concepts of a mention: named by it, or by an array that it names."""
    for number in references(mention, _CONCEPTS):
        structure = referenced.get(number)
        if structure is None:
            continue
        if not is_named(structure.type, _ARRAY):
            yield structure
            continue
        elements = references(structure, "elements") or references(structure, "%ELEMENTS")
        yield from (referenced[element] for element in elements if element in referenced)
