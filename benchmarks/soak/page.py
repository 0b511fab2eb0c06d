"""Judge the memory growth of the soak's long-lived process, and render the page of results."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from benchmarks.inputs import ROOT
from benchmarks.report import commit, machine, markdown_table

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

ABOUT = """# A soak

Written by `python -m benchmarks.soak`. Builds of corpora of {forms} forms, kills and signals, loads
and epochs in a process that lives as long as the soak, and damaged files, in a loop at random:
{minutes:.0f} minutes, {rounds} rounds, {commands} commands, seed {seed}, commit {commit}.
"""


class Finding(NamedTuple):
    """A complaint of a round.

    Attributes:
        number: Number of the round, for `--only`; -1 for growth over all rounds.
        kind: Kind of the round.
        what: The complaint.
    """

    number: int
    kind: str
    what: str


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


def memory_findings(memory: Sequence[Mapping[str, int]]) -> list[Finding]:
    """Return findings about growth of memory, open files and threads."""
    findings_ = []
    grown = growth([answer["kib"] for answer in memory])
    if grown is not None and not grown.is_flat:
        findings_.append(
            Finding(-1, "memory", f"grew by {grown.grown:.0f} of {grown.level:.0f} MiB")
        )
    for item in ("files", "threads"):
        values = [answer[item] for answer in memory[int(len(memory) * WARM_UP) :]]
        if values and values[-1] > values[0] + 5:
            findings_.append(Finding(-1, item, f"grew from {values[0]} to {values[-1]}"))
    return findings_


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
    """Render the page.

    Args:
        counts: "rounds" or "events" -> kind -> number.
        findings: Complaints of all rounds.
        memory: Answers of the long-lived process, in order.
        seed: Random seed.
        minutes: Duration.
        rounds: Number of rounds.
        forms: Number of formats of corpora.
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
    for item, header in (("rounds", "round"), ("events", "event")):
        rows = [(kind, f"{times:,}") for kind, times in sorted(counts[item].items())]
        lines += [*markdown_table((header, "times"), rows, align="lr"), ""]
    return "\n".join([*lines, *_memory(memory)])


def _findings(findings: Sequence[Finding]) -> list[str]:
    if not findings:
        return ["Nothing."]
    return [
        f"* round {number}, {kind}: {item}" if number >= 0 else f"* {kind}: {item}"
        for number, kind, item in findings
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

    step = max(1, (len(memory) - 1) // (_SHOWN - 1)) if memory else 1
    rows = [
        (number + 1, f"{answer['kib'] / 1024:.0f}", answer["files"], answer["threads"])
        for number, answer in [*enumerate(memory)][::step]
    ]
    table = markdown_table(("answer", "MiB", "open files", "threads"), rows, align="rrrr")
    return [*lines, *table, ""]
