"""Slow twins of strategies over listed n-grams: each entry tried at each place of a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from tests.generate import IDS, Row
from tests.mask import artifacts
from tests.reference import rng
from tests.reference.picks import BRANCH, WAY, pick, stream, units_of

Match = tuple[int, int, int]
"""First token, past the last, and number of the entry."""


def matches(row: Row, entries: Sequence[tuple[int, ...]]) -> list[Match]:
    """Return the whole words that are an entry, by first token and length; of equal entries the first."""
    numbers = {entry: number for number, entry in reversed(list(enumerate(entries)))}
    words = [-1, *row.word_ids, -1]  # word of token t at t + 1
    bounds = [t for t in range(len(row.ids) + 1) if words[t] != words[t + 1] or words[t] < 0]
    found = []
    for start in bounds:
        for end in bounds:
            tokens = tuple(row.ids[start:end])
            if start < end and tokens in numbers and min(row.word_ids[start:end]) >= 0:
                found.append((start, end, numbers[tokens]))
    return found


def pmi(
    row: Row,
    *,
    seed: int = 0,
    epoch: int = 0,
    lexicon: str = "",
    rate: float,
    entries: Sequence[tuple[int, ...]] | None = None,
) -> list[int]:
    kinds = [0] * len(row.ids)
    found = matches(row, artifacts.grams() if entries is None else entries)
    left = math.ceil(Fraction(str(rate)) * sum(word >= 0 for word in row.word_ids))
    changed = True
    while changed:
        changed = False
        for gram in sorted({number for _, _, number in found}):
            places = [match[:2] for match in found if match[2] == gram]
            free = [(start, end) for start, end in places if is_free(row, kinds, start, end)]
            if free and left:
                start, end = free[0]
                end = min(end, start + left)
                kinds[start:end] = [1] * (end - start)
                left -= end - start
                changed = True
    return kinds


def is_free(row: Row, kinds: list[int], start: int, end: int) -> bool:
    return not any(kinds[start:end]) and IDS.unk not in row.ids[start:end]


def listed_units(
    row: Row, entries: Sequence[tuple[int, ...]], numbers: int, keep_off: set[int]
) -> list[list[int]]:
    """Return the n-grams that are kept, and the words beside them, from left to right; `numbers` is a stream."""
    found = [match[:2] for match in matches(row, entries) if not keep_off & set(range(*match[:2]))]
    order = [
        (start, end)
        for start, end in found
        if not any(s <= start and end <= e and (s, e) != (start, end) for s, e in found)
    ]
    kept: set[int] = set()
    units = []
    for k in range(len(order)):
        j = k + rng.below(numbers, k, len(order) - k)
        order[k], order[j] = order[j], order[k]
        tokens = list(range(*order[k]))
        if not kept & set(tokens):
            kept |= set(tokens)
            units.append(tokens)
    return sorted(units + [word for word in units_of(row, "words") if word[0] not in kept])


def levine(
    row: Row,
    *,
    seed: int = 0,
    epoch: int = 0,
    lexicon: str = "",
    rate: float,
    overrun: str = "skip",
) -> list[int]:
    kinds = [0] * len(row.ids)
    units = listed_units(row, artifacts.grams(), stream(row, seed, epoch, BRANCH), set())
    left = math.ceil(Fraction(str(rate)) * sum(map(len, units)))
    order = [unit for unit in units if is_free(row, kinds, unit[0], unit[-1] + 1)]
    numbers = stream(row, seed, epoch, 0)
    for k in range(len(order)):
        if left == 0:
            break
        j = k + rng.below(numbers, k, len(order) - k)
        order[k], order[j] = order[j], order[k]
        if len(order[k]) > left and overrun == "stop":
            break
        if len(order[k]) <= left:
            left -= len(order[k])
            for t in order[k]:
                kinds[t] = 1
    return kinds


def ernie(
    row: Row,
    *,
    seed: int = 0,
    epoch: int = 0,
    rate: float = 0.15,
    tokens: float = 0.5,
    lexicon: str = "",
) -> list[int]:
    kinds = [0] * len(row.ids)
    drawn = rng.uniform(rng.named(row.key, seed, epoch, (), WAY), 0)
    mentions = {"units": "mentions", "eligible": {"unknown": True}, "kind": "entity"}
    coins = {"budget": {"rate": rate}, "order": {"by": "bernoulli"}}
    if drawn >= Fraction(1 - tokens):
        pick(row, kinds, {"units": "tokens"} | coins, seed=seed, epoch=epoch, number=0)
        return kinds
    pick(row, kinds, mentions | coins, seed=seed, epoch=epoch, number=0)
    inside = {t for start, end, _ in row.mentions for t in range(start, end)}
    entries = artifacts.grams() if lexicon else []
    for u, unit in enumerate(
        listed_units(row, entries, stream(row, seed, epoch, 1 + BRANCH), inside)
    ):
        coin = rng.uniform(stream(row, seed, epoch, 1), u)
        if (
            coin < Fraction(rate)
            and not inside & set(unit)
            and is_free(row, kinds, unit[0], unit[-1] + 1)
        ):
            for t in unit:
                kinds[t] = 1
    return kinds


def ccm(
    row: Row,
    *,
    seed: int = 0,
    epoch: int = 0,
    lexicons: Sequence[str] = ("",),
    rate: float = 0.15,
    last_rate: float = 0.1,
    rest_rate: float = 0.05,
    max_masked: int = 20,
    warm_up: int = 1,
    epochs: int = 1,
) -> list[int]:
    kinds = [0] * len(row.ids)
    tokens = {"units": "tokens", "order": {"by": "bernoulli"}}
    begins = [warm_up + epochs * stage for stage in range(len(lexicons) + 1)]
    if epoch < begins[0]:
        table = tokens | {"budget": {"rate": rate}}
        pick(row, kinds, table, seed=seed, epoch=epoch, number=0)
    for stage, (begin, stop) in enumerate(pairwise(begins), 1):
        if begin <= epoch < stop:
            occurrences(
                row, kinds, artifacts.concepts(stage), rate, max_masked or math.inf, seed, epoch
            )
    if epoch >= begins[-1]:
        occurrences(row, kinds, artifacts.concepts(len(lexicons)), last_rate, math.inf, seed, epoch)
        table = tokens | {"budget": {"rate": rest_rate}}
        pick(row, kinds, table, seed=seed, epoch=epoch, number=1)
    return kinds


def occurrences(
    row: Row,
    kinds: list[int],
    entries: Sequence[tuple[int, ...]],
    rate: float,
    max_masked: float,
    seed: int,
    epoch: int,
) -> None:
    found = matches(row, entries)
    concepts = sorted({number for _, _, number in found})
    total = sum(end - start for start, end, _ in found)
    order, coins = stream(row, seed, epoch, BRANCH), stream(row, seed, epoch, 0)
    for k in range(len(concepts)):
        if sum(kinds) >= max_masked:
            break
        j = k + rng.below(order, k, len(concepts) - k)
        concepts[k], concepts[j] = concepts[j], concepts[k]
        for m, (start, end, number) in enumerate(found):
            chance = Fraction(int(rate * sum(word >= 0 for word in row.word_ids)) / total)
            if (
                number == concepts[k]
                and rng.uniform(coins, m) < chance
                and is_free(row, kinds, start, end)
            ):
                kinds[start:end] = [1] * (end - start)


TWINS = {
    "pmi.v1": pmi,
    "pmi-levine.v1": levine,
    "ernie.v1": ernie,
    "ccm.v1": ccm,
}
