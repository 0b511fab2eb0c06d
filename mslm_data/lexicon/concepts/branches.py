"""Filters terms of OBO ontologies by branch, subset and namespace."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from mslm_data.errors import AnnotateError
from mslm_data.io.limits import iter_lines
from mslm_data.lexicon.concepts import obo
from mslm_data.lexicon.concepts.names import open_text

_MOST_LISTED = 12
"""How many subsets or namespaces a message lists."""

_LONGEST_LISTED = 80
"""Characters of the longest name that a message lists."""


@dataclass(frozen=True, kw_only=True)
class BranchChoice:
    """Conditions that a term must meet, all of them, to be kept.

    Each holds in the ontologies that have one of its terms, subsets or namespaces; other files are
    not touched by it. An empty set sets no condition.

    Attributes:
        under: Ids of terms. A term is kept if it is one of them, or below one by `is_a`.
        not_under: Ids of terms. A term is left out if it is one of them, or below one.
        subsets: Names of subsets (slims), of which a term is in one at least.
        namespaces: Namespaces, of which a term is in one.
    """

    under: frozenset[str] = frozenset()
    not_under: frozenset[str] = frozenset()
    subsets: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """Return whether any condition is set."""
        return any(getattr(self, one.name) for one in fields(self))


@dataclass(slots=True)
class Outline:
    """The structure of an ontology without names. Obsolete terms are only in `obsolete`.

    Attributes:
        below: Id -> ids of the terms that have it in an `is_a`.
        subsets: Id of every live term -> its subsets.
        namespaces: Id of every live term -> its namespace, "" for none.
        primary: Alternative id -> the term's own id.
        obsolete: Ids of obsolete terms.
    """

    below: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    subsets: dict[str, frozenset[str]] = field(default_factory=dict)
    namespaces: dict[str, str] = field(default_factory=dict)
    primary: dict[str, str] = field(default_factory=dict)
    obsolete: set[str] = field(default_factory=set)

    def has(self, term: str) -> bool:
        """Return whether a live term has this id, or had it before."""
        return term in self.subsets or term in self.primary

    def branch(self, roots: Iterable[str]) -> set[str]:
        """Return the given ids that exist, and the ids of all their descendants."""
        open_terms = [self.primary.get(root, root) for root in roots if self.has(root)]
        found = set(open_terms)
        while open_terms:
            for term in self.below.get(open_terms.pop(), ()):
                # A term may be reached in several ways.
                if term not in found:
                    found.add(term)
                    open_terms.append(term)
        return found


def read_outline(path: Path) -> Outline:
    """Read the hierarchy of an OBO file without names."""
    outline = Outline()
    default = ""
    with open_text(path) as file:
        for _, stanza, values in obo.stanzas(iter_lines(file, path, AnnotateError)):
            if not stanza:
                default = next((obo.bare(v) for key, v in values if key == "default-namespace"), "")
            elif stanza == "[Term]":
                _add(outline, values, default)
    return outline


def _add(outline: Outline, values: list[tuple[str, str]], default: str) -> None:
    """Add a term to an outline.

    Args:
        outline: The outline.
        values: The term's keys and values.
        default: The namespace of terms that name none.
    """
    given: defaultdict[str, list[str]] = defaultdict(list)
    for key, value in values:
        given[key].append(obo.bare(value))

    # A term without an id is refused where names are read.
    term = next(iter(given["id"]), "")
    if not term:
        return
    if "true" in given["is_obsolete"]:
        outline.obsolete.add(term)
        return

    outline.subsets[term] = frozenset(given["subset"])
    outline.namespaces[term] = next(iter(given["namespace"]), default)
    for parent in given["is_a"]:
        outline.below[parent].append(term)
    for other in given["alt_id"]:
        outline.primary.setdefault(other, term)


def refused_terms(outline: Outline, choice: BranchChoice) -> dict[str, str]:
    """Return the live terms that are filtered out, each with the reason.

    Returns:
        Id -> the first condition that the term does not meet.
    """
    limits = [term for term in choice.under if outline.has(term)]
    kept = outline.branch(limits)
    left_out = outline.branch(choice.not_under)
    has_subsets = not choice.subsets.isdisjoint(frozenset().union(*outline.subsets.values()))
    has_namespaces = not choice.namespaces.isdisjoint(outline.namespaces.values())

    refused: dict[str, str] = {}
    for term, subsets in outline.subsets.items():
        if limits and term not in kept:
            refused[term] = "not under a chosen term"
        elif term in left_out:
            refused[term] = "under a term left out"
        elif has_subsets and choice.subsets.isdisjoint(subsets):
            refused[term] = "other subset"
        elif has_namespaces and outline.namespaces[term] not in choice.namespaces:
            refused[term] = "other namespace"
    return refused


def check(choice: BranchChoice, outlines: Mapping[Path, Outline]) -> None:
    """Check that all selected ids, subsets and namespaces exist.

    Args:
        choice: What is chosen.
        outlines: Ontology -> its outline.

    Raises:
        AnnotateError: An id, a subset or a namespace is in none, or there is no ontology.
    """
    if choice and not outlines:
        raise AnnotateError(
            "--under, --not-under, --subset, --namespace: these need an OBO ontology in --from; "
            "select concepts of other files by --types and --source"
        )

    for option, terms in (("--under", choice.under), ("--not-under", choice.not_under)):
        for term in sorted(terms):
            if not any(outline.has(term) for outline in outlines.values()):
                _check_term(option, term, outlines)

    subsets = {path: set().union(*outline.subsets.values()) for path, outline in outlines.items()}
    namespaces = {path: set(outline.namespaces.values()) for path, outline in outlines.items()}
    _check_known("--subset", "a subset", choice.subsets, subsets)
    _check_known("--namespace", "a namespace", choice.namespaces, namespaces)


def _check_term(option: str, term: str, outlines: Mapping[Path, Outline]) -> None:
    """Raise the error for an id that is in no ontology."""
    for path, outline in outlines.items():
        if term in outline.obsolete:
            raise AnnotateError(
                f"{option}: the term {term} is obsolete in {path}; look there for its replacement"
            )

    look = " or ".join(f"{path} ({_examples(outline)})" for path, outline in outlines.items())
    raise AnnotateError(f"{option}: expected the id of a term of {look}, got {term!r}")


def _examples(outline: Outline) -> str:
    """Return example ids of an ontology."""
    ids = heapq.nsmallest(3, filter(_is_plain, outline.subsets))
    return f"ids look like {', '.join(ids)}" if ids else "it has no term in use"


def _check_known(
    option: str, kind: str, chosen: Collection[str], known: Mapping[Path, Collection[str]]
) -> None:
    """Check that subsets or namespaces exist in an ontology."""
    for name in sorted(chosen):
        if any(name in names for names in known.values()):
            continue

        look = " or ".join(f"{path} ({_listed(names)})" for path, names in known.items())
        raise AnnotateError(f"{option}: expected {kind} of {look}, got {name!r}")


def _is_plain(name: str) -> bool:
    """Return whether a name may be printed to a terminal."""
    return 0 < len(name) <= _LONGEST_LISTED and name.isprintable()


def _listed(names: Collection[str]) -> str:
    """Join names, truncating a long list."""
    shown = sorted(filter(_is_plain, names))
    if not shown:
        return "it has none"
    more = ["…"] if len(shown) > _MOST_LISTED else []
    return ", ".join([*shown[:_MOST_LISTED], *more])
