"""Tables in Markdown, and their cells."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from benchmarks.report import markdown_table
from experiments import intervals
from experiments.intervals import Difference


def spread(shares: Sequence[float], *, sign: str = "") -> str:
    """Return the mean of shares in percent, with its standard deviation if there are several.

    Args:
        shares: One or more.
        sign: "+" writes the sign of a positive mean too.
    """
    text = f"{100 * statistics.fmean(shares):{sign}.1f}"
    return f"{text} ± {percent(statistics.stdev(shares))}" if len(shares) > 1 else text


def in_points(gain: Difference) -> Difference:
    """Return a difference of shares in percentage points."""
    return Difference(gain.mean * 100, gain.low * 100, gain.high * 100, gain.seen * 100, gain.seeds)


def as_table(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table in Markdown; the first row is its head."""
    head, *body = rows
    return markdown_table(head, body, align="l" + "r" * (len(head) - 1))


def difference_cells(gain: Difference | None) -> tuple[str, str, str]:
    """Return a difference, its interval, and the smallest detectable difference.

    The interval of a single seed is in brackets, because it covers sentences only.
    """
    if gain is None:
        return "-", "-", "-"
    mean, interval = intervals.signed(gain.mean), intervals.interval(gain.low, gain.high)
    if gain.seeds == 1:
        return mean, f"({interval})", "-"
    return mean, interval, f"{gain.seen:.1f}"


def percent(share: float) -> str:
    """Return a share in percent with one decimal."""
    return f"{100 * share:.1f}"
