"""Render docs/results/gpu.md from the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.harness import number
from benchmarks.report import markdown_table

_BASE = {"tokens/s": "of the first", "ms": "of the first"}
"""Column -> title of the next column, with ratios to the first row."""


def page(results: Mapping[str, Any]) -> str:
    """Render the page.

    Args:
        results: JSON object written by `benchmarks.gpu`.
    """
    goals = [
        (part["title"], goal["goal"], goal["reached"], "yes" if goal["met"] else "no")
        for part in results["parts"]
        for goal in part["goals"]
    ]
    lines = [
        "# On a graphics card",
        "",
        "Written by `make gpu`, which [benchmarks/gpu/README.md](../../benchmarks/gpu/README.md) "
        f"explains, in {results['seconds']:.0f} seconds. Kernels were compiled within this time. "
        "Each row was measured once, in turn with the others of its table; only rows of one table "
        "can be compared.",
        "",
        *[f"* {line}" for line in results["machine"]],
        "",
        "## Goals",
        "",
        *markdown_table(("of", "goal", "reached", "met"), goals, align="llll"),
        "",
    ]
    for part in results["parts"]:
        lines += _section(part)
    return "\n".join(lines)


def _section(part: Mapping[str, Any]) -> list[str]:
    lines = [f"## {part['title']}", ""]
    if part.get("error"):
        lines += [f"Ended early: {part['error']}.", ""]
    lines += [f"* {line}" for line in part["about"]]
    lines += ["", *_table(part["rows"]), ""]
    return lines


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    measured = [row["numbers"] for row in rows if "numbers" in row]
    if not rows:
        return ["Nothing was measured."]

    # Columns in order of appearance, without those empty in all rows.
    columns = list(dict.fromkeys(name for numbers in measured for name in numbers))
    columns = [name for name in columns if any(_has(numbers, name) for numbers in measured)]
    head = []
    for name in columns:
        head += [name, _BASE[name]] if name in _BASE else [name]

    cells_of_rows = []
    for row in rows:
        cells = [row["name"]]
        if "numbers" not in row:
            reason = row.get("left out") or f"failed: {row['error']}"
            cells += [reason, *[""] * (len(head) - 1)] if head else [reason]
        else:
            for name in columns:
                value = row["numbers"].get(name)
                cells.append(_cell(value))
                if name in _BASE:
                    cells.append(_ratio(value, measured[0].get(name)))
        cells_of_rows.append(cells)
    return markdown_table(["", *head], cells_of_rows, align="l" + "r" * len(head))


def _has(numbers: Mapping[str, Any], name: str) -> bool:
    return numbers.get(name) not in (None, "")


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else number(value)


def _ratio(value: Any, first: Any) -> str:
    return f"{value / first:.2f}x" if value and first else "-"
