"""Slow twin of `mask/choose.py` for what needs no score, and of the strategies of `mask/combined.py`."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import groupby
from typing import Any

from tests.generate import IDS, Row
from tests.reference import draws, joint

ROUND, GATE, BRANCH = 1 << 16, 2 << 16, 4 << 16
KINDS = {"base": 1, "entity": 2}


def stream(row: Row, seed: int, epoch: int, stage: int) -> int:
    return draws.stream(row.key, seed, epoch, stage)


def units_of(row: Row, hide: str) -> list[list[int]]:
    """Return the tokens of each unit."""
    if hide == "mentions":
        return [list(range(start, end)) for start, end, _ in row.mentions]
    if hide == "released pieces":
        return [list(range(start, end)) for start, end, _ in joint.released_pieces(row)]
    real = [t for t, word in enumerate(row.word_ids) if word >= 0]
    if hide == "tokens":
        return [[t] for t in real]
    return [list(group) for _, group in groupby(real, key=lambda t: row.word_ids[t])]


def choose(
    row: Row,
    kinds: list[int],
    *,
    seed: int,
    epoch: int,
    stage: int = 0,
    hide: str = "tokens",
    rate: float,
    of: str = "units",
    rounding: str = "up",
    least: int = 0,
    most: int | None = None,
    how: str = "uniform",
    overrun: str = "skip",
    among: str = "any",
    unknown: bool = False,
    gate: float = 1.0,
    kind: str = "base",
) -> int:
    """Write what is taken to `kinds`, and return what is owed."""
    inside = {t for start, end, _ in row.mentions for t in range(start, end)}
    units = units_of(row, hide)

    def open_(t: int) -> bool:
        known = unknown or row.ids[t] != IDS.unk
        return (
            kinds[t] == 0 and known and (among == "any" or (t in inside) == (among == "mentions"))
        )

    pool = [u for u, unit in enumerate(units) if all(open_(t) for t in unit)]
    runs = draws.uniform(stream(row, seed, epoch, stage + GATE), 0) < Fraction(gate) or gate == 1
    numbers = stream(row, seed, epoch, stage)
    place = {u: units[u][0] if hide == "tokens" else u for u in pool}  # which draw is a unit's own
    if how == "each":
        for u in pool:
            if runs and draws.uniform(numbers, place[u]) < Fraction(rate):
                for t in units[u]:
                    kinds[t] = KINDS[kind]
        return 0
    real = sum(word >= 0 for word in row.word_ids)
    size = {"units": len(units), "tokens": real, "all tokens": len(row.ids)}[of]
    budget = {
        "up": math.ceil(Fraction(str(rate)) * size),
        "down": int(rate * size),
        "nearest": round(rate * size),
        "random": int(
            rate * size + float(draws.uniform(stream(row, seed, epoch, stage + ROUND), 0))
        ),
    }[rounding]
    budget = min(budget, budget if most is None else most)
    budget = max(budget, least) if real else budget
    left = budget if runs else 0
    if how == "again":
        for k in range(left if pool else 0):
            for t in units[pool[draws.below(numbers, k, len(pool))]]:
                kinds[t] = KINDS[kind]
        return 0 if pool else left
    order = list(pool)
    for k in range(len(order)):
        if left <= 0:
            break
        j = k + draws.below(numbers, k, len(order) - k)
        order[k], order[j] = order[j], order[k]
        taken = units[order[k]]
        cost = 1 if of == "units" else len(taken)
        if cost > left and overrun == "stop":
            break
        if cost > left and overrun == "skip":
            continue
        if cost > left and overrun == "cut":
            taken = taken[:left]
        left -= min(cost, left)
        for t in taken:
            kinds[t] = KINDS[kind]
    return left


def stages(
    row: Row, *, seed: int = 0, epoch: int = 0, of: list[dict[str, Any]], first: int = 0
) -> list[int]:
    kinds = [0] * len(row.ids)
    for number, stage in enumerate(of):
        choose(row, kinds, seed=seed, epoch=epoch, stage=first + number, **stage)
    return kinds


def mixture(row: Row, *, seed: int = 0, epoch: int = 0, of: list[dict[str, Any]]) -> list[int]:
    drawn, total = draws.uniform(stream(row, seed, epoch, 0xFFFF + BRANCH), 0), 0.0
    for table in of:
        total += table["chance"]
        if drawn < Fraction(total):
            return used(table, row, seed, epoch)
    return [0] * len(row.ids)


def curriculum(row: Row, *, seed: int = 0, epoch: int = 0, of: list[dict[str, Any]]) -> list[int]:
    begin = 0
    for table in of[:-1]:
        begin += table["epochs"]
        if epoch < begin:
            return used(table, row, seed, epoch)
    return used(of[-1], row, seed, epoch)


def used(table: dict[str, Any], row: Row, seed: int, epoch: int) -> list[int]:
    options = {
        name: value for name, value in table.items() if name not in ("use", "chance", "epochs")
    }
    return joint.TWINS[f"{table['use']}.v1"](row, seed=seed, epoch=epoch, **options)


TWINS = {"stages.v1": stages, "mixture.v1": mixture, "curriculum.v1": curriculum}
