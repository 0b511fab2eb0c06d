"""Draw a bar chart of the benchmarks: the ratio of our rate to the peer's, a bar per row."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping
from typing import Any

from sphinx.application import Sphinx

from _site.links import ROOT

_LESS_IS_BETTER = ("s", "MiB")
"""Units of rows that are not rates; they are left out, as a larger ratio is worse."""


def rewrite_page(app: Sphinx, name: str, source: list[str]) -> None:  # noqa: ARG001
    """Insert the chart before the first section of results/speed (a `source-read` handler)."""
    if name == "results/speed":
        before, heading, after = source[0].partition("\n## ")
        source[0] = "\n".join([before, "", *benchmark_section()]) + heading + after


def benchmark_section() -> list[str]:
    """Return the lines of a section with a bar for each row with a peer."""
    rows = [
        row
        for path in sorted((ROOT / "benchmarks" / "results").glob("*.json"))
        for row in json.loads(path.read_text(encoding="utf-8")).get("rows", [])
        if row["vs_peer"] and row["unit"] not in _LESS_IS_BETTER
    ]
    max_log = math.log10(max(row["vs_peer"]["high"] for row in rows))
    bars = "".join(_bar(row, max_log) for row in sorted(rows, key=_median, reverse=True))
    return [
        "## At a glance",
        "",
        "How many times as fast as what a user would pick instead, on a scale of powers of ten:",
        "the median of several rounds in turn, and a line from the lowest to the highest. Rows",
        "below 1 are slower. What each row and its peer is stands in the tables below.",
        "",
        f'<div class="mslm rates">{bars}</div>',
        "",
    ]


def _median(row: Mapping[str, Any]) -> float:
    return float(row["vs_peer"]["median"])


def _bar(row: Mapping[str, Any], max_log: float) -> str:
    ratio = row["vs_peer"]
    share = {name: _share(ratio[name], max_log) for name in ("low", "median", "high")}
    median = ratio["median"]
    label = f"{median:,.0f}x" if median >= 10 else f"{median:.2f}x"
    return (
        f'<div class="rate"><span>{html.escape(row["name"].replace("`", ""))}</span>'
        f'<span class="track"><i style="width:{share["median"]:.1f}%"></i>'
        f'<u style="left:{share["low"]:.1f}%;width:{share["high"] - share["low"]:.1f}%"></u></span>'
        f"<b>{label}</b></div>"
    )


def _share(ratio: float, max_log: float) -> float:
    """Return the position of a ratio on the log scale in percent; 0 for ratios up to 1."""
    return 100 * max(0.0, math.log10(ratio)) / max_log
