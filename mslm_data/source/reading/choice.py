"""Which notes of a table make the corpus that was asked for, and which patients belong to which split.

All of it is a pure function of (seed, patient, category): files, their order and their cuts have no say.
"""

from __future__ import annotations

import functools
import hashlib
import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from mslm_data.data.document import NotChosen
from mslm_data.source import Source

OTHER_SUBJECT = NotChosen("a subject not asked for")
OTHER_CATEGORY = NotChosen("a category not asked for")
OUTSIDE_SAMPLE = NotChosen("a patient outside the sample")

ALL = "f" * 16
"""The digest that none is above."""
_ROUNDING = 1e-6


@runtime_checkable
class Chooses(Protocol):
    """What a source does besides `Source` whose files hold several splits, or more than the corpus."""

    def settle(self, paths: Sequence[Path]) -> Mapping[str, Any]:
        """Return the options that only all files together can decide, to be put over those that were given."""
        ...

    def of_split(self, split: str) -> Source:
        """Return this source, giving only the records of a split."""
        ...


def settled(source: Source, paths: Sequence[Path]) -> Mapping[str, Any]:
    """Return the options that the files decide, of any source; see `Chooses.settle`."""
    return source.settle(paths) if isinstance(source, Chooses) else {}


def of_split(source: Source, split: str) -> Source:
    """Return what reads a split's records only, of any source; one whose files are of one split stays as it is."""
    return source.of_split(split) if isinstance(source, Chooses) else source


def share_of(source: Source, split: str) -> float:
    """Return about which share of its files' bytes a split's records are, of any source."""
    return source.shares.get(split, 1.0) if isinstance(source, Choosing) else 1.0


@functools.lru_cache(maxsize=1 << 17)
def digest(seed: int, purpose: str, patient: str) -> str:
    """Return 16 hexadecimal digits, as good as drawn evenly for each purpose apart."""
    return hashlib.blake2b(f"{seed}\0{purpose}\0{patient}".encode(), digest_size=8).hexdigest()


def last_of_sample(patients: Iterable[str], *, size: int, seed: int) -> str:
    """Return the largest digest of the `size` patients with the smallest ones; `ALL` where there are not more."""
    smallest = heapq.nsmallest(size, {digest(seed, "sample", patient) for patient in patients})
    return smallest[-1] if len(smallest) == size else ALL


@dataclass(frozen=True, kw_only=True)
class Choosing:
    """Options of a source whose records are of patients.

    Attributes:
        categories: Kinds of record that are asked for, in any case, white space around them aside; empty for all.
        subjects: Patients that are asked for; empty for all.
        patients: How many patients make a sample, 0 for all: of those of whom the other choices leave a usable
            record, the ones with the smallest digests of (seed, patient).
        patients_last: The largest digest in the sample; `settle` finds it.
        seed: Of the sample and the shares.
        shares: Split -> share of the patients, who fall to splits by another digest of (seed, patient), so that
            a split has about its share; empty where each file is of one split.
        split: Give only this split's records, "" for all; see `of_split`.
    """

    categories: tuple[str, ...] = ()
    subjects: tuple[str | int, ...] = ()
    patients: int = 0
    patients_last: str = ""
    seed: int = 0
    shares: Mapping[str, float] = field(default_factory=dict)
    split: str = ""

    def __post_init__(self) -> None:
        if self.patients < 0:
            raise ValueError(f"expected patients as a number, 0 for all, got {self.patients}")
        shares = self.shares.values()
        if self.shares and not (min(shares) > 0 and abs(sum(shares) - 1) < _ROUNDING):
            raise ValueError(
                f"expected shares above 0 that add up to 1, got {', '.join(map(str, shares))}"
            )
        if self.split and self.shares and self.split not in self.shares:
            raise ValueError(
                f"expected split to be one of {', '.join(self.shares)}, got '{self.split}'"
            )

    def refusal(self, patient: str, category: str) -> NotChosen | None:
        """Say why a record is no part of the corpus, None where it is.

        Raises:
            ValueError: There is a sample, and nobody asked `settle` for it.
        """
        subjects, categories = self._wanted
        if subjects and patient not in subjects:
            return OTHER_SUBJECT
        if categories and category.strip().casefold() not in categories:
            return OTHER_CATEGORY
        if self.patients and digest(self.seed, "sample", patient) > self._last:
            return OUTSIDE_SAMPLE
        return None

    def split_of(self, patient: str | None) -> str:
        """Return a patient's split; the first for a record that does not say whose it is."""
        names = list(self.shares)
        if patient is None or not names:
            return names[0] if names else ""
        drawn, reached = int(digest(self.seed, "split", patient), 16) / 2**64, 0.0
        for name in names:
            reached += self.shares[name]
            if drawn < reached:
                return name
        return names[-1]

    def is_elsewhere(self, patient: str | None) -> bool:
        """Say whether a record is another split's, which will give it."""
        return bool(self.split and self.shares) and self.split_of(patient) != self.split

    @property
    def _last(self) -> str:
        if not self.patients_last:
            raise ValueError(
                "expected a source with the options that settle returns, got one without patients_last"
            )
        return self.patients_last

    @functools.cached_property
    def _wanted(self) -> tuple[frozenset[str], frozenset[str]]:
        return frozenset(map(str, self.subjects)), frozenset(
            name.strip().casefold() for name in self.categories
        )
