"""Turn scores into ranks, smooth them within rows, and give tokens the scores of their words."""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.rows import begins_word

SHORT = 128
"""Rows of up to so many entries are ranked by counting: 0.4 of the time of sorting at 28 entries,
0.9 at 128."""


@kernel
def rank_rows(offsets: Array, values: Array, out: Array) -> None:
    """Rank the entries of each row: 1 for the lowest value; of equal values the first is higher.

    Args:
        offsets: int64 `[N + 1]`.
        values: float64 `[E]`.
        out: float64 `[E]`, written: ranks from 1 to the number of entries of the row.
    """
    for i in range(len(offsets) - 1):
        start, stop = offsets[i], offsets[i + 1]
        row = values[start:stop]
        ranks = out[start:stop]

        # A stable sort by falling value puts the first of equal values first, at the higher rank.
        if len(row) > SHORT:
            order = np.argsort(-row, kind="mergesort")
            for place in range(len(order)):
                ranks[order[place]] = len(order) - place
            continue

        # One inner loop without a branch, so that it compiles to SIMD.
        for e in range(len(row)):
            own = row[e]
            rank = 1
            for other in range(len(row)):
                rank += int((row[other] < own) | ((row[other] == own) & (other > e)))
            ranks[e] = rank


@kernel
def smooth_rows(offsets: Array, values: Array, counted: Array, alpha: float, out: Array) -> None:
    """Mix the values of each row with their mean.

    Args:
        offsets: int64 `[N + 1]`.
        values: float64 `[E]`; negative values count as 0.
        counted: bool `[E]`: which entries belong to the row; the others become 0.
        alpha: How much is left of each value, in `[0, 1]`.
        out: float64 `[E]`, written: `alpha * value + (1 - alpha) * mean`; may be `values`.
    """
    for i in range(len(offsets) - 1):
        total = 0.0
        count = 0
        for e in range(offsets[i], offsets[i + 1]):
            if counted[e]:
                total += max(values[e], 0.0)
                count += 1

        # The mean is divided where it is used: in a row without entries it never is.
        for e in range(offsets[i], offsets[i + 1]):
            if counted[e]:
                out[e] = alpha * max(values[e], 0.0) + (1 - alpha) * (total / count)
            else:
                out[e] = 0.0


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
        start, stop = offsets[i], offsets[i + 1]
        row = word_ids[start:stop]
        out_row = out[start:stop]

        w = word_offsets[i] - 1
        before = np.int32(-1)
        for t in range(len(row)):
            w += begins_word(row[t], before)
            out_row[t] = values[w] if row[t] >= 0 else 0.0
            before = row[t]
