"""Selects patients and categories of notes, and assigns patients to splits.

Every decision is a pure function of (seed, patient, category), so it does not depend on files,
their order or their parts.
"""

from __future__ import annotations

import functools
import hashlib
import heapq
from collections.abc import Iterable, Mapping
from typing import Annotated

from msgspec import Meta, field

from mslm_data.data.document import NotChosen
from mslm_data.source.reading.encodings import TextSource

OTHER_SUBJECT = NotChosen("a subject not asked for")
OTHER_CATEGORY = NotChosen("a category not asked for")
OUTSIDE_SAMPLE = NotChosen("a patient outside the sample")

ALL = "f" * 16
"""The largest digest, so that a sample up to it includes all patients."""
_ROUNDING = 1e-6


@functools.lru_cache(maxsize=1 << 17)
def digest(seed: int, purpose: str, patient: str) -> str:
    """Return 16 hexadecimal digits, a pseudo-random number for a patient and a purpose."""
    return hashlib.blake2b(f"{seed}\0{purpose}\0{patient}".encode(), digest_size=8).hexdigest()


def find_last_sampled(patients: Iterable[str], *, size: int, seed: int) -> str:
    """Return the largest digest in a sample of the `size` patients with the smallest digests.

    Returns `ALL` if there are fewer than `size` patients.
    """
    smallest = heapq.nsmallest(size, {digest(seed, "sample", patient) for patient in patients})
    return smallest[-1] if len(smallest) == size else ALL


class Cohort(TextSource, frozen=True, kw_only=True, dict=True):
    """Base class of sources whose records belong to patients."""

    categories: Annotated[
        tuple[str, ...],
        Meta(
            description="Categories of records to read. Case and surrounding white space are "
            "ignored. Default: all."
        ),
    ] = ()
    subjects: Annotated[
        tuple[str | int, ...], Meta(description="Patients to read. Default: all.")
    ] = ()
    patients: Annotated[
        int,
        Meta(
            ge=0,
            description="Number of patients in a sample, 0 for all. The sample consists of the "
            "patients with the smallest digests of (seed, patient), among those with a usable "
            "record.",
        ),
    ] = 0
    patients_last: Annotated[
        str, Meta(description="Largest digest in the sample. By default the build computes it.")
    ] = ""
    seed: Annotated[int, Meta(description="Seed of the sample and of the shares.")] = 0
    shares: Annotated[
        Mapping[str, float],
        Meta(
            description="Split -> share of the patients. Patients are assigned by a digest of "
            "(seed, patient), so shares are approximate. Empty if each file belongs to one split."
        ),
    ] = field(default_factory=dict)
    _split: str = ""
    """Split whose records are read, "" for all. Not an option; see `Source.for_split`."""

    def __post_init__(self) -> None:
        shares = self.shares.values()
        if self.shares and not (min(shares) > 0 and abs(sum(shares) - 1) < _ROUNDING):
            raise ValueError(
                f"expected shares above 0 that add up to 1, got {', '.join(map(str, shares))}"
            )

    def refusal(self, patient: str, category: str) -> NotChosen | None:
        """Return why a record is not selected, None if it is.

        Raises:
            ValueError: The largest digest of the sample is unknown; see `Source.settle`.
        """
        subjects, categories = self._wanted
        if subjects and patient not in subjects:
            return OTHER_SUBJECT
        if categories and category.strip().casefold() not in categories:
            return OTHER_CATEGORY
        if self.patients and digest(self.seed, "sample", patient) > self._last:
            return OUTSIDE_SAMPLE
        return None

    def assign_split(self, patient: str | None) -> str:
        """Return a patient's split, or the first split if the patient is unknown."""
        names = list(self.shares)
        if patient is None or not names:
            return names[0] if names else ""

        drawn = int(digest(self.seed, "split", patient), 16) / 2**64
        # Find the share that contains the patient's number in [0, 1).
        reached = 0.0
        for name in names:
            reached += self.shares[name]
            if drawn < reached:
                return name
        return names[-1]

    @property
    def _last(self) -> str:
        if not self.patients_last:
            raise ValueError(
                "expected a source with the options that settle returns, got one without "
                "patients_last"
            )
        return self.patients_last

    @functools.cached_property
    def _wanted(self) -> tuple[frozenset[str], frozenset[str]]:
        """The selected subjects and normalised categories."""
        subjects = frozenset(map(str, self.subjects))
        categories = frozenset(name.strip().casefold() for name in self.categories)
        return subjects, categories
