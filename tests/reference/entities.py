"""Slow twins of the strategies in `mask/recipes/entities.py`, one row at a time, in lists and exact fractions."""

from __future__ import annotations

import itertools
from fractions import Fraction

from tests.generate import IDS, Row
from tests.mask.artifacts import token_score
from tests.reference import fill, rng
from tests.reference.tokens import bert_count, masked, real_tokens

ROUND, WAY = 1 << 16, 8
"""Purposes: rounding at random, and a row's part of a mixture."""


def entitybert(
    row: Row, *, seed: int = 0, epoch: int = 0, entities: float = 0.4, words: float = 0.12
) -> list[int]:
    kinds = [0] * len(row.ids)
    count = at_random(row, len(row.mentions), entities, seed, epoch, stage=0)
    stream = rng.stream(row.key, seed, epoch, 0)
    for m in rng.choose(stream, list(range(len(row.mentions))), count):
        start, end, _ = row.mentions[m]
        kinds[start:end] = [2] * (end - start)
    units = words_of(row)
    pool = [
        w
        for w, word in enumerate(units)
        if all(kinds[t] == 0 and row.ids[t] != IDS.unk for t in word)
    ]
    count = min(at_random(row, len(units), words, seed, epoch, stage=1), len(pool))
    for w in rng.choose(rng.stream(row.key, seed, epoch, 1), pool, count):
        for t in units[w]:
            kinds[t] = 1
    return kinds


def entitybert_difference(
    row: Row, *, seed: int = 0, epoch: int = 0, rate: float = 0.15
) -> list[int]:
    real = real_tokens(row)
    budget = int(rate * len(real))
    if row.mentions:
        return masked(
            row, [t for start, end, _ in row.mentions for t in range(start, end)][:budget]
        )
    return masked(row, rng.choose(rng.stream(row.key, seed, epoch, 1), real, budget))


def salient(row: Row, *, seed: int = 0, epoch: int = 0, longest: int = 0) -> list[int]:
    kinds = [0] * len(row.ids)
    pool = [(start, end) for start, end, _ in row.mentions if not longest or end - start <= longest]
    if pool:
        start, end = pool[rng.below(rng.stream(row.key, seed, epoch, 0), 0, len(pool))]
        kinds[start:end] = [2] * (end - start)
    return kinds


def lim(
    row: Row,
    *,
    seed: int = 0,
    epoch: int = 0,
    chance: float = 0.75,
    rate: float = 0.15,
    max_masked: int = 20,
    scores: str = "",
) -> list[int]:
    flagged = {t for start, end, _ in row.mentions for t in range(start, end)}
    if scores:
        flagged = {t for t in range(len(row.ids)) if token_score(row.key, t) > 0}
    phrases = rng.uniform(rng.named(row.key, seed, epoch, (), WAY), 0) < Fraction(chance)
    pool = [t for t in real_tokens(row) if (t in flagged) == phrases]
    count = min(bert_count(len(row.ids), rate, max_masked), len(pool)) if pool else 0
    stream = rng.stream(row.key, seed, epoch, 0)
    if not scores:
        return masked(row, rng.choose(stream, pool, count))
    weights = [float(t in pool) for t in range(len(row.ids))]
    return masked(row, set(itertools.islice(fill.by_weight(stream, weights), count)))


def at_random(row: Row, size: int, rate: float, seed: int, epoch: int, *, stage: int) -> int:
    return int(rate * size + float(rng.uniform(rng.stream(row.key, seed, epoch, stage + ROUND), 0)))


def words_of(row: Row) -> list[list[int]]:
    real = real_tokens(row)
    numbers = sorted({row.word_ids[t] for t in real})
    return [[t for t in real if row.word_ids[t] == number] for number in numbers]


TWINS = {
    "entitybert.v1": entitybert,
    "entitybert-difference.v1": entitybert_difference,
    "salient.v1": salient,
    "salient-t5.v1": salient,
    "lim.v1": lim,
}
