"""Measures histograms, which `templates/charts.html` draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

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


class Bin(NamedTuple):
    """A bin of a histogram.

    Attributes:
        x: Its left edge.
        width: Its width.
        label: What stands below it; "" for nothing.
        tip: What a pointer over it shows.
        bars: Class, top edge and height of each part of its bar, from the ground up.
    """

    x: float
    width: float
    label: str
    tip: str
    bars: list[tuple[str, float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """A histogram, measured.

    Attributes:
        title: What is counted.
        caption: More words on it.
        x: What the bins are.
        said: The drawing in words, for those who hear the page.
        lines: Height and count of each line.
        bins: From left to right.
        mean: Where to draw a line down; None for nowhere.
        most: The largest count.
    """

    title: str
    caption: str
    x: str
    said: str
    lines: list[tuple[float, str]]
    bins: list[Bin]
    mean: float | None
    most: int
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
    """Measure a histogram.

    Args:
        labels: The label of each bin.
        values: The count of each bin, 0 or more.
        parts: The part of each count that is drawn in another colour, from the ground up; empty
            for none.
        title: What is counted.
        caption: More words on it.
        x: What the bins are.
        part: What the parts are.
        mean: Where to draw a line, counted in bins from the middle of the first; None for no line.
        top: A count that the axis reaches at least.
    """
    distance, most = _lines_up_to(max(*values, top, 1) if values else max(top, 1))
    count = max(len(values), 1)
    step = (_WIDTH - _LEFT - _RIGHT) / count
    ground = _HEIGHT - _BOTTOM
    unit = (ground - _TOP) / most

    # Every so many bins have a label, and the last one, which must not touch the one before it.
    each = -(-count // _LABELS)
    bins = []
    for k, (label, value) in enumerate(zip(labels, values, strict=True)):
        own = parts[k] if parts else 0
        is_named = k == count - 1 or (k % each == 0 and k <= count - 1 - each)
        bars = [
            (kind, ground - high * unit, (high - low) * unit)
            for kind, low, high in (("o", 0, own), ("a", own, value))
            if high > low
        ]
        tip = f"{label}: {value:,}" + (f", {own:,} of them {part}" if own else "")
        bins.append(Bin(_LEFT + k * step, step, label if is_named else "", tip, bars))

    highest = max(range(len(values)), key=lambda k: values[k], default=None)
    said = title if highest is None else f"{title}: most at {labels[highest]}, {values[highest]:,}"
    return Histogram(
        title=title,
        caption=caption,
        x=x,
        said=said,
        lines=[(ground - count * unit, _short(count)) for count in range(0, most + 1, distance)],
        bins=bins,
        most=max(values, default=0),
        mean=None if mean is None else _LEFT + (min(mean, count - 1) + 0.5) * step,
    )


def cut_tail(values: Sequence[int], *, fewest: int = 4) -> list[int]:
    """Return a histogram whose last bin counts everything beyond it too.

    Args:
        values: The count of each bin.
        fewest: Minimum number of bins; besides these, as many stay as hold 99 in 100.
    """
    total = sum(values)
    seen = 0
    length = 0
    while length < len(values) and (seen < 0.99 * total or length < fewest):
        seen += values[length]
        length += 1
    return [*values[: max(length - 1, 0)], sum(values[max(length - 1, 0) :])]


def name_bins(first: int, count: int, *, width: int = 1, open_end: bool) -> list[str]:
    """Return where bins begin; with an open end the last counts everything beyond it too."""
    names = [str(first + k * width) for k in range(count)]
    return [*names[:-1], f"{names[-1]}+"] if open_end and names else names


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


def _short(value: float) -> str:
    """Return a count in few characters."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= 10 * size:
            return f"{value / size:.0f}{unit}"
        if value >= size:
            return f"{value / size:.1f}".removesuffix(".0") + unit
    return f"{value:.0f}"
