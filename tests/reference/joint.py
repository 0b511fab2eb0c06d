"""Slow twins of the strategies in `mask/recipes/mslm.py`, one row at a time, in lists and exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

from tests.generate import IDS, Row
from tests.reference import rng

NONE, BASE, ENTITY = 0, 1, 2


def joint(
    row: Row,
    *,
    seed: int = 0,
    epoch: int = 0,
    elm: float = 0.5,
    blm: float = 0.15,
    count: str = "fixed",
    pool: str = "all",
) -> list[int]:
    """ELM on stream 0, then BLM on stream 1: Abaho et al. 2024, section 3."""
    kinds = [NONE] * len(row.ids)
    mask_units(
        row, kinds, row.mentions, math.ceil(Fraction(str(elm)) * len(row.mentions)), seed, epoch
    )
    in_mention = {t for start, end, _ in row.mentions for t in range(start, end)}
    mask_tokens(
        row, kinds, blm, count, in_mention if pool == "generic_only" else set(), seed, epoch
    )
    return kinds


def joint_paper(
    row: Row, *, seed: int = 0, epoch: int = 0, elm: float = 1.0, blm: float = 0.075, **options: str
) -> list[int]:
    return joint(row, seed=seed, epoch=epoch, elm=elm, blm=blm, **options)


def elm(row: Row, *, seed: int = 0, epoch: int = 0, elm: float = 0.5) -> list[int]:
    return joint(row, seed=seed, epoch=epoch, elm=elm, blm=0.0)


def blm(row: Row, *, seed: int = 0, epoch: int = 0, blm: float = 0.15, **options: str) -> list[int]:
    return joint(row, seed=seed, epoch=epoch, elm=0.0, blm=blm, **options)


def released(
    row: Row, *, seed: int = 0, epoch: int = 0, elm: float = 1.0, blm: float = 0.075
) -> list[int]:
    """Rows 1 to 5 of the table of differences between the paper and its code."""
    kinds = [NONE] * len(row.ids)
    pieces = released_pieces(row)
    mask_units(row, kinds, pieces, int(elm * len(pieces)), seed, epoch)
    mask_tokens(row, kinds, blm, "bernoulli", set(), seed, epoch)
    return kinds


def released_pieces(row: Row) -> list[tuple[int, int, int]]:
    pieces = []
    for start, end, label in row.mentions:
        first_word = [t for t in range(start, end) if row.word_ids[t] == row.word_ids[start]]
        pieces += [(t, t + 1, label) for t in first_word[:-1]]
        pieces.append((first_word[-1], end, label))
    return pieces


def mask_units(
    row: Row, kinds: list[int], units: list[tuple[int, int, int]], count: int, seed: int, epoch: int
) -> None:
    for u in rng.choose(rng.stream(row.key, seed, epoch, 0), list(range(len(units))), count):
        start, end, _ = units[u]
        kinds[start:end] = [ENTITY] * (end - start)


def mask_tokens(
    row: Row, kinds: list[int], rate: float, count: str, keep_off: set[int], seed: int, epoch: int
) -> None:
    stream = rng.stream(row.key, seed, epoch, 1)
    real = [t for t, word in enumerate(row.word_ids) if word >= 0]
    pool = [t for t in real if kinds[t] == NONE and row.ids[t] != IDS.unk and t not in keep_off]
    if count == "fixed":
        chosen = rng.choose(
            stream, pool, min(math.ceil(Fraction(str(rate)) * len(real)), len(pool))
        )
    else:
        chosen = {t for t in pool if rng.uniform(stream, t) < Fraction(rate)}
    for t in chosen:
        kinds[t] = BASE


def corrupt(row: Row, kinds: list[int], *, seed: int = 0, epoch: int = 0) -> list[int]:
    """80 % [MASK], 10 % any id that is not special, 10 % as it was."""
    actions = rng.named(row.key, seed, epoch, (), 9)
    random_ids = rng.named(row.key, seed, epoch, (), 10)
    allowed = [id_ for id_ in range(IDS.size) if id_ not in IDS.special]
    out = list(row.ids)
    for t, kind in enumerate(kinds):
        draw = rng.uniform(actions, t)
        if kind != NONE and draw < Fraction(0.8):
            out[t] = IDS.mask
        elif kind != NONE and draw < Fraction(0.8 + 0.1):
            out[t] = allowed[rng.below(random_ids, t, len(allowed))]
    return out


TWINS = {
    "joint.v1": joint,
    "joint-paper.v1": joint_paper,
    "elm.v1": elm,
    "blm.v1": blm,
    "joint-released.v1": released,
}
