"""Bars, histograms and grids as HTML and inline SVG.

Every text is escaped here, so callers pass plain strings.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 360, 190, 46, 8, 14, 36
_LABELS = 9
"""How many bins are labelled at most."""
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff]")


def text(value: object) -> str:
    """Return a value as HTML text, also good between quotes.

    Nothing in it is markup; controls become U+FFFD.
    """
    return html.escape(_CONTROLS.sub("\ufffd", str(value)), quote=True)


def number(value: float) -> str:
    """Return a count with its thousands marked, or anything else with 4 decimals."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"


def table(head: Sequence[str], rows: Sequence[Sequence[object]], *, name: str = "") -> str:
    """Return a table; the first column is a heading, numbers stand to the right.

    `Markup` stays as it is.
    """
    right = [
        bool(rows) and all(isinstance(row[c], int | float) for row in rows)
        for c in range(len(head))
    ]
    sides = [' class="n"' if to_right else "" for to_right in right]
    top = "".join(
        f'<th scope="col"{side}>{text(title)}</th>' for title, side in zip(head, sides, strict=True)
    )
    body = []
    for row in rows:
        cells = [f'<th scope="row">{_cell(row[0])}</th>']
        cells += [
            f"<td{side}>{_cell(value)}</td>" for value, side in zip(row[1:], sides[1:], strict=True)
        ]
        body.append(f"<tr>{''.join(cells)}</tr>")
    named = f' class="{name}"' if name else ""
    rows = "".join(body)
    table = f"<table{named}><thead><tr>{top}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="scroll">{table}</div>'


@dataclass(frozen=True, slots=True)
class Markup:
    """HTML made here, to go into a table as it is."""

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
    """Return a histogram.

    Args:
        labels: Of each bin.
        values: Of each bin, 0 or more.
        of_these: The part of each value that is drawn in another colour, from the ground up.
        x: What the bins are.
        mean: Where to draw a line, counted in bins from the middle of the first; None for no line.
    """
    most, bins = max(values, default=0) or 1, max(len(values), 1)
    step = (_WIDTH - _LEFT - _RIGHT) / bins
    ground, room = _HEIGHT - _BOTTOM, _HEIGHT - _BOTTOM - _TOP
    drawn = []
    for share in (0.0, 0.5, 1.0):
        y = ground - share * room
        drawn.append(f'<path class="axis" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>')
        drawn.append(
            f'<text x="{_LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{_short(most * share)}</text>'
        )
    each = -(-bins // _LABELS)
    for k, (label, value, part) in enumerate(zip(labels, values, of_these, strict=True)):
        left = _LEFT + k * step
        if k == bins - 1 or (k % each == 0 and k <= bins - 1 - each):
            drawn.append(
                f'<text x="{left + step / 2:.1f}" y="{ground + 14}" text-anchor="middle">{text(label)}</text>'
            )
        tip = f"<title>{text(label)}: {value:,}{f', {part:,} of them under budget' if part else ''}</title>"
        for kind, low, high in (("o", 0, part), ("a", part, value)):
            if high > low:
                top, height = ground - high / most * room, (high - low) / most * room
                drawn.append(
                    f'<rect class="{kind}" x="{left + step * 0.08:.2f}" y="{top:.2f}" width="{step * 0.84:.2f}" '
                    f'height="{height:.2f}">{tip}</rect>'
                )
    if mean is not None:
        place = _LEFT + (min(mean, bins - 1) + 0.5) * step
        drawn.append(f'<path class="mean" d="M{place:.1f} {_TOP - 4}V{ground}"/>')
    drawn.append(
        f'<text x="{(_LEFT + _WIDTH) / 2}" y="{_HEIGHT - 6}" text-anchor="middle">{text(x)}</text>'
    )
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{text(x)}">{"".join(drawn)}</svg>'


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a grid: number and small text, shade in `[0, 1]`, and whether it is hatched."""

    value: str
    below: str
    shade: float
    hatched: bool = False


def grid(
    corner: str, rows: Sequence[str], columns: Sequence[str], cells: Sequence[Sequence[Cell]]
) -> str:
    """Return a table with cells shaded by value; the corner names its rows and columns."""
    top = "".join(f'<th scope="col">{text(column)}</th>' for column in columns)
    body = []
    for name, line in zip(rows, cells, strict=True):
        drawn = [
            f'<td{" class=sat" if cell.hatched else ""} style="--f:{cell.shade:.4f}">{text(cell.value)}'
            f"<small>{text(cell.below)}</small></td>"
            for cell in line
        ]
        body.append(f'<tr><th scope="row">{text(name)}</th>{"".join(drawn)}</tr>')
    head = f'<thead><tr><th scope="col">{text(corner)}</th>{top}</tr></thead>'
    return f'<div class="scroll"><table class="heat">{head}<tbody>{"".join(body)}</tbody></table></div>'


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
