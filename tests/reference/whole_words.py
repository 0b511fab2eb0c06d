"""Slow twins of the strategies in `mask/recipes/words.py`, and of the units that they mask."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from tests.generate import IDS, Row
from tests.reference import rng
from tests.reference.tokens import bert_count, fairseq_count, masked

Unit = tuple[int, int]


def words(row: Row) -> list[Unit]:
    """Half-open runs of one word number."""
    return [
        (row.word_ids.index(word), len(row.ids) - list(reversed(row.word_ids)).index(word))
        for word in sorted(set(row.word_ids) - {-1})
    ]


def chunks(row: Row, starts: Sequence[int], ends: Sequence[int]) -> list[Unit]:
    """Runs of tokens each of which begins at the character where the one before ends, or earlier."""
    found: list[Unit] = []
    for t, word in enumerate(row.word_ids):
        if word < 0:
            continue
        if t > 0 and row.word_ids[t - 1] >= 0 and starts[t] <= ends[t - 1]:
            found[-1] = (found[-1][0], t + 1)
        else:
            found.append((t, t + 1))
    return found


def whole_word(
    row: Row, *, seed: int = 0, epoch: int = 0, rate: float = 0.15, max_masked: int = 20
) -> list[int]:
    left = bert_count(len(row.ids), rate, max_masked)
    stream, order, taken = rng.stream(row.key, seed, epoch, 0), words(row), []
    for k in range(len(order)):
        if left == 0:
            break
        j = k + rng.below(stream, k, len(order) - k)
        order[k], order[j] = order[j], order[k]
        if order[k][1] - order[k][0] <= left:
            taken.append(order[k])
            left -= order[k][1] - order[k][0]
    return painted(row, taken)


def whole_word_hf(
    row: Row, *, seed: int = 0, epoch: int = 0, rate: float = 0.15, unknown: bool = False
) -> list[int]:
    """On rows without characters, where words are those of `word_ids`."""
    stream = rng.stream(row.key, seed, epoch, 0)
    return painted(
        row,
        [
            unit
            for u, unit in enumerate(words(row))
            if rng.uniform(stream, u) < Fraction(rate) and (unknown or not holds_unk(row, unit))
        ],
    )


def whole_word_roberta(
    row: Row, *, seed: int = 0, epoch: int = 0, rate: float = 0.15, unit: str = "words"
) -> list[int]:
    assert unit == "words"
    units = words(row)
    count = min(fairseq_count(row, len(units), rate, seed, epoch), len(units))
    chosen = rng.choose(rng.stream(row.key, seed, epoch, 0), list(range(len(units))), count)
    return painted(row, [units[u] for u in chosen])


def random_word(row: Row, *, seed: int = 0, epoch: int = 0, rate: float = 0.15) -> list[int]:
    units = words(row)
    pool = [u for u, unit in enumerate(units) if not holds_unk(row, unit)]
    count = min(math.ceil(Fraction(str(rate)) * len(units)), len(pool))
    chosen = rng.choose(rng.stream(row.key, seed, epoch, 0), pool, count)
    return painted(row, [units[u] for u in chosen])


def holds_unk(row: Row, unit: Unit) -> bool:
    return IDS.unk in row.ids[unit[0] : unit[1]]


def painted(row: Row, units: Sequence[Unit]) -> list[int]:
    return masked(row, {t for start, end in units for t in range(start, end)})


TWINS = {
    "whole-word.v1": whole_word,
    "whole-word-hf.v1": whole_word_hf,
    "whole-word-roberta.v1": whole_word_roberta,
    "random-word.v1": random_word,
}
