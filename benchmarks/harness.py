"""Time contestants alternately on the same input and summarise their rates as table rows.

On a noisy machine, absolute rates vary from round to round, but load slows all contestants of a
round alike. Ratios are therefore computed within a round; a row gives their median, minimum and
maximum.
"""

from __future__ import annotations

import gc
import re
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MET, MISSED, NONE = "yes", "no", "-"

_OUR_PACKAGES = {"mslm_data", "benchmarks", "experiments", "tests"}
_PATH = re.compile(r"""(?<![\w.])[('"]*/[^\s'")]+[)'"]*""")
"""Absolute paths, with surrounding brackets or quotes."""


class AbsentError(Exception):
    """The peer cannot run on this machine. The message is the reason."""


def _nothing() -> None:
    return None


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """A timed function.

    Attributes:
        call: Function to time. Its argument is the return value of `prepare`.
        work: Amount of work per call, in tokens, rows or batches.
        prepare: Called before each `call`, outside the measured time. Default: returns None.
        repeat: Number of calls per round, more than one for short functions. Default: 1.
    """

    call: Callable[[Any], object]
    work: float
    prepare: Callable[[], Any] = _nothing
    repeat: int = 1

    def rate(self) -> float:
        """Return the work per second over `repeat` calls."""
        spent = 0.0
        for _ in range(self.repeat):
            prepared = self.prepare()

            start = time.perf_counter()
            result = self.call(prepared)
            spent += time.perf_counter() - start

            # Free the result outside the measured time.
            del result

        return self.work * self.repeat / spent


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """Median, minimum and maximum over rounds of our rate divided by another rate."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{number(self.median)}x ({number(self.low)} to {number(self.high)})"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of the results table.

    Attributes:
        name: Name of the task.
        what: Description of our code, the peer and the limit, and of the outputs compared.
        unit: Unit of work per second. "s" and "MiB" are seconds and memory, not rates.
        ours: Our median rate. None if nothing was measured.
        peer: Median rate of the peer. Default: None, no peer.
        limit: Median rate of the hardware limit. Default: None, no limit.
        vs_peer: Ratio of our rate to the peer's.
        vs_limit: Ratio of our rate to the limit's.
        goal: The goal as text. Default: "-".
        met: `MET`, `MISSED`, `NONE`, or the reason nothing was measured.
        why: Explanation of a missed goal.
    """

    name: str
    what: str
    unit: str
    ours: float | None
    peer: float | None = None
    limit: float | None = None
    vs_peer: Ratio | None = None
    vs_limit: Ratio | None = None
    goal: str = "-"
    met: str = NONE
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Goal:
    """Minimum ratios of a row.

    Attributes:
        peer: Minimum ratio to the peer's rate. Default: None, no goal.
        limit: Minimum ratio to the limit's rate. Default: None, no goal.
        why: Explanation to print if the goal is missed.
    """

    peer: float | None = None
    limit: float | None = None
    why: str = ""

    def __str__(self) -> str:
        parts = []
        if self.peer is not None:
            parts.append(f"{self.peer:,g}x peer")
        if self.limit is not None:
            parts.append(f"{self.limit:g}x limit")
        return ", ".join(parts) or "-"

    def judge(self, vs_peer: Ratio | None, vs_limit: Ratio | None) -> str:
        """Return `MET`, `MISSED` or `NONE` for the medians. A missing ratio is a missed goal."""
        pairs = [(self.peer, vs_peer), (self.limit, vs_limit)]
        wanted = [(goal, ratio) for goal, ratio in pairs if goal is not None]
        if not wanted:
            return NONE

        reached = all(ratio is not None and ratio.median >= goal for goal, ratio in wanted)
        return MET if reached else MISSED


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of a topic with a page of its own.

    Attributes:
        header: Titles of the columns.
        rows: Cells of each row.
        align: A letter for each column, "l" (left) or "r" (right).
        title: Title of its section. Default: "", no section.
        about: Markdown above it. Default: "".
    """

    header: Sequence[str]
    rows: Sequence[Sequence[object]]
    align: str
    title: str = ""
    about: str = ""


@dataclass(slots=True)
class Results:
    """Results of one run of a topic.

    Attributes:
        rows: Rows of the table, of a topic in docs/results/speed.md.
        inputs: Lines describing the inputs.
        machine: Lines describing machine, packages and commit, set by `report.store`.
        about: Markdown at the top, of a topic with a page of its own.
        tables: Tables of that page.
        failures: Broken promises, such as a folder with other bytes. The exit code is then 1.
    """

    rows: list[Row] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    machine: list[str] = field(default_factory=list)
    about: str = ""
    tables: list[Table] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def in_turn(contestants: Mapping[str, Contestant], *, rounds: int) -> dict[str, list[float]]:
    """Time contestants alternately: A B C, A B C, and so on, after an untimed call of each.

    Args:
        contestants: Name -> contestant.
        rounds: Number of rounds.

    Returns:
        Name -> rates, one per round.
    """
    for contestant in contestants.values():
        contestant.call(contestant.prepare())
    gc.collect()

    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, contestant in contestants.items():
            rates[name].append(contestant.rate())
    return rates


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """Return our rates divided by theirs, paired by round."""
    pairs = [a / b for a, b in zip(ours, theirs, strict=True)]
    return Ratio(median=statistics.median(pairs), low=min(pairs), high=max(pairs))


def make_row(
    name: str,
    rates: Mapping[str, Sequence[float]],
    *,
    unit: str,
    what: str,
    goal: Goal | None = None,
) -> Row:
    """Make a table row.

    Args:
        name: Name of the task.
        rates: Rates per round of "ours" and, optionally, of "peer" and "limit".
        unit: Unit of work per second.
        what: Description of the comparison.
        goal: Default: no goal.
    """
    goal = goal or Goal()
    vs = {
        side: ratio(rates["ours"], rates[side]) if side in rates else None
        for side in ("peer", "limit")
    }
    medians = {side: statistics.median(values) for side, values in rates.items()}

    return Row(
        name=name,
        what=what,
        unit=unit,
        ours=medians["ours"],
        peer=medians.get("peer"),
        limit=medians.get("limit"),
        vs_peer=vs["peer"],
        vs_limit=vs["limit"],
        goal=str(goal),
        met=goal.judge(vs["peer"], vs["limit"]),
        why=goal.why,
    )


def row_at_most(
    name: str,
    ours: float,
    maximum: float,
    *,
    unit: str,
    what: str,
    peer: float | None = None,
    limit: float | None = None,
    why: str = "",
) -> Row:
    """Make a table row of seconds, memory or shares, whose goal is a maximum.

    See `Row` for the other arguments.
    """
    return Row(
        name=name,
        what=what,
        unit=unit,
        ours=ours,
        peer=peer,
        limit=limit,
        goal=f"{maximum:g} {unit}",
        met=MET if ours <= maximum else MISSED,
        why=why,
    )


def left_out(name: str, why: str) -> Row:
    """Make a row for a task that was not measured.

    The full reason is printed to stderr. The row holds its last line, without local paths and with
    `|` replaced by `/`, as it is a Markdown table cell.
    """
    print(f"{name}: left out: {why}", file=sys.stderr, flush=True)

    last = why.strip().split("\n")[-1]
    reason = _PATH.sub("", last).replace("|", "/").strip()
    return Row(name=name, what="not measured.", unit="-", ours=None, met=f"left out: {reason}")


def unless_absent(name: str, measure: Callable[[], Sequence[Row]]) -> list[Row]:
    """Return the rows of `measure`, or a row with the reason if the peer cannot run here.

    Args:
        name: Name of the row without figures.
        measure: Function that imports and times the peer.

    Raises:
        ImportError: An import from this checkout fails.
    """
    try:
        return list(measure())
    except AbsentError as absent:
        return [left_out(name, str(absent))]
    except ImportError as error:
        if is_ours(error):
            raise
        return [left_out(name, str(error))]


def is_ours(error: ImportError) -> bool:
    """Whether an import from this checkout failed, rather than one of an optional package."""
    return (error.name or "").split(".")[0] in _OUR_PACKAGES


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Format the median with the least and the greatest value, such as "0.41 (0.35 to 0.45)"."""
    low, high = min(values), max(values)
    return f"{statistics.median(values):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def number(value: float) -> str:
    """Format a number with three significant digits: 0.0123, 4.56, 78.9, 1,234, 5.67 M."""
    if value >= 1e9:
        return f"{value / 1e6:,.0f} M"
    if value >= 1e6:
        return f"{value / 1e6:,.3g} M"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def same(what: str, ours: object, theirs: object) -> None:
    """Check that both sides of a comparison return equal results.

    Raises:
        RuntimeError: `ours` and `theirs` differ.
    """
    if ours != theirs:
        raise RuntimeError(
            f"{what}: expected ours and the peer's to be equal, they differ; no times were taken"
        )
