"""Draw differences with intervals as SVG, without a package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape

from experiments.intervals import Difference, signed

ROW = 26
LEFT = 200
WIDTH = 500  # on a phone its words are still read
RIGHT = 60
TOP = 34
REACH = 10.0
"""Maximum of the axis on both sides. An interval beyond it is drawn as an arrow at the edge."""


def intervals(title: str, found: Mapping[str, Difference]) -> str:
    """Return an SVG with a row per arm: a line for the interval, a dot at the mean.

    It follows the reader's light or dark mode.

    Args:
        title: Title, with the unit.
        found: Name of an arm -> its difference, in this unit.
    """
    ends = [0.0, *(end for one in found.values() for end in (one.low, one.high))]
    low, high = max(min(ends), -REACH), min(max(ends), REACH)
    space = max(high - low, 1e-9)

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (min(max(value, low), high) - low) / space

    height = TOP + ROW * len(found) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13">',
        _STYLE,
        f'<rect class="page" width="{WIDTH}" height="{height}"/>',
        f'<text x="8" y="18" font-weight="bold">{escape(title)}</text>',
        f'<line class="zero" x1="{x(0):.1f}" x2="{x(0):.1f}" y1="{TOP - 6}" y2="{height - 6}"/>',
    ]
    for index, (name, one) in enumerate(found.items()):
        y = TOP + ROW * index + ROW / 2
        parts += [
            f'<text x="8" y="{y + 4:.1f}">{escape(name)}</text>',
            _mark(one, x, y),
            f'<text x="{WIDTH - RIGHT + 12}" y="{y + 4:.1f}">{signed(one.mean)}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


_STYLE = """\
<style>
.page { fill: white } text { fill: #1c1e21 }
.arm { stroke: #1f5fa8; stroke-width: 2; fill: #1f5fa8 }
.zero { stroke: #999; stroke-dasharray: 3 3 }
@media (prefers-color-scheme: dark) {
.page { fill: #131416 } text { fill: #e9eaec } .arm { stroke: #5fb8ee; fill: #5fb8ee }
}
</style>"""


def _mark(one: Difference, x: Callable[[float], float], y: float) -> str:
    """Return an interval with its mean, or an arrow if it lies beyond the axis."""
    if one.high < -REACH or one.low > REACH:
        tip, back = x(one.mean), x(one.mean) + (10 if one.mean < 0 else -10)
        return (
            f'<path class="arm" d="M {tip:.1f} {y:.1f} L {back:.1f} {y - 5:.1f} V {y + 5:.1f} Z"/>'
        )
    return (
        f'<line class="arm" x1="{x(one.low):.1f}" x2="{x(one.high):.1f}" '
        f'y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<circle class="arm" cx="{x(one.mean):.1f}" cy="{y:.1f}" r="4"/>'
    )
