"""Slow twins of the picks of spans in `mask/`, and of `kernels/span_draws.py`: one row, exact fractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from tests.generate import IDS, Row
from tests.reference import rng

NONE, BASE, ENTITY = 0, 1, 2
SAMPLE, LENGTH, BRANCH = 0, 5 << 16, 4 << 16
Weights = Sequence[Fraction]

UNIFORM_2_4 = [Fraction(0), Fraction(1), Fraction(1), Fraction(1)]
GEOMETRIC = [Fraction(4, 5) ** length for length in range(10)]
"""Weights of lengths 1, 2 and so on. Of the last, exp(-3) 3^k / k! is less than 1e-7 at 17 for the first time."""


def drawn_length(stream: int, k: int, weights: Weights) -> int:
    """The first length at which the sum of chances, in whole 2**-53, is more than the draw."""
    draw = rng.bits(stream, k) // 2**11
    return next(
        length
        for length in range(1, len(weights) + 1)
        if draw < int(2**53 * sum(weights[:length]) / sum(weights))
    )


def shuffled(stream: int, items: Sequence[int]) -> list[int]:
    items = list(items)
    for k in range(len(items)):
        j = k + rng.below(stream, k, len(items) - k)
        items[k], items[j] = items[j], items[k]
    return items


def real(row: Row) -> list[int]:
    return [t for t, word in enumerate(row.word_ids) if word >= 0]


def ceil(rate: float, n: int) -> int:
    return math.ceil(Fraction(str(rate)) * n)


def placed(
    row: Row, seed: int, epoch: int, size: int, rate: float, weights: Weights, begins: Sequence[int]
) -> list[list[int]]:
    """The tokens of each span: Abaho et al. 2024, Algorithm 1, with the decisions of the strategy's docstring."""
    spans: list[list[int]] = []
    left = ceil(rate, size)
    order = shuffled(rng.stream(row.key, seed, epoch, SAMPLE), range(len(row.ids)))
    for k, start in enumerate(order):
        if left == 0:
            break
        if start not in begins:
            continue
        length = min(drawn_length(rng.stream(row.key, seed, epoch, LENGTH), k, weights), left)
        span = [start]
        while (
            len(span) < length and span[-1] + 1 < len(row.ids) and row.word_ids[span[-1] + 1] >= 0
        ):
            span.append(span[-1] + 1)
        if not any(row.ids[t] == IDS.unk or any(t in taken for taken in spans) for t in span):
            spans.append(span)
            left -= len(span)
    return spans


def painted(row: Row, spans: Sequence[Sequence[int]]) -> list[int]:
    masked = {t for tokens in spans for t in tokens}
    return [BASE if t in masked else NONE for t in range(len(row.ids))]


def paper_spans(row: Row, *, seed: int = 0, epoch: int = 0, rate: float = 0.15) -> list[list[int]]:
    return placed(row, seed, epoch, len(real(row)), rate, UNIFORM_2_4, real(row))


def span(row: Row, **options: float) -> list[int]:
    return painted(row, paper_spans(row, **options))


def grown(
    row: Row, seed: int, epoch: int, rate: float, mentions: Sequence[tuple[int, int, int]]
) -> list[int]:
    kinds, tokens = [NONE] * len(row.ids), real(row)
    left, k = ceil(rate, len(tokens)), -1
    places, lengths, coins = (
        rng.stream(row.key, seed, epoch, purpose) for purpose in (SAMPLE, LENGTH, BRANCH)
    )
    while left > 0:
        k += 1
        kind = BASE
        if mentions and rng.below(coins, k, 2) == 0:
            start, stop, _ = mentions[rng.below(places, k, len(mentions))]
            chosen, kind = range(start, stop), ENTITY
        else:
            anchor = rng.below(places, k, len(row.ids))
            if anchor not in tokens or kinds[anchor] != NONE:
                continue
            first = row.word_ids[anchor]
            numbers = sorted({row.word_ids[t] for t in tokens if row.word_ids[t] >= first})
            wanted = set(numbers[: drawn_length(lengths, k, GEOMETRIC)])
            chosen = [t for t in tokens if row.word_ids[t] in wanted]
        for t in chosen:
            if kinds[t] == NONE and left > 0:
                kinds[t] = kind
                left -= 1
    return kinds


def spanbert(row: Row, *, seed: int = 0, epoch: int = 0, rate: float = 0.15) -> list[int]:
    return grown(row, seed, epoch, rate, [])


def spanbert_ner(row: Row, *, seed: int = 0, epoch: int = 0, rate: float = 0.15) -> list[int]:
    return grown(row, seed, epoch, rate, row.mentions)


def drawn_lengths(stream: int, total: int, segments: int) -> list[int]:
    """Lengths of so many segments with this sum; each gap between two items is a cut or is not."""
    lengths = [1]
    for gap in range(total - 1):
        cuts = segments - len(lengths)
        if rng.below(stream, gap, total - 1 - gap) < cuts:
            lengths.append(1)
        else:
            lengths[-1] += 1
    return lengths


def t5(row: Row, *, seed: int = 0, epoch: int = 0, rate: float = 0.15, mean: int = 3) -> list[int]:
    kinds, tokens = [NONE] * len(row.ids), real(row)
    if len(tokens) < 2:
        return kinds
    masked = min(max(round(rate * len(tokens)), 1), len(tokens) - 1)
    shown = len(tokens) - masked
    spans = min(max(round(masked / mean), 1), shown)
    sides = [
        drawn_lengths(rng.stream(row.key, seed, epoch, purpose), total, spans)
        for purpose, total in ((SAMPLE, shown), (LENGTH, masked))
    ]
    t = 0
    for stretch, span in zip(*sides, strict=True):
        for place in tokens[t + stretch : t + stretch + span]:
            kinds[place] = BASE
        t += stretch + span
    return kinds


TWINS = {
    "t5.v1": t5,
    "span.v1": span,
    "spanbert.v1": spanbert,
    "spanbert-ner.v1": spanbert_ner,
}
