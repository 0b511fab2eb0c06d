"""Draws tables, bars, histograms and grids as HTML and inline SVG.

Every text is escaped here, so callers pass plain strings.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from mslm_data.log import plain

# The size of a histogram and the margins around its bars, in units of the drawing.
_WIDTH = 360
_HEIGHT = 190
_LEFT = 46
_RIGHT = 8
_TOP = 14
_BOTTOM = 36

_LABELS = 9
"""Maximum number of bins that have a label."""


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
    drawn = "".join(
        f'<span><span class="sw {kind}"></span>{text(words)}</span>' for kind, words in entries
    )
    return f'<div class="key">{drawn}</div>'


def figure(title: str, caption: str, body: str) -> str:
    """Return a drawing with its title and what it shows."""
    return f"<figure><figcaption><b>{text(title)}</b>{text(caption)}</figcaption>{body}</figure>"


def histogram(
    labels: Sequence[str],
    values: Sequence[int],
    of_these: Sequence[int],
    *,
    x: str,
    mean: float | None = None,
) -> str:
    """Return a histogram as SVG.

    Args:
        labels: The label of each bin.
        values: The count of each bin, 0 or more.
        of_these: The part of each count that is drawn in another colour, from the ground up.
        x: What the bins are.
        mean: Where to draw a line, counted in bins from the middle of the first; None for no line.
    """
    most = max(values, default=0) or 1
    bins = max(len(values), 1)
    step = (_WIDTH - _LEFT - _RIGHT) / bins
    ground = _HEIGHT - _BOTTOM
    drawn = _axis(most)

    # Every so many bins have a label, and the last one, which must not touch the one before it.
    each = -(-bins // _LABELS)
    for k, (label, value, part) in enumerate(zip(labels, values, of_these, strict=True)):
        left = _LEFT + k * step
        if k == bins - 1 or (k % each == 0 and k <= bins - 1 - each):
            drawn.append(
                f'<text x="{left + step / 2:.1f}" y="{ground + 14}" text-anchor="middle">'
                f"{text(label)}</text>"
            )

        under = f", {part:,} of them under budget" if part else ""
        tip = f"<title>{text(label)}: {value:,}{under}</title>"
        drawn.append(_bar_of_bin("o", left, step, 0, part, most, tip))
        drawn.append(_bar_of_bin("a", left, step, part, value, most, tip))

    if mean is not None:
        place = _LEFT + (min(mean, bins - 1) + 0.5) * step
        drawn.append(f'<path class="mean" d="M{place:.1f} {_TOP - 4}V{ground}"/>')

    middle = (_LEFT + _WIDTH) / 2
    drawn.append(f'<text x="{middle}" y="{_HEIGHT - 6}" text-anchor="middle">{text(x)}</text>')
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{text(x)}">'
        f"{''.join(drawn)}</svg>"
    )


def _axis(most: int) -> list[str]:
    """Return three lines with their counts: the ground, half way and the top."""
    ground = _HEIGHT - _BOTTOM
    room = ground - _TOP

    drawn = []
    for share in (0.0, 0.5, 1.0):
        y = ground - share * room
        drawn.append(f'<path class="axis" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>')
        drawn.append(
            f'<text x="{_LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{_short(most * share)}</text>'
        )
    return drawn


def _bar_of_bin(
    kind: str, left: float, step: float, low: int, high: int, most: int, tip: str
) -> str:
    """Return the part of a bin's bar between two counts; "" if they are equal."""
    if high <= low:
        return ""

    ground = _HEIGHT - _BOTTOM
    room = ground - _TOP
    top = ground - high / most * room
    height = (high - low) / most * room
    return (
        f'<rect class="{kind}" x="{left + step * 0.08:.2f}" y="{top:.2f}" '
        f'width="{step * 0.84:.2f}" height="{height:.2f}">{tip}</rect>'
    )


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a grid.

    Attributes:
        value: Its number, as text.
        below: Small text below the number.
        shade: How dark it is, in `[0, 1]`.
        hatched: Whether it is hatched.
    """

    value: str
    below: str
    shade: float
    hatched: bool = False


def grid(
    corner: str, rows: Sequence[str], columns: Sequence[str], cells: Sequence[Sequence[Cell]]
) -> str:
    """Return a table whose cells are shaded by their value.

    Args:
        corner: What rows and columns are, for the corner.
        rows: The heading of each row.
        columns: The heading of each column.
        cells: The cells of each row.
    """
    titles = "".join(f'<th scope="col">{text(column)}</th>' for column in columns)

    lines = []
    for name, line in zip(rows, cells, strict=True):
        drawn = []
        for cell in line:
            hatched = " class=sat" if cell.hatched else ""
            drawn.append(
                f'<td{hatched} style="--f:{cell.shade:.4f}">{text(cell.value)}'
                f"<small>{text(cell.below)}</small></td>"
            )
        lines.append(f'<tr><th scope="row">{text(name)}</th>{"".join(drawn)}</tr>')

    top = f'<thead><tr><th scope="col">{text(corner)}</th>{titles}</tr></thead>'
    body = f"<tbody>{''.join(lines)}</tbody>"
    return f'<div class="scroll"><table class="heat">{top}{body}</table></div>'


def _cell(value: object) -> str:
    if isinstance(value, Markup):
        return value.html
    return number(value) if isinstance(value, int | float) else text(value)


def _short(value: float) -> str:
    """Return a count in few characters."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= 10 * size:
            return f"{value / size:.0f}{unit}"
        if value >= size:
            return f"{value / size:.1f}{unit}"
    return f"{value:.0f}"
