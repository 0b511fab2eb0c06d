"""Slow twins of the strategies in `mask/difference.py`, `mask/scored.py` and `mask/attention.py`.

One row at a time; the numbers are those of `tests/mask/artifacts.py`, whatever the options' paths say.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from tests.generate import IDS, Row
from tests.mask.artifacts import token_rate, token_score, word_score
from tests.reference import fill, rng
from tests.reference.entities import at_random, words_of
from tests.reference.tokens import masked, real_tokens

GATE, RATE, KEEP = 2 << 16, 3 << 16, 7 << 16


def difference(
    row: Row,
    *,
    seed: int = 0,
    epoch: int = 0,
    lexicon: str = "",
    rate: float = 0.15,
    transform: str = "none",
    alpha: float = 1.0,
) -> list[int]:
    units = words_of(row)
    scores = [likeness(row, word) for word in units]
    if transform == "swish":
        scores = [float(np.float32(score / (1 + np.exp(-score)))) for score in scores]
    if transform == "rank":
        scores = [float(rank) for rank in ranks(scores)]
    weights = smoothed(scores, alpha)
    for w, word in enumerate(units):
        if any(row.ids[t] == IDS.unk for t in word):
            weights[w] = 0.0
    budget = at_random(row, len(units), rate, seed, epoch, stage=0)
    taken, _ = fill.weighted(
        rng.stream(row.key, seed, epoch, 0), weights, [1] * len(units), budget, "skip"
    )
    return masked(row, {t for w, word in enumerate(units) if taken[w] for t in word})


def likeness(row: Row, word: list[int]) -> float:
    score = word_score([row.ids[t] for t in word])
    return -1.0 if IDS.unk in [row.ids[t] for t in word] or score is None else score


def ranks(scores: list[float]) -> list[int]:
    """1 for the lowest; of equal ones the first is higher."""
    return [1 + sum(other < score or (other == score and v > u) for v, other in enumerate(scores))
            for u, score in enumerate(scores)]  # fmt: skip


def smoothed(scores: list[float], alpha: float) -> list[float]:
    if alpha == 1:
        return scores
    positive = [max(score, 0.0) for score in scores]
    return [alpha * score + (1 - alpha) * (sum(positive) / len(positive)) for score in positive]


def selective_task(row: Row, *, seed: int = 0, epoch: int = 0, scores: str = "") -> list[int]:
    return masked(row, {t for t in real_tokens(row) if token_score(row.key, t) > 0})


def selective(
    row: Row,
    *,
    seed: int = 0,
    epoch: int = 0,
    scores: str = "",
    rate: float = 0.15,
    max_masked: int = 0,
) -> list[int]:
    real = real_tokens(row)
    budget = int(max(1, rate * len(real)))
    pool = [t for t in by_score(row, real, highest=True) if token_score(row.key, t) > 0]
    return masked(row, pool[: min(budget, max_masked) if max_masked else budget])


def attention_high(
    row: Row,
    *,
    seed: int = 0,
    epoch: int = 0,
    scores: str = "",
    rate: float | None = None,
    gate: float = 0.5,
    highest: bool = True,
) -> list[int]:
    real = real_tokens(row)
    known = [
        t for t in real if row.ids[t] != IDS.unk and (token_score(row.key, t) > 0 or not highest)
    ]
    share = rate_of(row, seed, epoch) if rate is None else rate
    runs = rng.uniform(rng.stream(row.key, seed, epoch, GATE), 0) < Fraction(gate)
    return masked(
        row, by_score(row, known, highest=highest)[: int(len(real) * share)] if runs else []
    )


def attention_low(row: Row, **options: Any) -> list[int]:
    return attention_high(row, **options, highest=False)


def attention_hints(
    row: Row,
    *,
    seed: int = 0,
    epoch: int = 0,
    scores: str = "",
    rate: float | None = None,
    gate: float = 0.5,
    show: float = 0.1,
) -> list[int]:
    kinds = attention_high(row, seed=seed, epoch=epoch, rate=rate, gate=gate)
    real = real_tokens(row)
    known = [t for t in real if row.ids[t] != IDS.unk and token_score(row.key, t) > 0]
    top = sorted(by_score(row, known, highest=True)[: int(len(real) * show)])
    share = rate_of(row, seed, epoch) if rate is None else rate
    count = int((show * share) * len(real))
    top = [t for t in top if kinds[t]]
    for t in rng.choose(rng.stream(row.key, seed, epoch, KEEP), top, min(count, len(top))):
        kinds[t] = 0
    return kinds


def mst(
    row: Row,
    *,
    seed: int = 0,
    epoch: int = 0,
    scores: str = "",
    share: float = 0.5,
    rate: float = 0.125,
) -> list[int]:
    real = real_tokens(row)
    low = by_score(row, [t for t in real if row.ids[t] != IDS.unk], highest=False)[
        : int(share * len(real))
    ]
    stream = rng.stream(row.key, seed, epoch, KEEP)
    return masked(row, {t for t in low if rng.uniform(stream, t) < Fraction(rate)})


def rate_of(row: Row, seed: int, epoch: int) -> float:
    return 0.1 + (0.5 - 0.1) * float(rng.uniform(rng.stream(row.key, seed, epoch, RATE), 0))


def by_score(row: Row, tokens: list[int], *, highest: bool) -> list[int]:
    """Of equal ones the first comes first, either way."""
    return sorted(
        tokens, key=lambda t: -token_score(row.key, t) if highest else token_score(row.key, t)
    )


def informask(
    row: Row, *, seed: int = 0, epoch: int = 0, lexicon: str = "", rate: float = 1.0
) -> list[int]:
    stream = rng.stream(row.key, seed, epoch, 0)
    rates = {t: (token_rate(row.ids[t]) or 0.0) * rate for t in real_tokens(row)}
    return masked(row, {t for t, own in rates.items() if rng.uniform(stream, t) < Fraction(own)})


def keywords(
    row: Row, *, seed: int = 0, epoch: int = 0, lexicon: str = "", rate: float = 1.0
) -> list[int]:
    stream = rng.stream(row.key, seed, epoch, 0)
    units = words_of(row)
    listed = {w for w, word in enumerate(units) if likeness(row, word) > 0}
    return masked(
        row, {t for w in listed if rng.uniform(stream, w) < Fraction(rate) for t in units[w]}
    )


TWINS = {
    "difference.v1": difference,
    "selective-task.v1": selective_task,
    "selective.v1": selective,
    "attention-high.v1": attention_high,
    "attention-hints.v1": attention_hints,
    "attention-low.v1": attention_low,
    "mst.v1": mst,
    "informask.v1": informask,
    "keywords.v1": keywords,
}
