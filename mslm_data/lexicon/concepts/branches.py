"""Filter terms of OBO ontologies by branch, subset and namespace."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from mslm_data.errors import AnnotateError
from mslm_data.lexicon.concepts import obo
from mslm_data.lexicon.text_files import read_lines

_MOST_LISTED = 12
"""Maximum number of subsets or namespaces in a message."""

_LONGEST_LISTED = 80
"""Maximum length of a name in a message."""


@dataclass(frozen=True, kw_only=True)
class BranchChoice:
    """Filter of terms; all conditions must hold.

    A condition applies only to ontologies that contain one of its terms, subsets or namespaces.
    Empty sets are no condition.

    Attributes:
        under: Ids of terms. Keep these terms and their descendants by `is_a`.
        not_under: Ids of terms. Drop these terms and their descendants.
        subsets: Names of subsets (slims). Keep terms in at least one of them.
        namespaces: Namespaces. Keep terms in one of them.
    """

    under: frozenset[str] = frozenset()
    not_under: frozenset[str] = frozenset()
    subsets: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """Return whether any condition is set."""
        return any(getattr(self, condition.name) for condition in fields(self))


@dataclass(slots=True)
class Outline:
    """The structure of an ontology, without names. Obsolete terms are only in `obsolete`.

    Attributes:
        below: Id -> ids of its children by `is_a`.
        subsets: Id of each current term -> its subsets.
        namespaces: Id of each current term -> its namespace, "" for none.
        primary: Alternative id -> current id.
        obsolete: Ids of obsolete terms.
    """

    below: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    subsets: dict[str, frozenset[str]] = field(default_factory=dict)
    namespaces: dict[str, str] = field(default_factory=dict)
    primary: dict[str, str] = field(default_factory=dict)
    obsolete: set[str] = field(default_factory=set)

    def has(self, term: str) -> bool:
        """Return whether a current term has this id or alternative id."""
        return term in self.subsets or term in self.primary

    def branch(self, roots: Iterable[str]) -> set[str]:
        """Return the ids that exist, with all their descendants."""
        pending = [self.primary.get(root, root) for root in roots if self.has(root)]
        branch = set(pending)
        while pending:
            for term in self.below.get(pending.pop(), ()):
                # Terms may have several parents.
                if term not in branch:
                    branch.add(term)
                    pending.append(term)
        return branch


def read_outline(path: Path) -> Outline:
    """Read the structure of an OBO file, without names."""
    outline = Outline()
    default_namespace = ""
    for _, stanza, values in obo.stanzas(read_lines(path, AnnotateError)):
        if not stanza:
            default_namespace = next(
                (obo.strip_trailer(v) for key, v in values if key == "default-namespace"), ""
            )
        elif stanza == "[Term]":
            _add_term(outline, values, default_namespace)
    return outline


def _add_term(outline: Outline, values: list[tuple[str, str]], default_namespace: str) -> None:
    """Add a term to an outline.

    Args:
        outline: The outline.
        values: Keys and values of the term.
        default_namespace: Namespace of terms without one.
    """
    term_fields: defaultdict[str, list[str]] = defaultdict(list)
    for key, value in values:
        term_fields[key].append(obo.strip_trailer(value))

    # Terms without an id raise an error when their names are read.
    term = next(iter(term_fields["id"]), "")
    if not term:
        return
    if "true" in term_fields["is_obsolete"]:
        outline.obsolete.add(term)
        return

    outline.subsets[term] = frozenset(term_fields["subset"])
    outline.namespaces[term] = next(iter(term_fields["namespace"]), default_namespace)
    for parent in term_fields["is_a"]:
        outline.below[parent].append(term)
    for other in term_fields["alt_id"]:
        outline.primary.setdefault(other, term)


def find_skipped_terms(outline: Outline, choice: BranchChoice) -> dict[str, str]:
    """Return the current terms that are filtered out, with the reason.

    Returns:
        Id -> the first condition that the term violates.
    """
    roots = [term for term in choice.under if outline.has(term)]
    kept = outline.branch(roots)
    left_out = outline.branch(choice.not_under)
    has_subsets = not choice.subsets.isdisjoint(frozenset().union(*outline.subsets.values()))
    has_namespaces = not choice.namespaces.isdisjoint(outline.namespaces.values())

    skipped: dict[str, str] = {}
    for term, subsets in outline.subsets.items():
        if roots and term not in kept:
            skipped[term] = "not under a chosen term"
        elif term in left_out:
            skipped[term] = "under a term left out"
        elif has_subsets and choice.subsets.isdisjoint(subsets):
            skipped[term] = "other subset"
        elif has_namespaces and outline.namespaces[term] not in choice.namespaces:
            skipped[term] = "other namespace"
    return skipped


def check(choice: BranchChoice, outlines: Mapping[Path, Outline]) -> None:
    """Check that all selected ids, subsets and namespaces exist.

    Args:
        choice: The filter.
        outlines: Ontology -> its outline.

    Raises:
        AnnotateError: An id, subset or namespace is in none of them, or there is no ontology.
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
    _check_known("--subset", "subset", choice.subsets, subsets)
    _check_known("--namespace", "namespace", choice.namespaces, namespaces)


def _check_term(option: str, term: str, outlines: Mapping[Path, Outline]) -> None:
    """Raise the error for an id that is in no ontology."""
    for path, outline in outlines.items():
        if term in outline.obsolete:
            raise AnnotateError(
                f"{option}: the term {term} is obsolete in {path}; look there for its replacement"
            )

    ontologies = " or ".join(f"{path} ({_examples(outline)})" for path, outline in outlines.items())
    raise AnnotateError(f"{option}: no term {term!r} in {ontologies}")


def _examples(outline: Outline) -> str:
    """Return example ids of an ontology."""
    ids = heapq.nsmallest(3, filter(_is_plain, outline.subsets))
    return f"ids look like {', '.join(ids)}" if ids else "it has no term in use"


def _check_known(
    option: str, kind: str, selected: Collection[str], known_names: Mapping[Path, Collection[str]]
) -> None:
    """Check that subsets or namespaces exist in an ontology."""
    for name in sorted(selected):
        if any(name in names for names in known_names.values()):
            continue

        ontologies = " or ".join(
            f"{path} ({_list_names(names)})" for path, names in known_names.items()
        )
        raise AnnotateError(f"{option}: no {kind} {name!r} in {ontologies}")


def _is_plain(name: str) -> bool:
    """Return whether a name is safe to print."""
    return 0 < len(name) <= _LONGEST_LISTED and name.isprintable()


def _list_names(names: Collection[str]) -> str:
    """Join names; long lists are truncated."""
    shown = sorted(filter(_is_plain, names))
    if not shown:
        return "it has none"
    more = ["…"] if len(shown) > _MOST_LISTED else []
    return ", ".join([*shown[:_MOST_LISTED], *more])
