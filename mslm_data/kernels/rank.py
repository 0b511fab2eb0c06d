"""Scores within rows: their ranks, what is left of their differences, and from words down to tokens."""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel

SHORT = 128
"""Rows of so many entries and fewer are ranked by counting: 0.4 of the time of sorting at 28 entries, 0.9 at 128."""


@kernel
def rank_rows(offsets: Array, values: Array, out: Array) -> None:
    """Rank the entries of each row: 1 for the lowest value; of equal ones the first is higher.

    Args:
        offsets: int64 `[N + 1]`.
        values: float64 `[E]`.
        out: float64 `[E]`, written: in `[1, entries of the row]`.
    """
    for i in range(len(offsets) - 1):
        row, ranks = values[offsets[i] : offsets[i + 1]], out[offsets[i] : offsets[i + 1]]
        if len(row) > SHORT:
            order = np.argsort(-row, kind="mergesort")
            for place in range(len(order)):
                ranks[order[place]] = len(order) - place
            continue
        for e in range(len(row)):
            own, rank = row[e], 1
            for other in range(len(row)):  # one loop and no branch, so that it compiles to SIMD
                rank += int((row[other] < own) | ((row[other] == own) & (other > e)))
            ranks[e] = rank


@kernel
def smooth_rows(offsets: Array, values: Array, counted: Array, alpha: float, out: Array) -> None:
    """Mix each row's values with their mean.

    Args:
        offsets: int64 `[N + 1]`.
        values: float64 `[E]`; negative ones count as 0.
        counted: bool `[E]`: what belongs to the row; the rest becomes 0.
        alpha: What is left of each value, in `[0, 1]`.
        out: float64 `[E]`, written: `alpha * value + (1 - alpha) * mean`; may be `values`.
    """
    for i in range(len(offsets) - 1):
        total, count = 0.0, 0
        for e in range(offsets[i], offsets[i + 1]):
            if counted[e]:
                total += max(values[e], 0.0)
                count += 1
        for e in range(offsets[i], offsets[i + 1]):
            out[e] = (
                alpha * max(values[e], 0.0) + (1 - alpha) * (total / count) if counted[e] else 0.0
            )


@kernel
def give_tokens(
    offsets: Array, word_ids: Array, word_offsets: Array, values: Array, out: Array
) -> None:
    """Give each token the value of its word.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        word_ids: int32 `[T]`, -1 on special tokens.
        word_offsets: int64 `[N + 1]` of the words.
        values: float64 `[W]`.
        out: float64 `[T]`, written; 0 on special tokens.
    """
    for i in range(len(offsets) - 1):
        row, w = word_ids[offsets[i] : offsets[i + 1]], word_offsets[i] - 1
        for t in range(len(row)):
            w += int(row[t] >= 0 and (t == 0 or row[t] != row[t - 1]))
            out[offsets[i] + t] = values[w] if row[t] >= 0 else 0.0
