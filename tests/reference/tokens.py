"""Slow twins of the strategies in `mask/recipes/tokens.py`, one row at a time, in lists and exact fractions."""

from __future__ import annotations

from fractions import Fraction

from tests.generate import IDS, Row
from tests.reference import rng

ROUND, REPEAT = 1 << 16, 6 << 16
"""Purposes: rounding at random, and repeated draws."""


def bert(
    row: Row, *, seed: int = 0, epoch: int = 0, rate: float = 0.15, max_masked: int = 20
) -> list[int]:
    real = real_tokens(row)
    count = bert_count(len(row.ids), rate, max_masked)
    return masked(row, rng.choose(rng.stream(row.key, seed, epoch, 0), real, min(count, len(real))))


def bert_count(tokens: int, rate: float, max_masked: int) -> int:
    count = max(1, int(round(tokens * rate)))  # noqa: RUF046 - as BERT writes it
    return min(max_masked, count) if max_masked else count


def token(
    row: Row, *, seed: int = 0, epoch: int = 0, rate: float = 0.15, unknown: bool = False
) -> list[int]:
    stream = rng.stream(row.key, seed, epoch, 0)
    pool = [t for t in real_tokens(row) if unknown or row.ids[t] != IDS.unk]
    return masked(row, {t for t in pool if rng.uniform(stream, t) < Fraction(rate)})


def roberta(row: Row, *, seed: int = 0, epoch: int = 0, rate: float = 0.15) -> list[int]:
    real = real_tokens(row)
    count = fairseq_count(row, len(real), rate, seed, epoch)
    return masked(row, rng.choose(rng.stream(row.key, seed, epoch, 0), real, min(count, len(real))))


def fairseq_count(row: Row, size: int, rate: float, seed: int, epoch: int) -> int:
    return int(rate * size + float(rng.uniform(rng.stream(row.key, seed, epoch, ROUND), 0)))


def wettig(row: Row, *, seed: int = 0, epoch: int = 0, rate: float = 0.4) -> list[int]:
    return roberta(row, seed=seed, epoch=epoch, rate=rate)


def modernbert(row: Row, *, seed: int = 0, epoch: int = 0, rate: float = 0.3) -> list[int]:
    return token(row, seed=seed, epoch=epoch, rate=rate, unknown=True)


def electra(
    row: Row, *, seed: int = 0, epoch: int = 0, rate: float = 0.15, max_tokens: int = 0
) -> list[int]:
    real = real_tokens(row)
    count = round(rate * len(row.ids))
    if max_tokens:
        count = min(count, int((rate + 0.005) * max_tokens))
    # Draw k is another token than those before it.
    repeated = rng.stream(row.key, seed, epoch, REPEAT)
    distinct = 0
    for k in range(max(1, count) if real else 0):
        distinct += rng.below(repeated, k, len(real)) >= distinct
    return masked(row, rng.choose(rng.stream(row.key, seed, epoch, 0), real, distinct))


def real_tokens(row: Row) -> list[int]:
    return [t for t, word in enumerate(row.word_ids) if word >= 0]


def masked(row: Row, tokens: set[int]) -> list[int]:
    return [int(t in tokens) for t in range(len(row.ids))]


def unmasked(row: Row, *, seed: int = 0, epoch: int = 0) -> list[int]:
    return [0] * len(row.ids)


TWINS = {
    "bert.v1": bert,
    "token.v1": token,
    "dga.v1": token,
    "roberta.v1": roberta,
    "wettig.v1": wettig,
    "modernbert.v1": modernbert,
    "electra.v1": electra,
    "unmasked.v1": unmasked,
}
