"""Whole stages in one pass over the rows, for the most common plans: single tokens or whole units.

What `open_pool`, `choose_uniform` or `fill_weighted`, and `paint_units` do one after the other, with the same draws,
but without a pool, a budget and a share for each unit in memory: 0.7 of the time.
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.draws import below, uniform
from mslm_data.kernels.fill import GROUP, drop, pick, weigh
from mslm_data.kernels.gather import most_of_a_row


@kernel
def hide_tokens(
    offsets: Array,
    words: Array,
    ids: Array,
    unk: int,
    budgets: Array,
    streams: Array,
    mark: int,
    kinds: Array,
    owed: Array,
) -> None:
    """Hide tokens of each row that are not special, uniformly and without replacement.

    Args:
        offsets: int64 `[N + 1]`.
        words: int32 `[T]`, `word_ids`, -1 on special tokens.
        ids: int32 `[T]`.
        unk: The id of `[UNK]`, which is not hidden; -1 where the tokenizer has none, or where it may be.
        budgets: int64, longer than the longest row: how many to hide in a row of n tokens that are not special.
        streams: uint64 `[N]`; draw k of a row is step k of a Fisher-Yates shuffle of what can be hidden.
        mark: What to write.
        kinds: uint8 `[T]`, not 0 where an earlier stage took the token; `mark` at what is hidden.
        owed: int64 `[N]`; what could not be hidden is added.
    """
    longest = most_of_a_row(offsets)
    can, places = np.empty(longest, np.uint8), np.empty(longest, np.int32)
    for i in range(len(streams)):
        row, row_ids = words[offsets[i] : offsets[i + 1]], ids[offsets[i] : offsets[i + 1]]
        out = kinds[offsets[i] : offsets[i + 1]]
        size, real = 0, 0
        for t in range(len(row)):  # by itself, as it compiles to SIMD and the next loop does not
            real += int(row[t] >= 0)
            can[t] = (row[t] >= 0) & (row_ids[t] != unk) & (out[t] == 0)
        for t in range(
            len(row)
        ):  # no branch: a place that cannot be had is overwritten by the next
            places[size] = t
            size += int(can[t])
        count = min(budgets[real], size)
        owed[i] += budgets[real] - count
        for k in range(count):
            j = k + below(streams[i], k, size - k)
            out[places[j]] = mark
            places[j] = places[k]


@kernel
def hide_units(
    offsets: Array,
    unit_offsets: Array,
    starts: Array,
    ends: Array,
    budgets: Array,
    streams: Array,
    mark: int,
    kinds: Array,
) -> None:
    """Hide units of each row, all of which can be had, uniformly and without replacement.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        unit_offsets: int64 `[N + 1]` of the units.
        starts: int32 `[U]`: a unit's first token, counted within its row.
        ends: int32 `[U]`, half open.
        budgets: int64, longer than the most units of a row: how many of n to hide, n at most.
        streams: uint64 `[N]`; draw k of a row is step k of a Fisher-Yates shuffle of its units.
        mark: What to write.
        kinds: uint8 `[T]`: `mark` in hidden units, elsewhere as it was.
    """
    places = np.empty(most_of_a_row(unit_offsets), np.int32)
    for i in range(len(streams)):
        size = unit_offsets[i + 1] - unit_offsets[i]
        for u in range(size):
            places[u] = u
        for k in range(budgets[size]):
            j = k + (
                below(streams[i], k, size - k) if budgets[size] < size else 0
            )  # all of them: in any order
            u = unit_offsets[i] + places[j]
            places[j] = places[k]
            kinds[offsets[i] + starts[u] : offsets[i] + ends[u]] = mark


@kernel
def hide_weighted(
    offsets: Array,
    unit_offsets: Array,
    starts: Array,
    ends: Array,
    pool: Array,
    weights: Array,
    quota: Array,
    streams: Array,
    mark: int,
    kinds: Array,
) -> None:
    """Hide a number of units of each row by weight; as `fill_weighted`, where each unit counts as one.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        unit_offsets: int64 `[N + 1]` of the units.
        starts: int32 `[U]`: a unit's first token, counted within its row.
        ends: int32 `[U]`, half open.
        pool: uint8 `[U]`: 1 where a unit may be taken.
        weights: float64 `[U]`, finite; 0 and less is never taken.
        quota: int64 `[N]`: how many to hide; what is left of it afterwards.
        streams: uint64 `[N]`; draw k of a row is the k-th unit drawn.
        mark: What to write.
        kinds: uint8 `[T]`: `mark` in hidden units, elsewhere as it was.
    """
    most = most_of_a_row(unit_offsets)
    parts, sums = np.empty(most, np.int64), np.empty(most // GROUP + 1, np.int64)
    for i in range(len(streams)):
        begin, end, k = unit_offsets[i], unit_offsets[i + 1], 0
        total = weigh(pool[begin:end], weights[begin:end], parts, sums) if quota[i] > 0 else 0
        while k < quota[i] and total > 0:
            u = pick(parts, sums, min(int(uniform(streams[i], k) * total), total - 1))
            total -= drop(parts, sums, u)
            kinds[offsets[i] + starts[begin + u] : offsets[i] + ends[begin + u]] = mark
            k += 1
        quota[i] -= k
