"""Slow twin of `mask/pick.py` for orders without a score, and of strategies that callers make themselves.

Picks are tables, as in a TOML file; what a table leaves out has the defaults below.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from itertools import groupby
from typing import Any

from tests.generate import IDS, Row
from tests.reference import fill, joint, rng

ROUND, GATE, BRANCH, REPEAT, KEEP = (purpose << 16 for purpose in (1, 2, 4, 6, 7))
WAY = 8
KINDS = {"base": 1, "entity": 2}

BUDGET = {
    "counts": "units",
    "rounding": "up",
    "min_masked": 0,
    "max_masked": 0,
    "overrun": "skip",
    "gate": 1.0,
    "total": False,
}
ORDER = {"chance": 1.0, "hints": 0.0}
ELIGIBLE = {"where": "any", "unknown": False, "longest": 0}


def stream(row: Row, seed: int, epoch: int, number: int) -> int:
    return rng.stream(row.key, seed, epoch, number)


def units_of(row: Row, name: str) -> list[list[int]]:
    """Return the tokens of each unit."""
    if name == "mentions":
        return [list(range(start, end)) for start, end, _ in row.mentions]
    if name == "released pieces":
        return [list(range(start, end)) for start, end, _ in joint.released_pieces(row)]

    real = [t for t, word in enumerate(row.word_ids) if word >= 0]
    if name == "tokens":
        return [[t] for t in real]
    return [list(group) for _, group in groupby(real, key=lambda t: row.word_ids[t])]


def pick(
    row: Row, kinds: list[int], table: dict[str, Any], *, seed: int, epoch: int, number: int = 0
) -> int:
    """Write what one pick masks to `kinds`, and return its unspent budget; `number` names its stream."""
    units = units_of(row, table["units"])
    budget = BUDGET | table["budget"]
    eligible = ELIGIBLE | table.get("eligible", {})
    order = table.get("order", {"by": "uniform"})["by"]
    kind = KINDS[table.get("kind", "base")]

    inside = {t for start, end, _ in row.mentions for t in range(start, end)}

    def is_open(t: int) -> bool:
        known = eligible["unknown"] or row.ids[t] != IDS.unk
        where = eligible["where"]
        allowed = {
            "any": True,
            "generic": t not in inside,
            "mentions": t in inside,
            "rows without mentions": not row.mentions,
        }[where]
        return kinds[t] == 0 and known and allowed

    longest = eligible["longest"] or math.inf
    pool = [
        u for u, unit in enumerate(units) if len(unit) <= longest and all(is_open(t) for t in unit)
    ]
    sample = stream(row, seed, epoch, number)
    keep = stream(row, seed, epoch, number + KEEP)
    gate = budget["gate"]
    runs = gate == 1 or rng.uniform(stream(row, seed, epoch, number + GATE), 0) < Fraction(gate)
    # A token's coin is that of its place; a unit's that of its number.
    coins = {u: units[u][0] if table["units"] == "tokens" else u for u in pool}

    left = 0
    if order == "bernoulli":
        rate = Fraction(budget["rate"])
        taken = {u: units[u] for u in pool if runs and rng.uniform(sample, coins[u]) < rate}
    else:
        left = quota(row, len(units), budget, seed=seed, epoch=epoch, number=number) if runs else 0
        if budget["total"]:
            left = max(left - sum(masked > 0 for masked in kinds), 0)
        if order == "with_replacement" and pool:
            # Draw k is another one than those before it.
            repeated = stream(row, seed, epoch, number + REPEAT)
            distinct = 0
            for k in range(left):
                distinct += rng.below(repeated, k, len(pool)) >= distinct
            left = distinct
        queue = pool if order == "first" else fill.shuffled(sample, list(pool))
        taken, left = filled(queue, units, budget, left)

    options = ORDER | table.get("order", {})
    if options["chance"] != 1:
        chance = Fraction(options["chance"])
        taken = {u: tokens for u, tokens in taken.items() if rng.uniform(keep, coins[u]) < chance}
    if options["hints"]:
        share, size = options["hints"], base(row, len(units), budget)
        top, _ = filled(pool, units, budget, int(share * size))
        shared = fill.shuffled(keep, [u for u in pool if u in top and u in taken])
        visible, _ = filled(shared, units, budget, int(share * budget["rate"] * size))
        taken = {u: tokens for u, tokens in taken.items() if u not in visible}

    for t in (t for tokens in taken.values() for t in tokens):
        kinds[t] = kind
    return left


def filled(
    queue: Iterable[int], units: list[list[int]], budget: dict[str, Any], left: int
) -> tuple[dict[int, list[int]], int]:
    """Return the tokens taken of each unit in turn, and the budget that remains."""
    taken = {}
    for u in queue:
        if left <= 0:
            break
        cost = 1 if budget["counts"] == "units" else len(units[u])
        if cost > left and budget["overrun"] == "stop":
            break
        if cost > left and budget["overrun"] == "skip":
            continue
        taken[u] = units[u] if cost <= left else units[u][:left]
        left -= min(cost, left)
    return taken, left


def base(row: Row, units: int, budget: dict[str, Any]) -> int:
    """Return what the rate is a share of."""
    real = sum(word >= 0 for word in row.word_ids)
    return {"units": units, "tokens": real, "all tokens": len(row.ids)}[budget["counts"]]


def quota(
    row: Row, units: int, budget: dict[str, Any], *, seed: int, epoch: int, number: int
) -> int:
    """Return how many a pick may mask of a row."""
    real = sum(word >= 0 for word in row.word_ids)
    rate = budget["rate"]
    size = base(row, units, budget)
    drawn = float(rng.uniform(stream(row, seed, epoch, number + ROUND), 0))

    whole = {
        "up": math.ceil(Fraction(str(rate)) * size),
        "down": int(rate * size),
        "nearest": round(rate * size),
        "random": int(rate * size + drawn),
    }[budget["rounding"]]
    if budget["max_masked"]:
        whole = min(whole, budget["max_masked"])
    return max(whole, budget["min_masked"]) if real else whole


def recipe(row: Row, *, seed: int = 0, epoch: int = 0, picks: list[dict[str, Any]]) -> list[int]:
    kinds = [0] * len(row.ids)
    for number, table in enumerate(picks):
        pick(row, kinds, table, seed=seed, epoch=epoch, number=number)
    return kinds


def mixture(
    row: Row,
    *,
    seed: int = 0,
    epoch: int = 0,
    chances: list[float],
    parts: list[dict[str, Any]],
    ways: tuple[int, ...] = (),
) -> list[int]:
    """Return the kinds of a mixture; `ways` are those taken through mixtures around it."""
    drawn, total = rng.uniform(rng.named(row.key, seed, epoch, ways, WAY), 0), 0.0
    for way, (chance, table) in enumerate(zip(chances, parts, strict=True)):
        total += chance
        if drawn < Fraction(total):
            return part(table, row, seed, epoch, (*ways, way))
    return [0] * len(row.ids)


def curriculum(
    row: Row,
    *,
    seed: int = 0,
    epoch: int = 0,
    epochs: list[int],
    parts: list[dict[str, Any]],
    ways: tuple[int, ...] = (),
) -> list[int]:
    begin = 0
    for lasting, table in zip(epochs, parts, strict=False):
        begin += lasting
        if epoch < begin:
            return part(table, row, seed, epoch, ways)
    return part(parts[-1], row, seed, epoch, ways)


def part(
    table: dict[str, Any], row: Row, seed: int, epoch: int, ways: tuple[int, ...]
) -> list[int]:
    """Return the kinds of a strategy within another."""
    options = {name: value for name, value in table.items() if name != "use"}
    if table["use"] in ("mixture", "curriculum"):
        return TWINS[f"{table['use']}.v1"](row, seed=seed, epoch=epoch, ways=ways, **options)
    return joint.TWINS[f"{table['use']}.v1"](row, seed=seed, epoch=epoch, **options)


def patches(
    row: Row, *, seed: int = 0, epoch: int = 0, rate: float = 0.25, alpha: float = 0.1
) -> list[int]:
    """Difference-Masking on images: a few flagged units, and others up to the whole budget."""
    kinds = [0] * len(row.ids)
    real = [t for t, word in enumerate(row.word_ids) if word >= 0]
    inside = {t for start, end, _ in row.mentions for t in range(start, end)}

    flagged = [t for t in real if t in inside]
    few = min(int(round(rate * alpha, 12) * len(real)), len(flagged))
    for t in rng.choose(stream(row, seed, epoch, 0), flagged, few):
        kinds[t] = 2

    others = [t for t in real if t not in inside]
    rest = min(max(int(rate * len(real)) - few, 0), len(others))
    for t in rng.choose(stream(row, seed, epoch, 1), others, rest):
        kinds[t] = 1
    return kinds


TWINS = {
    "picks.v1": recipe,
    "mixture.v1": mixture,
    "curriculum.v1": curriculum,
    "difference-patches.v1": patches,
}
