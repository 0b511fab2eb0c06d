"""Find and count the tokens and units that may be masked, and mark units in a plan."""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.rows import all_open, begins_word

_LARGEST, _MEAN, _SUM = range(3)
"""Reductions of `reduce_units`. Any other value selects the number of the unit's first token."""


@kernel
def open_pool(
    offsets: Array,
    word_ids: Array,
    input_ids: Array,
    unk: int,
    kinds: Array,
    pool: Array,
    sizes: Array,
) -> None:
    """Find the eligible tokens of a pick, and count the ordinary tokens of each row.

    Args:
        offsets: int64 `[N + 1]`.
        word_ids: int32 `[T]`, -1 on special tokens.
        input_ids: int32 `[T]`, token ids.
        unk: Id of the unknown token, a useless target. -1 if there is none, or to make it eligible.
        kinds: uint8 `[T]`, nonzero on tokens of earlier picks.
        pool: uint8 `[T]`, written: 1 on tokens that are neither special, nor unknown, nor taken by
            an earlier pick; 0 on others.
        sizes: int64 `[N]`, written: number of ordinary tokens of each row, including taken ones.
    """
    for i in range(len(sizes)):
        start, stop = offsets[i], offsets[i + 1]
        row_words = word_ids[start:stop]
        row_ids = input_ids[start:stop]
        row_kinds = kinds[start:stop]
        row_pool = pool[start:stop]

        # No branch, and a 32-bit count, so that it compiles to SIMD.
        size = np.int32(0)
        for t in range(len(row_words)):
            real = row_words[t] >= 0
            row_pool[t] = real & (row_ids[t] != unk) & (row_kinds[t] == 0)
            size += np.int32(real)
        sizes[i] = size


@kernel
def count_numbered(offsets: Array, numbers: Array, out: Array) -> None:
    """Count the nonnegative numbers of each row, such as the `word_ids` of ordinary tokens.

    Args:
        offsets: int64 `[N + 1]`.
        numbers: integers `[T]`.
        out: int64 `[N]`, written.
    """
    for i in range(len(out)):
        row = numbers[offsets[i] : offsets[i + 1]]
        count = 0
        for t in range(len(row)):
            count += row[t] >= 0
        out[i] = count


@kernel
def count_words(offsets: Array, word_ids: Array, out: Array) -> None:
    """Count the words of each row.

    Args:
        offsets: int64 `[N + 1]`.
        word_ids: int32 `[T]`, ascending within each row, except for -1 on special tokens.
        out: int64 `[N]`, written: number of distinct values other than -1.
    """
    for i in range(len(out)):
        row = word_ids[offsets[i] : offsets[i + 1]]
        count = 0
        last = -1
        for t in range(len(row)):
            # False for special tokens too, since -1 is less than any word number.
            if row[t] > last:
                count += 1
                last = row[t]
        out[i] = count


@kernel
def find_units(
    offsets: Array, numbers: Array, starts: Array, ends: Array, unit_offsets: Array
) -> None:
    """Find runs of equal numbers within rows, such as words by their `word_ids`.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        numbers: integers `[T]`. Negative numbers belong to no run.
        starts: int32 `[T]`, written up to U: first token of each run, within its row. Item U is
            scratch memory.
        ends: int32 `[T]`, written up to U, half open.
        unit_offsets: int64 `[N + 1]`, written: offsets of each row's runs. The last item is U.
    """
    u = 0
    unit_offsets[0] = 0
    for i in range(len(offsets) - 1):
        row = numbers[offsets[i] : offsets[i + 1]]
        before = -1
        for t in range(len(row)):
            # No branch: if no run begins here, the next one overwrites this item.
            starts[u] = t
            u += begins_word(row[t], before)

            if row[t] >= 0:
                ends[u - 1] = t + 1
            before = row[t]
        unit_offsets[i + 1] = u


@kernel
def paint_units(
    offsets: Array, unit_offsets: Array, starts: Array, taken: Array, mark: int, out: Array
) -> None:
    """Mark the leading tokens of units in a plan.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        unit_offsets: int64 `[N + 1]` of the units.
        starts: int32 `[U]`, first token of each unit, within its row.
        taken: int32 `[U]`, number of leading tokens of each unit to mark.
        mark: Value to write.
        out: uint8 `[T]`, `mark` is written at these tokens.
    """
    for i in range(len(offsets) - 1):
        for u in range(unit_offsets[i], unit_offsets[i + 1]):
            if taken[u] > 0:
                first = offsets[i] + starts[u]
                out[first : first + taken[u]] = mark


@kernel
def find_open_units(
    offsets: Array, unit_offsets: Array, starts: Array, ends: Array, pool: Array, out: Array
) -> None:
    """Find the units whose tokens are all eligible.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        unit_offsets: int64 `[N + 1]` of the units.
        starts: int32 `[U]`, first token of each unit, within its row.
        ends: int32 `[U]`, half open.
        pool: uint8 `[T]`, 1 for eligible tokens.
        out: uint8 `[U]`, written: 1 if all tokens of the unit are eligible, otherwise 0.
    """
    for i in range(len(offsets) - 1):
        row = pool[offsets[i] : offsets[i + 1]]
        for u in range(unit_offsets[i], unit_offsets[i + 1]):
            out[u] = all_open(row, starts[u], ends[u])


@kernel
def reduce_units(
    offsets: Array,
    unit_offsets: Array,
    starts: Array,
    ends: Array,
    values: Array,
    how: int,
    out: Array,
) -> None:
    """Reduce the numbers of each unit's tokens to one number.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        unit_offsets: int64 `[N + 1]` of the units.
        starts: int32 `[U]`, first token of each unit, within its row.
        ends: int32 `[U]`, half open. No unit is empty.
        values: float64 `[T]`, a number per token.
        how: 0 for the maximum, 1 for the mean, 2 for the sum, 3 for the first token's number.
        out: float64 `[U]`, written.
    """
    for i in range(len(offsets) - 1):
        for u in range(unit_offsets[i], unit_offsets[i + 1]):
            first, past = offsets[i] + starts[u], offsets[i] + ends[u]

            # Compute both for every `how`: units are short, and a branch in the loop costs more.
            largest = values[first]
            total = 0.0
            for t in range(first, past):
                largest = max(largest, values[t])
                total += values[t]

            if how == _LARGEST:
                out[u] = largest
            elif how == _MEAN:
                out[u] = total / (past - first)
            elif how == _SUM:
                out[u] = total
            else:
                out[u] = values[first]
