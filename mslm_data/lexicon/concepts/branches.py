"""Filter terms of OBO ontologies by branch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mslm_data.errors import AnnotateError
from mslm_data.lexicon.concepts import obo
from mslm_data.lexicon.text_files import read_lines


@dataclass(frozen=True, kw_only=True)
class BranchChoice:
    """Filter of terms. An ontology without any of these terms is not filtered.

    Attributes:
        under: Ids of terms. Keep these terms and their descendants by `is_a`. Default: all.
        not_under: Ids of terms. Drop these terms and their descendants.
    """

    under: frozenset[str] = frozenset()
    not_under: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """Return whether any term is named."""
        return bool(self.under or self.not_under)


@dataclass(slots=True)
class Outline:
    """The structure of an ontology, without names. Obsolete terms are only in `obsolete`.

    Attributes:
        below: Id -> ids of its children by `is_a`.
        current: Ids of current terms.
        primary: Alternative id -> current id.
        obsolete: Ids of obsolete terms.
    """

    below: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    current: set[str] = field(default_factory=set)
    primary: dict[str, str] = field(default_factory=dict)
    obsolete: set[str] = field(default_factory=set)

    def has(self, term: str) -> bool:
        """Return whether a current term has this id or alternative id."""
        return term in self.current or term in self.primary

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
    for _, stanza, values in obo.stanzas(read_lines(path, AnnotateError)):
        if stanza != "[Term]":
            continue

        term_fields: defaultdict[str, list[str]] = defaultdict(list)
        for key, value in values:
            term_fields[key].append(obo.strip_trailer(value))

        # Terms without an id raise an error when their names are read.
        term = next(iter(term_fields["id"]), "")
        if "true" in term_fields["is_obsolete"]:
            outline.obsolete.add(term)
        elif term:
            outline.current.add(term)
            for parent in term_fields["is_a"]:
                outline.below[parent].append(term)
            for other in term_fields["alt_id"]:
                outline.primary.setdefault(other, term)
    return outline


def find_skipped_terms(outline: Outline, choice: BranchChoice) -> dict[str, str]:
    """Return the current terms that are filtered out, with the reason."""
    skipped: dict[str, str] = {}
    if any(map(outline.has, choice.under)):
        others = outline.current - outline.branch(choice.under)
        skipped |= dict.fromkeys(others, "not under a chosen term")
    for term in outline.branch(choice.not_under):
        skipped.setdefault(term, "under a term left out")
    return skipped


def check(choice: BranchChoice, outlines: Mapping[Path, Outline]) -> None:
    """Check that all chosen terms exist.

    Args:
        choice: The filter.
        outlines: Ontology -> its outline.

    Raises:
        AnnotateError: A term is in no ontology, or there is no ontology.
    """
    if choice and not outlines:
        raise AnnotateError(
            "--under, --not-under: these need an OBO ontology in --from; select concepts of other "
            "files by --types and --source"
        )

    for option, terms in (("--under", choice.under), ("--not-under", choice.not_under)):
        for term in sorted(terms):
            if any(outline.has(term) for outline in outlines.values()):
                continue
            files = " or ".join(map(str, outlines))
            if any(term in outline.obsolete for outline in outlines.values()):
                raise AnnotateError(
                    f"{option}: the term {term} is obsolete in {files}; look there for its "
                    "replacement"
                )
            raise AnnotateError(f"{option}: no term {term!r} in {files}; expected an id of theirs")
