"""Slow twin of `mask/diffusion.py`, one row at a time, in exact fractions."""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import Any

from tests.generate import Row
from tests.reference import rng
from tests.reference.picks import units_of

RATE = 3 << 16


def rate(
    row: Row,
    *,
    seed: int = 0,
    epoch: int = 0,
    low: float = 0.001,
    high: float = 1.0,
    complement: bool = False,
    sampling: str = "kronecker",
    **_: Any,
) -> float:
    """Return t of the even epoch of a pair, or of the epoch where there are no pairs."""
    top = min(high, 1 - low) if complement else high
    first = epoch - epoch % 2 if complement else epoch
    if sampling == "uniform":
        whole = rng.bits(rng.stream(row.key, seed, first, RATE), 0)
    else:
        step = epoch // 2 if complement else epoch
        whole = rng.bits(rng.stream(row.key, seed, 0, RATE), 0) + step * rng.GOLDEN
    place = (whole % rng.WRAP) // 2**11 / 2**53
    return float(struct.unpack("f", struct.pack("f", low + (top - low) * place))[0])


def diffusion(
    row: Row, *, seed: int = 0, epoch: int = 0, units: str = "tokens", **options: Any
) -> list[int]:
    t = Fraction(rate(row, seed=seed, epoch=epoch, **options))
    is_second = bool(options.get("complement")) and epoch % 2 == 1
    coins = rng.stream(row.key, seed, epoch - is_second, 0)

    alone = units_of(row, "words" if units == "words" else "tokens")
    mentions = units_of(row, "mentions") if units == "mentions" else []
    inside = {t for mention in mentions for t in mention}

    kinds = [0] * len(row.ids)
    for unit in [unit for unit in alone if unit[0] not in inside] + mentions:
        if (rng.uniform(coins, unit[0]) < t) != is_second:
            for place in unit:
                kinds[place] = 2 if unit in mentions else 1
    return kinds


TWINS = {"diffusion.v1": diffusion}
