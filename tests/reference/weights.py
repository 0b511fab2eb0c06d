"""Slow twin of `stats/weights.py`: exact fractions up to the softmax, which is its closed form."""

from __future__ import annotations

import math
from fractions import Fraction

HALF = Fraction(1, 2)


def raw(n_elm: int, n_blm: int) -> tuple[Fraction, Fraction]:
    """Eq. 2; both one half where nothing is masked."""
    if n_elm + n_blm == 0:
        return HALF, HALF
    return 1 - Fraction(n_elm, n_elm + n_blm), 1 - Fraction(n_blm, n_elm + n_blm)


def sigmoid_of_gap(elm: Fraction, blm: Fraction) -> tuple[float, float]:
    """Eq. 5: the softmax of two numbers is the sigmoid of their difference."""
    w_elm = 1 / (1 + math.exp(-float(elm - blm)))
    return w_elm, 1 - w_elm


def paper(n_elm: int, n_blm: int) -> tuple[float, float]:
    """Eq. 2 to 5."""
    elm, blm = raw(n_elm, n_blm)
    return sigmoid_of_gap(max(HALF, elm), min(HALF, blm))


def released(n_elm: int, n_blm: int) -> tuple[float, float]:
    """Eq. 3 with the released code's slip."""
    _, blm = raw(n_elm, n_blm)
    return sigmoid_of_gap(max(HALF, blm), min(HALF, blm))
