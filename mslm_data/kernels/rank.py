"""Rank and smooth the scores of rows, and copy the scores of words to tokens."""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.rows import begins_word


@kernel
def rank_rows(offsets: Array, values: Array, out: Array) -> None:
    """Rank the entries of each row. Of equal values, the first gets the higher rank.

    Args:
        offsets: int64 `[N + 1]`.
        values: float64 `[E]`.
        out: float64 `[E]`, written: ranks, from 1 for the lowest value to the length of the row.
    """
    for i in range(len(offsets) - 1):
        start, stop = offsets[i], offsets[i + 1]
        row = values[start:stop]
        ranks = out[start:stop]

        # A stable sort by descending value puts the first of equal values first: the higher rank.
        order = np.argsort(-row, kind="mergesort")
        for place in range(len(order)):
            ranks[order[place]] = len(order) - place


@kernel
def smooth_rows(offsets: Array, values: Array, counted: Array, alpha: float, out: Array) -> None:
    """Interpolate between the values of each row and their mean.

    Args:
        offsets: int64 `[N + 1]`.
        values: float64 `[E]`. Negative values count as 0.
        counted: bool `[E]`, entries to include. Others get 0.
        alpha: Weight of the values, in `[0, 1]`.
        out: float64 `[E]`, written: `alpha * value + (1 - alpha) * mean`. May be `values`.
    """
    for i in range(len(offsets) - 1):
        total = 0.0
        count = 0
        for e in range(offsets[i], offsets[i + 1]):
            if counted[e]:
                total += max(values[e], 0.0)
                count += 1

        # Divide here, since `count` is 0 in a row without included entries.
        for e in range(offsets[i], offsets[i + 1]):
            if counted[e]:
                out[e] = alpha * max(values[e], 0.0) + (1 - alpha) * (total / count)
            else:
                out[e] = 0.0


@kernel
def give_tokens(
    offsets: Array, word_ids: Array, word_offsets: Array, values: Array, out: Array
) -> None:
    """Copy the value of each word to its tokens.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        word_ids: int32 `[T]`, -1 on special tokens.
        word_offsets: int64 `[N + 1]` of the words.
        values: float64 `[W]`, value of each word.
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
