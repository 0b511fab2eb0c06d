"""Computes the agreement of annotators of an ensemble.

Two annotators find the same mention if its characters and its label are equal. Their agreement is
the F1 score of one against the other as gold, which is symmetric.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from itertools import combinations

from mslm_data.data.accounts import Count
from mslm_data.results import Table


@dataclass(frozen=True, kw_only=True)
class FoundByRecord:
    """Number of mentions of a label that were found by exactly these annotators.

    A row::

        label    by          mentions
        Disease  bc5cdr,ncbi      527

    The annotators `bc5cdr` and `ncbi` found 527 diseases that no other annotator found.

    Attributes:
        label: Label of the mentions.
        by: Sorted names of the annotators.
        mentions: Number of mentions, before the annotators are combined.
    """

    label: str
    by: tuple[str, ...]
    mentions: Count


@dataclass(frozen=True, kw_only=True)
class PairAgreement:
    """Number of mentions of a label on which two annotators agree.

    Attributes:
        label: The label.
        first: Name of the first annotator.
        second: Name of the second annotator.
        of_first: Number of mentions found by the first annotator.
        of_second: Number of mentions found by the second annotator.
        both: Number of mentions found by both.
        f1: F1 score of one annotator against the other; 0 if neither found a mention.
    """

    label: str
    first: str
    second: str
    of_first: int
    of_second: int
    both: int
    f1: float


def pairs(records: Sequence[FoundByRecord]) -> Iterator[PairAgreement]:
    """Yield the agreement of each pair of annotators per label, sorted by label and names."""
    names = sorted({name for record in records for name in record.by})
    for label in sorted({record.label for record in records}):
        for first, second in combinations(names, 2):
            of_first = _count(records, label, first)
            of_second = _count(records, label, second)
            both = _count(records, label, first, second)
            total = of_first + of_second
            yield PairAgreement(
                label=label,
                first=first,
                second=second,
                of_first=of_first,
                of_second=of_second,
                both=both,
                f1=2 * both / total if total else 0.0,
            )


def agreement_table(agreement: Sequence[PairAgreement]) -> Iterator[str | Table]:
    """Yield a table of the agreement with its title; nothing if there are no pairs."""
    if agreement:
        yield "agreement of the annotators, by equal mentions:"
        head = ("label", "first", "second", "of first", "of second", "both", "F1")
        yield Table([astuple(pair) for pair in agreement], head=head)


def _count(records: Sequence[FoundByRecord], label: str, *names: str) -> int:
    """Count the mentions of a label that all of these annotators found."""
    return sum(
        record.mentions
        for record in records
        if record.label == label and set(names) <= set(record.by)
    )
