"""Times contestants in turn on the same input, so that a noisy machine slows all of them alike, and makes rows of it.

Only ratios of one round are compared: a row says the median of the rounds' ratios, and the least and the greatest.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MET, MISSED, NONE = "yes", "no", "-"


def _nothing() -> None:
    return None


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """Something that is timed.

    Attributes:
        call: What is timed; takes what `prepare` returned.
        work: Units of work in one call: tokens, sequences, batches.
        prepare: Called before each call, outside the time.
        repeat: Calls in one round, for what takes too little time to be seen.
    """

    call: Callable[[Any], object]
    work: float
    prepare: Callable[[], Any] = _nothing
    repeat: int = 1

    def rate(self) -> float:
        """Return units of work in a second, over `repeat` calls."""
        spent = 0.0
        for _ in range(self.repeat):
            prepared = self.prepare()
            start = time.perf_counter()
            result = self.call(prepared)
            spent += time.perf_counter() - start
            del result
        return self.work * self.repeat / spent


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """How many times faster: the median over rounds, the least and the greatest."""

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
        what: Who does it: ours, the peer, the limit; and what was checked to be equal.
        unit: What the rates count in a second; "s" or "MiB" where seconds or memory themselves are shown.
        ours: Median rate; so the others, None where there is none.
        vs_peer: Ours to the peer.
        vs_limit: Ours to the limit.
        goal: In words.
        met: `MET`, `MISSED` or `NONE`.
        why: What stands in the way of the goal.
    """

    name: str
    what: str
    unit: str
    ours: float
    peer: float | None = None
    limit: float | None = None
    vs_peer: Ratio | None = None
    vs_limit: Ratio | None = None
    goal: str = "-"
    met: str = NONE
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What a ratio of a row is to reach.

    Attributes:
        peer: At least so many times the peer's rate.
        limit: At least this share of the limit's.
        why: What stands in the way; said where it is missed.
    """

    peer: float | None = None
    limit: float | None = None
    why: str = ""

    def __str__(self) -> str:
        peer = [f"{self.peer:,g}x peer"] if self.peer is not None else []
        limit = [f"{self.limit:g}x limit"] if self.limit is not None else []
        return ", ".join(peer + limit) or "-"

    def judge(self, vs_peer: Ratio | None, vs_limit: Ratio | None) -> str:
        """Say whether medians reach it; a ratio that was not measured does not."""
        pairs = [
            (goal, ratio)
            for goal, ratio in ((self.peer, vs_peer), (self.limit, vs_limit))
            if goal is not None
        ]
        if not pairs:
            return NONE
        return (
            MET
            if all(ratio is not None and ratio.median >= goal for goal, ratio in pairs)
            else MISSED
        )


@dataclass(slots=True)
class Results:
    """The rows of one file of the suite, and what its input was."""

    rows: list[Row] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)


def in_turn(
    contestants: Mapping[str, Contestant], *, rounds: int, warm_up: bool = True
) -> dict[str, list[float]]:
    """Time contestants in turn: A B C, A B C, and so on.

    Args:
        contestants: By name.
        rounds: How often each has its turn.
        warm_up: Whether each is called once before, untimed.

    Returns:
        The rates of each, one a round.
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
    """Make a row of the rates of `ours` and, where they are there, of `peer` and `limit`."""
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


def number(value: float) -> str:
    """Write a number with three digits that mean something: 0.0123, 4.56, 78.9, 1,234, 5.67 M."""
    if value >= 1e6:
        return f"{value / 1e6:,.3g} M" if value < 1e9 else f"{value / 1e6:,.0f} M"
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
