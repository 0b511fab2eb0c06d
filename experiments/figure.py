"""Draw differences with their intervals as an SVG, without any package."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from experiments.intervals import Difference

ROW = 26
LEFT = 210
WIDTH = 640
RIGHT = 90
TOP = 34


def intervals(title: str, found: Mapping[str, Difference]) -> str:
    """Return an SVG: a line for each arm from the lower to the upper end, a dot at the mean.

    Args:
        title: Stands above, with the unit.
        found: Name of an arm -> its difference, in the unit.
    """
    ends = [0.0, *(end for one in found.values() for end in (one.low, one.high))]
    low, high = min(ends), max(ends)
    space = max(high - low, 1e-9)

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - low) / space

    height = TOP + ROW * len(found) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="8" y="18" font-weight="bold">{escape(title)}</text>',
        f'<line x1="{x(0):.1f}" x2="{x(0):.1f}" y1="{TOP - 6}" y2="{height - 6}" '
        'stroke="#999" stroke-dasharray="3 3"/>',
    ]
    for index, (name, one) in enumerate(found.items()):
        y = TOP + ROW * index + ROW / 2
        parts += [
            f'<text x="8" y="{y + 4:.1f}">{escape(name)}</text>',
            f'<line x1="{x(one.low):.1f}" x2="{x(one.high):.1f}" y1="{y:.1f}" y2="{y:.1f}" '
            'stroke="#1f5fa8" stroke-width="2"/>',
            f'<circle cx="{x(one.mean):.1f}" cy="{y:.1f}" r="4" fill="#1f5fa8"/>',
            f'<text x="{WIDTH - RIGHT + 12}" y="{y + 4:.1f}">{one.mean:+.1f}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])
