"""Slow twin of `batches/mix.py` and `kernels/mixing.py`: walks an epoch place by place, with fractions."""

from __future__ import annotations

from fractions import Fraction
from math import floor

from tests.reference import rng
from tests.reference.order import shuffled, stream_of


def stood_before(place: int, rows: list[int]) -> list[int]:
    """Return how often each split stands before a place: those of most rows take their share first."""
    before = [0] * len(rows)
    left, rest = place, sum(rows)
    for split in sorted(range(len(rows)), key=lambda split: -rows[split]):
        before[split] = floor(Fraction(left * rows[split], rest) + Fraction(1, 2))
        left -= before[split]
        rest -= rows[split]
    return before


def epoch_rows(
    sizes: list[int], rows: list[int], seed: int, epoch: int
) -> list[tuple[int, int, int]]:
    """Return split, round of the epoch and row at each place of a shuffled epoch.

    Args:
        sizes: Number of rows that each split has.
        rows: Number of rows that an epoch takes of each.
        seed: Of the order.
        epoch: Its number.
    """
    found = []
    for place in range(sum(rows)):
        before, after = stood_before(place, rows), stood_before(place + 1, rows)
        (split,) = [split for split in range(len(rows)) if after[split] > before[split]]
        given = epoch * rows[split] + before[split]
        number, within = divmod(given, sizes[split])
        row = shuffled(within, stream_of(0x0BDE, seed, number % 2**63), sizes[split])
        found.append((split, number - epoch * rows[split] // sizes[split], row))
    return found


def key(own: int, number: int) -> int:
    """Return the key of a row in a round of an epoch."""
    return own if number == 0 else rng.fold_in(rng.fold_in(own, 0x2E9EA7), number)
