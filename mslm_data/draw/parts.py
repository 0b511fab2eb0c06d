"""Draws what pages and notebooks share: tables, bars, legends, tiles.

Every text is escaped here, so callers pass plain strings.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from mslm_data.log import plain


def text(value: object) -> str:
    """Return a value as HTML text, which may stand between quotes too.

    Nothing in it is markup, and what cannot be seen is cleaned by `plain`.
    """
    return html.escape(plain(str(value), keep="\n\t"), quote=True)


def number(value: float) -> str:
    """Return a count with its thousands marked, or anything else with 4 decimals."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"


def table(head: Sequence[str], rows: Sequence[Sequence[object]], *, name: str = "") -> str:
    """Return a table; columns of numbers stand to the right.

    Args:
        head: The title of each column.
        rows: Cells: numbers, texts, or `Markup`, which stays as it is. The first of a row is its
            heading.
        name: The table's class; "" for none.
    """
    numeric = [
        bool(rows) and all(isinstance(row[column], int | float) for row in rows)
        for column in range(len(head))
    ]
    sides = [' class="n"' if to_right else "" for to_right in numeric]
    titles = "".join(
        f'<th scope="col"{side}>{text(title)}</th>' for title, side in zip(head, sides, strict=True)
    )

    lines = []
    for row in rows:
        cells = [f'<th scope="row">{_cell(row[0])}</th>']
        for value, side in zip(row[1:], sides[1:], strict=True):
            cells.append(f"<td{side}>{_cell(value)}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")

    named = f' class="{name}"' if name else ""
    top = f"<thead><tr>{titles}</tr></thead>"
    body = f"<tbody>{''.join(lines)}</tbody>"
    return f'<div class="scroll"><table{named}>{top}{body}</table></div>'


@dataclass(frozen=True, slots=True)
class Markup:
    """HTML that is safe already, and goes into a table as it is."""

    html: str


def bar(parts: Sequence[tuple[str, float, str]]) -> Markup:
    """Return one bar of several parts.

    Args:
        parts: Class, share of the bar's width in `[0, 1]`, and what a pointer over it shows.
    """
    drawn = [
        f'<i class="{kind}" style="--f:{share:.4f}" title="{text(tip)}"></i>'
        for kind, share, tip in parts
        if share
    ]
    return Markup(f'<div class="bar">{"".join(drawn)}</div>')


def key(entries: Sequence[tuple[str, str]]) -> str:
    """Return a legend: class and words of each entry."""
    drawn = " ".join(
        f'<span><span class="sw {kind}"></span>{text(words)}</span>' for kind, words in entries
    )
    return f'<div class="key">{drawn}</div>'


def tiles(facts: Sequence[tuple[str, str]], *, small: bool = False) -> str:
    """Return facts side by side.

    A list of definitions would be the element for them, but notebooks lay those out in their own
    way. Without the style sheet each fact is a line.

    Args:
        facts: The name and the value of each.
        small: Whether they are less than what readers look for first.
    """
    drawn = "".join(
        f"<div><span>{text(name)}</span> <span>{text(value)}</span></div>" for name, value in facts
    )
    return f'<div class="tiles{" small" if small else ""}">{drawn}</div>'


def _cell(value: object) -> str:
    if isinstance(value, Markup):
        return value.html
    return number(value) if isinstance(value, int | float) else text(value)
