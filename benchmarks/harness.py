"""Time contestants in turn on the same input, and make rows of their rates.

A noisy machine slows all contestants of one round alike, so only ratios of one round are compared.
A row gives the median of the rounds' ratios, the lowest and the highest.
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
"""An absolute path, with the brackets or quotes around it."""


class AbsentError(Exception):
    """The peer cannot run on this machine; the message says why."""


def _nothing() -> None:
    return None


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """Something that is timed.

    Attributes:
        call: What is timed; takes what `prepare` returned.
        work: Amount of work in one call: tokens, rows, batches.
        prepare: Called before each call, outside the measured time.
        repeat: Calls in one round, for what is too short to be timed alone.
    """

    call: Callable[[Any], object]
    work: float
    prepare: Callable[[], Any] = _nothing
    repeat: int = 1

    def rate(self) -> float:
        """Return the work done in a second, over `repeat` calls."""
        spent = 0.0
        for _ in range(self.repeat):
            prepared = self.prepare()

            start = time.perf_counter()
            result = self.call(prepared)
            spent += time.perf_counter() - start

            # Freed here, or else the next call would pay for it.
            del result

        return self.work * self.repeat / spent


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """How many times faster: the median over rounds, the lowest and the highest."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{number(self.median)}x ({number(self.low)} to {number(self.high)})"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of the results.

    Attributes:
        name: What is done.
        what: Who does it (ours, the peer, the limit), and what was checked to be equal.
        unit: What the rates count in a second; "s" or "MiB" where seconds or memory themselves are
            shown.
        ours: Median rate of ours, None in a row that is left out.
        peer: Median rate of the peer, None without a peer.
        limit: Median rate of the limit, None without a limit.
        vs_peer: Ours to the peer.
        vs_limit: Ours to the limit.
        goal: The goal in words.
        met: `MET`, `MISSED`, `NONE`, or why the row is left out.
        why: What stands in the way of the goal.
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
    """What the ratios of a row should reach.

    Attributes:
        peer: Minimum ratio to the peer's rate.
        limit: Minimum share of the limit's rate.
        why: What stands in the way; shown where the goal is missed.
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
        """Say whether the medians reach the goal. A ratio that was not measured misses it."""
        pairs = [(self.peer, vs_peer), (self.limit, vs_limit)]
        wanted = [(goal, ratio) for goal, ratio in pairs if goal is not None]
        if not wanted:
            return NONE

        reached = all(ratio is not None and ratio.median >= goal for goal, ratio in wanted)
        return MET if reached else MISSED


@dataclass(slots=True)
class Results:
    """The rows of one topic, measured in one run.

    Attributes:
        rows: The rows of its table.
        inputs: Lines about the inputs that it was measured on.
        machine: Lines about the machine, the packages and the commit; made when results are stored.
    """

    rows: list[Row] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    machine: list[str] = field(default_factory=list)


def in_turn(
    contestants: Mapping[str, Contestant], *, rounds: int, warm_up: bool = True
) -> dict[str, list[float]]:
    """Time contestants in turn: A B C, A B C, and so on.

    Args:
        contestants: By name.
        rounds: Number of turns of each.
        warm_up: Whether each is called once before, untimed.

    Returns:
        The rates of each contestant, one for each round.
    """
    if warm_up:
        for contestant in contestants.values():
            contestant.call(contestant.prepare())
    gc.collect()

    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, contestant in contestants.items():
            rates[name].append(contestant.rate())
    return rates


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """Compare rates round by round."""
    pairs = [a / b for a, b in zip(ours, theirs, strict=True)]
    return Ratio(median=statistics.median(pairs), low=min(pairs), high=max(pairs))


def row_of(
    name: str,
    rates: Mapping[str, Sequence[float]],
    *,
    unit: str,
    what: str,
    goal: Goal | None = None,
) -> Row:
    """Make a row from the rates of `ours` and, where they were measured, of `peer` and `limit`."""
    goal = goal or Goal()
    vs = {of: ratio(rates["ours"], rates[of]) if of in rates else None for of in ("peer", "limit")}
    medians = {of: statistics.median(values) for of, values in rates.items()}

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


def left_out(name: str, why: str) -> Row:
    """Make a row without figures that says why nothing was measured.

    The whole reason goes to stderr. The row has its last line, without paths of this machine and
    without what would end a cell of the table.
    """
    print(f"{name}: left out: {why}", file=sys.stderr, flush=True)

    last = why.strip().split("\n")[-1]
    reason = _PATH.sub("", last).replace("|", "/").strip()
    return Row(name=name, what="not measured.", unit="-", ours=None, met=f"left out: {reason}")


def unless_absent(name: str, measure: Callable[[], Sequence[Row]]) -> list[Row]:
    """Return the rows that `measure` makes, or one row that says why their peer cannot run here.

    Args:
        name: The name of that one row.
        measure: Imports the peer and times it.

    Raises:
        ImportError: A module of this checkout lacks something: a mistake, not a missing peer.
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
    """Whether the module that could not be imported, or lacks a name, is one of this checkout."""
    return (error.name or "").split(".")[0] in _OUR_PACKAGES


def number(value: float) -> str:
    """Write a number with three significant digits: 0.0123, 4.56, 78.9, 1,234, 5.67 M."""
    if value >= 1e9:
        return f"{value / 1e6:,.0f} M"
    if value >= 1e6:
        return f"{value / 1e6:,.3g} M"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def same(what: str, ours: object, theirs: object) -> None:
    """Refuse to compare the speed of different work.

    Raises:
        RuntimeError: The two are not equal.
    """
    if ours != theirs:
        raise RuntimeError(
            f"{what}: expected ours and the peer's to be equal, they differ; no times were taken"
        )
