"""Draws histograms and grids as HTML and inline SVG.

Every text is escaped here, so callers pass plain strings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mslm_data.draw.parts import text

# The size of a histogram and the margins around its bars, in units of the drawing.
_WIDTH = 360
_HEIGHT = 190
_LEFT = 46
_RIGHT = 8
_TOP = 14
_BOTTOM = 36

_LINES = 4
"""Maximum number of lines above the ground of a histogram."""
_LABELS = 9
"""Maximum number of bins that have a label."""


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
    top: int = 0,
) -> str:
    """Return a histogram as SVG.

    Args:
        labels: The label of each bin.
        values: The count of each bin, 0 or more.
        of_these: The part of each count that is drawn in another colour, from the ground up.
        x: What the bins are.
        mean: Where to draw a line, counted in bins from the middle of the first; None for no line.
        top: A count that the axis reaches at least.
    """
    each_line, most = _lines_up_to(max(*values, top, 1))
    bins = max(len(values), 1)
    step = (_WIDTH - _LEFT - _RIGHT) / bins
    ground = _HEIGHT - _BOTTOM
    drawn = _axis(each_line, most)

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


def _lines_up_to(count: int) -> tuple[int, int]:
    """Return the least round distance of lines of which few reach a count, and their height.

    Distances are 1, 2 or 5 times a power of ten.
    """
    unit = 1
    while True:
        for distance in (unit, 2 * unit, 5 * unit):
            lines = -(-count // distance)
            if lines <= _LINES:
                return distance, lines * distance
        unit *= 10


def _axis(distance: int, most: int) -> list[str]:
    """Return lines with their counts, from the ground to the top."""
    ground = _HEIGHT - _BOTTOM
    room = ground - _TOP

    drawn = []
    for count in range(0, most + 1, distance):
        y = ground - count / most * room
        drawn.append(f'<path class="axis" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>')
        drawn.append(
            f'<text x="{_LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{_short(count)}</text>'
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


def _short(value: float) -> str:
    """Return a count in few characters."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= 10 * size:
            return f"{value / size:.0f}{unit}"
        if value >= size:
            return f"{value / size:.1f}".removesuffix(".0") + unit
    return f"{value:.0f}"
