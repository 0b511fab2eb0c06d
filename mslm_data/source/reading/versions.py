"""Chooses among several annotations of a document, such as those of several annotators.

By default the last annotation counts, since a later one is mostly a correction. There is no vote,
because overlapping mentions have no majority.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from mslm_data.registry import Options

REJECTED = "rejected by the annotator"
IGNORED = "skipped by the annotator"
UNANNOTATED = "not annotated"
UNAPPROVED = "not approved"
OTHER_ANNOTATOR = "of another annotator"
OTHER_VERSION = "another annotation of a document that is read"
"""Reasons in `NotChosen`."""


class Version(NamedTuple):
    """An annotation of a document that may have several annotations.

    Attributes:
        document: Key of the document, equal for all its annotations.
        annotators: Names of the annotator. Some tools have several for one person.
        time: Time of the annotation, as text in sortable form; "" if unknown.
        is_preferred: Whether the tool marks it as the authoritative annotation.
    """

    document: Hashable
    annotators: frozenset[str] = frozenset()
    time: str = ""
    is_preferred: bool = False


AnnotatorOption = Annotated[
    str, Meta(description='Read only annotations by this annotator. Default: "", all annotators.')
]
SeveralOption = Annotated[
    Literal["last", "first", "all"],
    Meta(description="Which annotations of a document to read: the latest, the earliest, or all."),
]


class VersionOptions(Options, frozen=True, kw_only=True):
    """The options of all sources in which a document may have several annotations.

    An annotation that the tool marks as authoritative precedes all others. Annotations that are not
    read are counted.
    """

    annotator: AnnotatorOption = ""
    of_several: SeveralOption = "last"

    def chosen(self, versions: Iterable[Version | None]) -> list[str]:
        """Choose the annotations to read.

        Args:
            versions: Annotations in the order of the file; None for other records, which are read.

        Returns:
            Why each record is not read, as in `NotChosen`; "" if it is read.
        """
        listed = list(versions)
        reasons = [
            OTHER_ANNOTATOR if version and not self._has_annotator(version) else ""
            for version in listed
        ]
        if self.of_several == "all":
            return reasons

        # Keep the best annotation of each document so far, and reject the one it replaces.
        best: dict[Hashable, tuple[int, Version]] = {}
        for number, version in enumerate(listed):
            if version is None or reasons[number]:
                continue
            current = best.get(version.document)
            if current is None:
                best[version.document] = (number, version)
            elif self._is_better(version, current[1]):
                best[version.document] = (number, version)
                reasons[current[0]] = OTHER_VERSION
            else:
                reasons[number] = OTHER_VERSION
        return reasons

    def _has_annotator(self, version: Version) -> bool:
        return not self.annotator or self.annotator in version.annotators

    def _is_better(self, later: Version, earlier: Version) -> bool:
        """Return whether an annotation later in the file replaces an earlier one."""
        if later.is_preferred != earlier.is_preferred:
            return later.is_preferred
        if self.of_several == "first":
            return later.time < earlier.time
        return later.time >= earlier.time
