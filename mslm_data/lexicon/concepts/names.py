"""Concept names, as yielded by all readers, their filter and their counts."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

from msgspec import Meta

from mslm_data.registry import Options

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


class NameChoice(Options, frozen=True, kw_only=True):
    """Filter of names. `extra` says how an option is written on a command line."""

    types: Annotated[
        frozenset[str],
        Meta(
            description="Semantic types to keep; a concept needs at least one of them.",
            extra={"separator": ",", "metavar": "TUI,…", "default": "all"},
        ),
    ] = frozenset()
    language: Annotated[
        str,
        Meta(
            description="Language of UMLS names to keep; '' keeps all.", extra={"metavar": "WORD"}
        ),
    ] = "ENG"
    sources: Annotated[
        frozenset[str],
        Meta(
            description="Source vocabularies of names to keep: `SAB` of UMLS, or the column "
            "`ontologies`.",
            extra={
                "separator": ",",
                "metavar": "SAB,…",
                "default": "all",
                "flags": "--source",
            },
        ),
    ] = frozenset()
    xref: Annotated[
        str,
        Meta(
            description="Prefix of the OBO cross references to use as concept ids, such as "
            "UMLS_CUI, for terms with one.",
            extra={"metavar": "PREFIX", "default": "the terms' own ids"},
        ),
    ] = ""
    under: Annotated[
        frozenset[str],
        Meta(
            description="Term of an ontology to keep, with all terms below it by `is_a`. An "
            "ontology without any of these terms is kept whole. Can be repeated.",
            extra={"metavar": "ID", "default": "all"},
        ),
    ] = frozenset()
    not_under: Annotated[
        frozenset[str],
        Meta(
            description="Term of an ontology to leave out, with all terms below it. Can be "
            "repeated.",
            extra={"metavar": "ID", "default": "none"},
        ),
    ] = frozenset()

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
