"""Fused kernels for the most common picks: all steps in one pass over the rows.

The masks are those of `open_pool`, `choose_uniform` or `fill_weighted`, and `paint_units` one after
the other, with the same random numbers. They take 0.7 of the time, since pools, budgets and
portions are not written to memory.
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.fill import GROUP, draw_part, drop_unit, find_unit, sum_weights
from mslm_data.kernels.rows import draw_next, list_open, longest_row


@kernel
def mask_tokens(
    offsets: Array,
    words: Array,
    ids: Array,
    unk: int,
    budgets: Array,
    streams: Array,
    mark: int,
    may_mask: Array,
    places: Array,
    kinds: Array,
    unspent: Array,
) -> None:
    """Mask a number of ordinary tokens of each row, uniformly and without replacement.

    Args:
        offsets: int64 `[N + 1]`.
        words: int32 `[T]`, `word_ids`, -1 on special tokens.
        ids: int32 `[T]`, token ids.
        unk: Id of the unknown token, which is not masked. -1 if there is none, or to mask it too.
        budgets: int64, longer than the longest row: item n is the number of tokens to mask in a row
            of n ordinary tokens.
        streams: uint64 `[N]`. Draw k of a row is step k of a Fisher-Yates shuffle of the eligible
            tokens.
        mark: Value to write.
        may_mask: uint8, as long as the longest row; scratch memory.
        places: int32, as long as the longest row; scratch memory.
        kinds: uint8 `[T]`, nonzero on tokens of earlier picks; `mark` is written at masked tokens.
        unspent: int64 `[N]`; the unspent budget is added.
    """
    for i in range(len(streams)):
        start, stop = offsets[i], offsets[i + 1]
        row_words = words[start:stop]
        row_ids = ids[start:stop]
        row_kinds = kinds[start:stop]

        # Two loops, since this one compiles to SIMD, and `list_open` does not.
        real = 0  # ordinary tokens
        for t in range(len(row_words)):
            real += row_words[t] >= 0
            may_mask[t] = (row_words[t] >= 0) & (row_ids[t] != unk) & (row_kinds[t] == 0)

        size = list_open(may_mask[: len(row_words)], places)
        count = budgets[real]
        if count > size:
            unspent[i] += count - size
            count = size

        for k in range(count):
            row_kinds[draw_next(places, streams[i], k, size)] = mark


@kernel
def mask_units(
    offsets: Array,
    unit_offsets: Array,
    starts: Array,
    ends: Array,
    budgets: Array,
    streams: Array,
    mark: int,
    places: Array,
    kinds: Array,
) -> None:
    """Mask a number of units of each row, uniformly and without replacement. All are eligible.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        unit_offsets: int64 `[N + 1]` of the units.
        starts: int32 `[U]`, first token of each unit, within its row.
        ends: int32 `[U]`, half open.
        budgets: int64, longer than the maximum number of units in a row: item n is the number of
            units to mask in a row of n units, at most n.
        streams: uint64 `[N]`. Draw k of a row is step k of a Fisher-Yates shuffle of its units.
        mark: Value to write.
        places: int32, as long as the maximum number of units in a row; scratch memory.
        kinds: uint8 `[T]`, `mark` is written on tokens of masked units.
    """
    for i in range(len(streams)):
        start = offsets[i]
        first = unit_offsets[i]
        size = unit_offsets[i + 1] - first
        count = budgets[size]

        # Without draws if all units are masked.
        if count == size:
            for u in range(first, first + size):
                kinds[start + starts[u] : start + ends[u]] = mark
            continue

        for u in range(size):
            places[u] = u
        for k in range(count):
            u = first + draw_next(places, streams[i], k, size)
            kinds[start + starts[u] : start + ends[u]] = mark


@kernel
def mask_weighted(
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
    """Mask a number of units of each row by weight, as `fill_weighted` with units of length 1.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        unit_offsets: int64 `[N + 1]` of the units.
        starts: int32 `[U]`, first token of each unit, within its row.
        ends: int32 `[U]`, half open.
        pool: uint8 `[U]`, 1 for eligible units.
        weights: float64 `[U]`, finite. Units of weight 0 or less are never masked.
        quota: int64 `[N]`, number of units to mask; reduced by the number of masked units.
        streams: uint64 `[N]`. Draw k of a row is the k-th masked unit.
        mark: Value to write.
        kinds: uint8 `[T]`, `mark` is written on tokens of masked units.
    """
    longest = longest_row(unit_offsets)
    parts = np.empty(longest, np.int64)
    sums = np.empty(longest // GROUP + 1, np.int64)
    for i in range(len(streams)):
        start = offsets[i]
        begin, end = unit_offsets[i], unit_offsets[i + 1]
        total = 0
        if quota[i] > 0:
            total = sum_weights(pool[begin:end], weights[begin:end], parts, sums)

        k = 0
        while k < quota[i] and total > 0:
            u = find_unit(parts, sums, draw_part(streams[i], k, total))
            total -= drop_unit(parts, sums, u)
            kinds[start + starts[begin + u] : start + ends[begin + u]] = mark
            k += 1
        quota[i] -= k
