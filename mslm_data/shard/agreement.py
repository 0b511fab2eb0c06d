"""Agreement of annotators: mentions of a build by the annotators that found them.

Annotators that found a mention are those that found its very characters with its label. So F1 of
two of them is that of one against the other as gold, whichever is taken for gold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from mslm_data.shard.write import Count


@dataclass(frozen=True, kw_only=True)
class FoundByRecord:
    """Number of mentions of one label that the same annotators found.

    Attributes:
        label: Their label.
        by: The annotators that found them, sorted.
        mentions: Their number, before any were left out.
    """

    label: str
    by: tuple[str, ...]
    mentions: Count


class PairAgreement(NamedTuple):
    """Number of mentions of a label on which two annotators agree.

    Attributes:
        label: The label.
        first: The name of an annotator.
        second: The name of another.
        of_first: Mentions that the first one found.
        of_second: Mentions that the second one found.
        both: Mentions that both found.
    """

    label: str
    first: str
    second: str
    of_first: int
    of_second: int
    both: int

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 if neither annotator found a mention."""
        every = self.of_first + self.of_second
        return 2 * self.both / every if every else 0.0


def pairs(records: Sequence[FoundByRecord]) -> Iterator[PairAgreement]:
    """Yield the agreement of each pair of annotators per label, sorted by label and names."""
    names = sorted({name for record in records for name in record.by})
    for label in sorted({record.label for record in records}):
        label_records = [record for record in records if record.label == label]
        for first, second in combinations(names, 2):
            yield PairAgreement(
                label,
                first,
                second,
                of_first=sum(record.mentions for record in label_records if first in record.by),
                of_second=sum(record.mentions for record in label_records if second in record.by),
                both=sum(
                    record.mentions
                    for record in label_records
                    if first in record.by and second in record.by
                ),
            )
