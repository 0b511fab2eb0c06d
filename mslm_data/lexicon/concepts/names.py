"""Concept names, as yielded by all readers, their filter and their counts."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

_SNOMED_TAG = re.compile(
    r" \((?:disorder|finding|situation|function|event|procedure|substance|product|"
    r"observable entity|body structure|"
    r"morphologic abnormality|qualifier value)\)$"
)
_LETTER = re.compile("[A-Za-z]")

AMBIGUOUS = "N"
"""Status of names that always need disambiguation, as in MedCAT."""


class Name(NamedTuple):
    """A name of a concept.

    Attributes:
        concept: Id of the concept.
        name: The name, as in the file.
        status: `P` primary name, `A` alternative name, `N` name that always needs disambiguation.
        types: Ids of semantic types.
        source: Source vocabulary, "" if unknown.
    """

    concept: str
    name: str
    status: str
    types: tuple[str, ...]
    source: str


@dataclass(frozen=True, kw_only=True)
class NameChoice:
    """Filter of names.

    Attributes:
        types: Semantic types; a concept needs at least one of them. Default: all.
        language: Language of UMLS rows, such as `ENG`; "" for all.
        sources: Sources of UMLS rows (`SAB`) and in the column `ontologies`. Default: all.
        xref: Prefix of the OBO cross reference to use as concept id (`UMLS_CUI`), for terms with
            one. Default: the term's own id.
        under: Ids of OBO terms. Keep these terms and their descendants by `is_a`. An ontology
            without any of them is not filtered. Default: all.
        not_under: Ids of OBO terms. Drop these terms and their descendants.
    """

    types: frozenset[str] = frozenset()
    language: str = "ENG"
    sources: frozenset[str] = frozenset()
    xref: str = ""
    under: frozenset[str] = frozenset()
    not_under: frozenset[str] = frozenset()

    def refusal(self, name: Name) -> str | None:
        """Return the reason for dropping a cleaned name, or None."""
        if name.status == AMBIGUOUS:
            return "needs disambiguation"
        if len(_LETTER.findall(name.name)) < 2:
            return "fewer than two letters"
        if self.types and self.types.isdisjoint(name.types):
            return "other semantic type"
        if self.sources and name.source and self.sources.isdisjoint(name.source.split("|")):
            return "other source"
        return None


@dataclass(kw_only=True)
class NameTally:
    """Counts of names that are left out, and what occurs in the sources. Readers update it.

    Attributes:
        left_out: Reason -> number of names.
        occurring: Types and sources of all names, and the terms of `NameChoice` in ontologies.
    """

    left_out: Counter[str] = field(default_factory=Counter)
    occurring: set[str] = field(default_factory=set)


def clean(name: str) -> str:
    """Remove SNOMED's tag (`(disorder)`) and `|` from a name.

    MedCAT's tables separate names by `|`.
    """
    return _SNOMED_TAG.sub("", " ".join(name.replace("|", " ").split()))
