"""Chooses among several annotations of one document, as tools keep one for each annotator."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from mslm_data.registry import Help

REJECTED = "rejected by the annotator"
IGNORED = "skipped by the annotator"
UNANNOTATED = "not annotated"
UNAPPROVED = "not approved"
OTHER_ANNOTATOR = "of another annotator"
OTHER_VERSION = "another annotation of a document that is read"
"""Reasons in `NotChosen`."""


class Version(NamedTuple):
    """One annotation of a document that may have several.

    Attributes:
        document: Key of the annotated document, equal for all its annotations.
        annotators: The names of its annotator; several where a tool has several for one.
        time: When it was made, as text that sorts; "" where nobody says.
        is_preferred: Whether the tool marks it as the one to trust.
    """

    document: Hashable
    annotators: frozenset[str] = frozenset()
    time: str = ""
    is_preferred: bool = False


@dataclass(frozen=True, kw_only=True)
class VersionOptions:
    """The options of every source in which a document may have several annotations.

    An annotation that its tool marks as the one to trust comes before all others. All that are not
    read are counted.
    """

    annotator: Annotated[
        str, Help('Read the annotations of this annotator only, "" for those of all.')
    ] = ""
    of_several: Annotated[
        Literal["last", "first", "all"],
        Help(
            "Which of a document's annotations is read: the one made last, the one made first, or "
            "each."
        ),
    ] = "last"

    def chosen(self, versions: Iterable[Version | None]) -> list[str]:
        """Choose the annotations that are read.

        Args:
            versions: In the order of the file; None for other records, which stay.

        Returns:
            Why each is not read, as `NotChosen` says it; "" where it is.
        """
        listed = list(versions)
        reasons = [
            OTHER_ANNOTATOR if version and not self._has_annotator(version) else ""
            for version in listed
        ]
        if self.of_several == "all":
            return reasons

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
        """Return whether of two annotations the one that stands later in the file is read."""
        if later.is_preferred != earlier.is_preferred:
            return later.is_preferred
        if self.of_several == "first":
            return later.time < earlier.time
        return later.time >= earlier.time
