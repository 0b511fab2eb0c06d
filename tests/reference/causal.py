"""Slow twin of `mask/causal.py`, for rows without an end of text."""

from __future__ import annotations

from tests.generate import Row


def causal(row: Row, *, seed: int = 0, epoch: int = 0) -> list[int]:
    terms = {t for start, end, _ in row.mentions for t in range(start, end)}
    return [
        0 if t == 0 or word < 0 else 2 if t in terms else 1 for t, word in enumerate(row.word_ids)
    ]


TWINS = {"causal.v1": causal}
