"""Draw differences with intervals as SVG, without a package."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape

import numpy as np

from experiments.intervals import Difference, signed

ROW = 26
LEFT = 200
WIDTH = 500  # on a phone its words are still read
RIGHT = 60
TOP = 34
CURVE_HEIGHT = 260
REACH = 10.0
"""Maximum of the axis on both sides. An interval beyond it is drawn as an arrow at the edge."""


def intervals(title: str, by_arm: Mapping[str, Difference]) -> str:
    """Return an SVG with a row per arm: a line for the interval, a dot at the mean.

    It follows the reader's light or dark mode.

    Args:
        title: Title, with the unit.
        by_arm: Name of an arm -> its difference, in this unit.
    """
    ends = [0.0, *(end for gain in by_arm.values() for end in (gain.low, gain.high))]
    low, high = max(min(ends), -REACH), min(max(ends), REACH)
    space = max(high - low, 1e-9)

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (min(max(value, low), high) - low) / space

    height = TOP + ROW * len(by_arm) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13">',
        _STYLE,
        f'<rect class="page" width="{WIDTH}" height="{height}"/>',
        f'<text x="8" y="18" font-weight="bold">{escape(title)}</text>',
        f'<line class="zero" x1="{x(0):.1f}" x2="{x(0):.1f}" y1="{TOP - 6}" y2="{height - 6}"/>',
    ]
    for index, (name, gain) in enumerate(by_arm.items()):
        y = TOP + ROW * index + ROW / 2
        parts += [
            f'<text x="8" y="{y + 4:.1f}">{escape(name)}</text>',
            _mark(gain, x, y),
            f'<text x="{WIDTH - RIGHT + 12}" y="{y + 4:.1f}">{signed(gain.mean)}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


def curves(title: str, by_arm: Mapping[str, Sequence[tuple[int, float]]]) -> str:
    """Return an SVG with a line per arm over numbers of documents, on a logarithmic axis.

    It follows the reader's light or dark mode. Arms differ by dashes and have their names at the
    ends of their lines.

    Args:
        title: Title, with the unit.
        by_arm: Name of an arm -> numbers of documents, ascending, and F1 in [0, 1].
    """
    numbers = sorted({number for points in by_arm.values() for number, _ in points})
    heights = [f1 for points in by_arm.values() for _, f1 in points]
    low, high = min(heights), max(heights)
    places = np.log(numbers)
    bottom, right = CURVE_HEIGHT - 34, WIDTH - 110

    def x(number: int) -> float:
        share = (np.log(number) - places[0]) / max(places[-1] - places[0], 1e-9)
        return float(50 + (right - 50) * share)

    def y(f1: float) -> float:
        return bottom - (bottom - TOP - 10) * (f1 - low) / max(high - low, 1e-9)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{CURVE_HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {CURVE_HEIGHT}" font-family="sans-serif" font-size="13">',
        _STYLE,
        f'<rect class="page" width="{WIDTH}" height="{CURVE_HEIGHT}"/>',
        f'<text x="8" y="18" font-weight="bold">{escape(title)}</text>',
        *(
            f'<text x="{x(number):.1f}" y="{bottom + 24}" text-anchor="middle">{number}</text>'
            for number in numbers
        ),
        *(f'<text x="8" y="{y(f1) + 4:.1f}">{100 * f1:.1f}</text>' for f1 in {low, high}),
    ]
    ends = _apart([y(points[-1][1]) for points in by_arm.values()])
    for (name, points), dash, end in zip(by_arm.items(), _DASHES, ends, strict=False):
        line = " ".join(f"{x(number):.1f},{y(f1):.1f}" for number, f1 in points)
        parts += [
            f'<polyline class="curve" points="{line}" stroke-dasharray="{dash}"/>',
            f'<text x="{right + 8}" y="{end + 4:.1f}">{escape(name)}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


def _apart(heights: Sequence[float]) -> list[float]:
    """Move labels down until none overlaps the one above."""
    moved = dict.fromkeys(range(len(heights)), 0.0)
    last = -np.inf
    for number in sorted(moved, key=lambda number: heights[number]):
        last = moved[number] = max(heights[number], last + 16)
    return [float(height) for height in moved.values()]


_DASHES = ("none", "6 3", "2 3", "9 3 2 3", "1 2")
_STYLE = """\
<style>
.page { fill: white } text { fill: #1c1e21 }
.arm { stroke: #1f5fa8; stroke-width: 2; fill: #1f5fa8 }
.curve { stroke: #1f5fa8; stroke-width: 2; fill: none }
.zero { stroke: #999; stroke-dasharray: 3 3 }
@media (prefers-color-scheme: dark) {
.page { fill: #131416 } text { fill: #e9eaec } .arm { stroke: #5fb8ee; fill: #5fb8ee }
.curve { stroke: #5fb8ee }
}
</style>"""


def _mark(gain: Difference, x: Callable[[float], float], y: float) -> str:
    """Return an interval with its mean, or an arrow if it lies beyond the axis."""
    if gain.high < -REACH or gain.low > REACH:
        tip, back = x(gain.mean), x(gain.mean) + (10 if gain.mean < 0 else -10)
        return (
            f'<path class="arm" d="M {tip:.1f} {y:.1f} L {back:.1f} {y - 5:.1f} V {y + 5:.1f} Z"/>'
        )
    return (
        f'<line class="arm" x1="{x(gain.low):.1f}" x2="{x(gain.high):.1f}" '
        f'y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<circle class="arm" cx="{x(gain.mean):.1f}" cy="{y:.1f}" r="4"/>'
    )
