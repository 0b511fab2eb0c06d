"""Compute the geometry of histograms, which `templates/charts.html` draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

# Size of a histogram, and margins around its bars, in SVG units.
_WIDTH = 360
_HEIGHT = 190
_LEFT = 46
_RIGHT = 8
_TOP = 14
_BOTTOM = 36

_LINES = 4
"""Maximum number of grid lines above the baseline."""
_LABELS = 9
"""Maximum number of labelled bins."""


class Bin(NamedTuple):
    """A bin of a histogram.

    Attributes:
        x: Left edge.
        width: Width.
        label: Text below the bin; "" for none.
        tip: Tooltip.
        bars: CSS class, top edge and height of each part of the bar, from bottom to top.
    """

    x: float
    width: float
    label: str
    tip: str
    bars: list[tuple[str, float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """The geometry of a histogram.

    Attributes:
        title: Name of the counted things.
        caption: Text after the title.
        x: Label of the horizontal axis.
        description: Alternative text for screen readers.
        lines: Height and label of each grid line.
        bins: Bins, from left to right.
        mean: Position of the vertical line, or None.
        largest: Largest count.
    """

    title: str
    caption: str
    x: str
    description: str
    lines: list[tuple[float, str]]
    bins: list[Bin]
    mean: float | None
    largest: int
    width: int = _WIDTH
    height: int = _HEIGHT
    left: int = _LEFT
    right: int = _WIDTH - _RIGHT
    top: int = _TOP
    ground: int = _HEIGHT - _BOTTOM


def histogram(
    labels: Sequence[str],
    values: Sequence[int],
    parts: Sequence[int] = (),
    *,
    title: str,
    caption: str = "",
    x: str,
    part: str = "",
    mean: float | None = None,
    top: int = 0,
) -> Histogram:
    """Compute the geometry of a histogram.

    Args:
        labels: Label of each bin.
        values: Count of each bin, 0 or more.
        parts: Part of each count to draw in another colour, at the bottom of its bar. Default:
            none.
        title: Name of the counted things.
        caption: Text after the title. Default: "".
        x: Label of the horizontal axis.
        part: Name of the parts, for tooltips. Default: "".
        mean: Position of a vertical line, in bins from the middle of the first. Default: no line.
        top: Minimum of the axis' largest count, to give several histograms the same axis. Default:
            0.
    """
    # The grid, and the width of a bin.
    distance, axis_top = _grid(max(*values, top, 1) if values else max(top, 1))
    count = max(len(values), 1)
    step = (_WIDTH - _LEFT - _RIGHT) / count
    ground = _HEIGHT - _BOTTOM
    unit = (ground - _TOP) / axis_top

    # Label every k-th bin and the last bin. A bin too close to the last has no label.
    interval = -(-count // _LABELS)
    bins = []
    for k, (label, value) in enumerate(zip(labels, values, strict=True)):
        part_value = parts[k] if parts else 0
        has_label = k == count - 1 or (k % interval == 0 and k <= count - 1 - interval)
        bars = [
            (kind, ground - high * unit, (high - low) * unit)
            for kind, low, high in (("o", 0, part_value), ("a", part_value, value))
            if high > low
        ]
        tip = f"{label}: {value:,}" + (f", {part_value:,} of them {part}" if part_value else "")
        bins.append(Bin(_LEFT + k * step, step, label if has_label else "", tip, bars))

    highest = max(range(len(values)), key=lambda k: values[k], default=None)
    if highest is None:
        description = title
    else:
        description = f"{title}: most at {labels[highest]}, {values[highest]:,}"
    return Histogram(
        title=title,
        caption=caption,
        x=x,
        description=description,
        lines=[
            (ground - count * unit, _short(count)) for count in range(0, axis_top + 1, distance)
        ],
        bins=bins,
        largest=max(values, default=0),
        mean=None if mean is None else _LEFT + (min(mean, count - 1) + 0.5) * step,
    )


def cut_tail(values: Sequence[int], *, fewest: int = 4) -> list[int]:
    """Cut the tail of a histogram, and add its counts to the last bin.

    Args:
        values: Count of each bin.
        fewest: Minimum number of bins. More bins are kept until they hold 99 % of all counts.
    """
    total = sum(values)
    seen = 0
    length = 0
    while length < len(values) and (seen < 0.99 * total or length < fewest):
        seen += values[length]
        length += 1
    return [*values[: max(length - 1, 0)], sum(values[max(length - 1, 0) :])]


def name_bins(first: int, count: int, *, width: int = 1, open_end: bool) -> list[str]:
    """Return the lower bound of each bin as its label; the last one of an open end has a `+`."""
    names = [str(first + k * width) for k in range(count)]
    return [*names[:-1], f"{names[-1]}+"] if open_end and names else names


def _grid(count: int) -> tuple[int, int]:
    """Return the distance between grid lines, and the height of the highest line.

    Distances are 1, 2 or 5 times a power of ten. There are at most `_LINES` lines up to the first
    at or above `count`.
    """
    unit = 1
    while True:
        for distance in (unit, 2 * unit, 5 * unit):
            lines = -(-count // distance)
            if lines <= _LINES:
                return distance, lines * distance
        unit *= 10


def _short(value: float) -> str:
    """Format a count in few characters, such as `12k`."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= 10 * size:
            return f"{value / size:.0f}{unit}"
        if value >= size:
            return f"{value / size:.1f}".removesuffix(".0") + unit
    return f"{value:.0f}"
