"""Judge the memory growth of the soak's long-lived process, and make the tables."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from benchmarks.harness import Table

WARM_UP = 0.25
"""Share of answers at the beginning to ignore, while caches and arenas fill."""
_MIN_ANSWERS = 40
"""Minimum number of answers after the warm-up to judge growth."""
_MOST_GROWTH = 0.05
"""Maximum growth that counts as flat, as a share of the memory."""
_LEAST_MIB = 8.0
"""Growth in MiB that always counts as flat, about the variation between answers."""
_SHOWN = 12
"""Number of rows in the table of memory over time."""


class Growth(NamedTuple):
    """Growth of memory after the warm-up.

    Attributes:
        answers: Number of answers.
        level: Median memory in MiB.
        grown: Growth over all answers in MiB, by the Theil-Sen slope.
    """

    answers: int
    level: float
    grown: float

    @property
    def is_flat(self) -> bool:
        """Whether growth is within `_LEAST_MIB` or `_MOST_GROWTH` of the median."""
        return self.grown <= max(_LEAST_MIB, _MOST_GROWTH * self.level)


def growth(kib: Sequence[int]) -> Growth | None:
    """Return the growth of memory, None if there are too few answers."""
    after = [value / 1024 for value in kib[int(len(kib) * WARM_UP) :]]
    if len(after) < _MIN_ANSWERS:
        return None

    # The median of the slopes between all pairs (Theil-Sen) is robust to single peaks. About 300
    # evenly spaced answers suffice, as the number of pairs is quadratic.
    step = len(after) // 300 + 1
    sampled = [*enumerate(after)][::step]
    slopes = [(b - a) / (j - i) for (i, a), (j, b) in combinations(sampled, 2)]
    return Growth(len(after), statistics.median(after), statistics.median(slopes) * len(after))


def memory_findings(memory: Sequence[Mapping[str, int]]) -> list[str]:
    """Return findings about growth of memory, open files and threads."""
    findings = []
    grown = growth([answer["kib"] for answer in memory])
    if grown is not None and not grown.is_flat:
        findings.append(f"memory: grew by {grown.grown:.0f} of {grown.level:.0f} MiB")
    for item in ("files", "threads"):
        values = [answer[item] for answer in memory[int(len(memory) * WARM_UP) :]]
        if values and values[-1] > values[0] + 5:
            findings.append(f"{item}: grew from {values[0]} to {values[-1]}")
    return findings


def counts_table(header: str, counts: Mapping[str, int], *, title: str = "") -> Table:
    """Return the table of how often each kind of round or event took place."""
    rows = [(kind, f"{times:,}") for kind, times in sorted(counts.items())]
    return Table(title=title, header=(header, "times"), rows=rows, align="lr")


def memory_table(memory: Sequence[Mapping[str, int]]) -> Table:
    """Return the table of memory over time, with the growth above it."""
    grown = growth([answer["kib"] for answer in memory])
    if grown is None:
        about = f"{len(memory)} answers are too few to judge its growth."
    else:
        verdict = "which counts as flat" if grown.is_flat else "which does not count as flat"
        about = (
            f"After the first {WARM_UP:.0%} of its answers it held {grown.level:.0f} MiB, pages of "
            f"files not counted, and grew by {grown.grown:.1f} MiB over {grown.answers} answers "
            f"(median of all slopes), {verdict}."
        )

    step = max(1, (len(memory) - 1) // (_SHOWN - 1)) if memory else 1
    rows = [
        (number + 1, f"{answer['kib'] / 1024:.0f}", answer["files"], answer["threads"])
        for number, answer in [*enumerate(memory)][::step]
    ]
    return Table(
        title="Memory of the process that lives on",
        about=about,
        header=("answer", "MiB", "open files", "threads"),
        rows=rows,
        align="rrrr",
    )
