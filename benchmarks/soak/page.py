"""Judges whether the soak's long-lived process has grown, and writes the page of results."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from benchmarks.inputs import ROOT
from benchmarks.report import commit, machine

WARM_UP = 0.25
"""Share of the answers at the beginning that say nothing: caches fill, and arenas grow."""
_MIN_ANSWERS = 40
"""Fewer answers after the warm-up are not judged."""
_MOST_GROWTH = 0.05
"""Growth after the warm-up, as a share of the memory, that counts as flat."""
_LEAST_MIB = 8.0
"""Growth below this many MiB counts as flat: as much comes and goes from answer to answer."""
_SHOWN = 12
"""Rows of the table of memory over time."""

ABOUT = """# A soak

Written by `python -m benchmarks.soak`. Builds of corpora of {forms} forms, kills and signals, loads
and epochs in a process that lives as long as the soak, and damaged files, in a loop at random:
{minutes:.0f} minutes, {rounds} rounds, {commands} commands, seed {seed}, commit {commit}.
"""


class Finding(NamedTuple):
    """Something that was not as it has to be.

    Attributes:
        number: The round's number; `--only` repeats it.
        kind: What the round was.
        what: What was wrong.
    """

    number: int
    kind: str
    what: str


class Growth(NamedTuple):
    """How memory developed after the warm-up.

    Attributes:
        answers: Number of answers looked at.
        level: Their median, in MiB.
        grown: Growth from the first to the last by the median of all slopes, in MiB.
    """

    answers: int
    level: float
    grown: float

    @property
    def is_flat(self) -> bool:
        """Whether memory grew by no more than it varies from answer to answer."""
        return self.grown <= max(_LEAST_MIB, _MOST_GROWTH * self.level)


def growth(kib: Sequence[int]) -> Growth | None:
    """Return how memory developed; None where there is too little to judge."""
    after = [value / 1024 for value in kib[int(len(kib) * WARM_UP) :]]
    if len(after) < _MIN_ANSWERS:
        return None

    # The median of the slopes between all pairs (Theil and Sen) is not moved by single peaks. A few
    # hundred answers, evenly taken, say as much as all.
    step = len(after) // 300 + 1
    some = [*enumerate(after)][::step]
    slopes = [(b - a) / (j - i) for (i, a), (j, b) in combinations(some, 2)]
    return Growth(len(after), statistics.median(after), statistics.median(slopes) * len(after))


def memory_findings(memory: Sequence[Mapping[str, int]]) -> list[Finding]:
    """Return what grew that may not: memory, open files or threads."""
    found = []
    grown = growth([answer["kib"] for answer in memory])
    if grown is not None and not grown.is_flat:
        found.append(Finding(-1, "memory", f"grew by {grown.grown:.0f} of {grown.level:.0f} MiB"))
    for what in ("files", "threads"):
        values = [answer[what] for answer in memory[int(len(memory) * WARM_UP) :]]
        if values and values[-1] > values[0] + 5:
            found.append(Finding(-1, what, f"grew from {values[0]} to {values[-1]}"))
    return found


def page(
    counts: Mapping[str, Mapping[str, int]],
    findings: Sequence[Finding],
    memory: Sequence[Mapping[str, int]],
    *,
    seed: int,
    minutes: float,
    rounds: int,
    forms: int,
) -> str:
    """Return the page.

    Args:
        counts: `rounds`, `events` -> kind -> how often.
        findings: What was found.
        memory: The answers of the process that lives on, in order.
        seed: Of the soak.
        minutes: How long it took.
        rounds: How many there were.
        forms: Number of the forms of corpora.
    """
    commands = counts["events"].get("commands", 0)
    lines = [
        ABOUT.format(
            forms=forms,
            minutes=minutes,
            rounds=rounds,
            commands=commands,
            seed=seed,
            commit=commit(ROOT),
        ),
        *[f"* {line}" for line in machine()],
        "",
        "## What was found",
        "",
        *_findings(findings),
        "",
        "## What was done",
        "",
    ]
    for what, header in (("rounds", "round"), ("events", "event")):
        lines += [f"| {header} | times |", "| --- | ---: |"]
        lines += [f"| {kind} | {times:,} |" for kind, times in sorted(counts[what].items())]
        lines += [""]
    return "\n".join([*lines, *_memory(memory)])


def _findings(findings: Sequence[Finding]) -> list[str]:
    if not findings:
        return ["Nothing."]
    return [
        f"* round {number}, {kind}: {what}" if number >= 0 else f"* {kind}: {what}"
        for number, kind, what in findings
    ]


def _memory(memory: Sequence[Mapping[str, int]]) -> list[str]:
    lines = ["## Memory of the process that lives on", ""]
    grown = growth([answer["kib"] for answer in memory])
    if grown is None:
        lines += [f"{len(memory)} answers are too few to judge its growth.", ""]
    else:
        verdict = "which counts as flat" if grown.is_flat else "which does not count as flat"
        lines += [
            f"After the first {WARM_UP:.0%} of its answers it held {grown.level:.0f} MiB, pages of "
            "files not counted, and",
            f"grew by {grown.grown:.1f} MiB over {grown.answers} answers (median of all slopes), "
            f"{verdict}.",
            "",
        ]

    lines += ["| answer | MiB | open files | threads |", "| ---: | ---: | ---: | ---: |"]
    step = max(1, (len(memory) - 1) // (_SHOWN - 1)) if memory else 1
    for number in range(0, len(memory), step):
        answer = memory[number]
        lines.append(
            f"| {number + 1} | {answer['kib'] / 1024:.0f} | {answer['files']} | "
            f"{answer['threads']} |"
        )
    return [*lines, ""]
