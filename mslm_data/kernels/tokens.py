"""What may be masked, how much of it there is, and painting whole units of tokens."""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel


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
    """Find the tokens that may still be chosen, and count the tokens of each row that are not special.

    Args:
        offsets: int64 `[N + 1]`.
        word_ids: int32 `[T]`, -1 on special tokens.
        input_ids: int32 `[T]`.
        unk: The id of `[UNK]`, a useless target; -1 where the tokenizer has none, or where it may be chosen.
        kinds: uint8 `[T]`, not 0 where an earlier stage took the token.
        pool: uint8 `[T]`, written: 1 where a token is neither special, nor `[UNK]`, nor taken.
        sizes: int64 `[N]`, written: tokens that are not special, whether taken or not.
    """
    for i in range(len(sizes)):
        start, stop = offsets[i], offsets[i + 1]
        words, ids, taken, pool_row = (
            word_ids[start:stop],
            input_ids[start:stop],
            kinds[start:stop],
            pool[start:stop],
        )
        size = np.int32(0)
        for t in range(len(words)):
            real = words[t] >= 0
            pool_row[t] = real & (ids[t] != unk) & (taken[t] == 0)
            size += np.int32(real)
        sizes[i] = size


@kernel
def count_at_least(offsets: Array, values: Array, least: int, out: Array) -> None:
    """Count the values of each row that are `least` or more.

    Args:
        offsets: int64 `[N + 1]`.
        values: integers `[T]`.
        least: The smallest value that counts.
        out: int64 `[N]`, written.
    """
    for i in range(len(out)):
        row = values[offsets[i] : offsets[i + 1]]
        count = 0
        for t in range(len(row)):
            count += int(row[t] >= least)
        out[i] = count


@kernel
def count_words(offsets: Array, word_ids: Array, out: Array) -> None:
    """Count the words of each row.

    Args:
        offsets: int64 `[N + 1]`.
        word_ids: int32 `[T]`, never falling within a row but for the -1 of special tokens.
        out: int64 `[N]`, written: distinct values that are not -1.
    """
    for i in range(len(out)):
        row = word_ids[offsets[i] : offsets[i + 1]]
        count, last = 0, -1
        for t in range(len(row)):
            if row[t] > last:
                count, last = count + 1, row[t]
        out[i] = count


@kernel
def find_units(
    offsets: Array, numbers: Array, starts: Array, ends: Array, unit_offsets: Array
) -> None:
    """Find runs of equal numbers within rows.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        numbers: integers `[T]`; negative ones belong to no run.
        starts: int32 `[T]`, `[0, U)` written: a run's first token, counted within its row; the next is of no use.
        ends: int32 `[T]`, `[0, U)` written; half open.
        unit_offsets: int64 `[N + 1]`, written: the runs of each row; U is the last.
    """
    u = 0
    unit_offsets[0] = 0
    for i in range(len(offsets) - 1):
        row, before = numbers[offsets[i] : offsets[i + 1]], -1
        for t in range(len(row)):
            starts[u] = t  # overwritten by the next if no run begins here
            u += int((row[t] >= 0) & (row[t] != before))
            if row[t] >= 0:
                ends[u - 1] = t + 1
            before = row[t]
        unit_offsets[i + 1] = u


@kernel
def paint_units(
    offsets: Array, unit_offsets: Array, starts: Array, taken: Array, mark: int, out: Array
) -> None:
    """Mark the first tokens of units.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        unit_offsets: int64 `[N + 1]` of the units.
        starts: int32 `[U]`: a unit's first token, counted within its row.
        taken: int64 `[U]`: how many tokens of each to mark; 0 for none.
        mark: What to write.
        out: uint8 `[T]`: `mark` in these tokens, elsewhere as it was.
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
    """Find the units all of whose tokens can be had, by running sums: half the time of a loop over each unit's tokens.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        unit_offsets: int64 `[N + 1]` of the units.
        starts: int32 `[U]`: a unit's first token, counted within its row.
        ends: int32 `[U]`, half open.
        pool: uint8 `[T]`: 1 where a token can be had, 0 elsewhere.
        out: uint8 `[U]`, written: 1 where all tokens of a unit can be had, 0 elsewhere.
    """
    longest = 0
    for i in range(len(offsets) - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    sums = np.zeros(longest + 1, np.int32)
    for i in range(len(offsets) - 1):
        row, total = pool[offsets[i] : offsets[i + 1]], 0
        for t in range(len(row)):
            total += int(row[t])
            sums[t + 1] = total
        for u in range(unit_offsets[i], unit_offsets[i + 1]):
            out[u] = sums[ends[u]] - sums[starts[u]] == ends[u] - starts[u]


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
    """Make one number of those of each unit's tokens.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        unit_offsets: int64 `[N + 1]` of the units.
        starts: int32 `[U]`: a unit's first token, counted within its row.
        ends: int32 `[U]`, half open; no unit is empty.
        values: float64 `[T]`.
        how: 0 for the largest, 1 for the mean, 2 for the sum, 3 for the first.
        out: float64 `[U]`, written.
    """
    for i in range(len(offsets) - 1):
        for u in range(unit_offsets[i], unit_offsets[i + 1]):
            first, past = offsets[i] + starts[u], offsets[i] + ends[u]
            most, total = values[first], 0.0
            for t in range(first, past):
                most = max(most, values[t])
                total += values[t]
            out[u] = (
                most
                if how == 0
                else values[first]
                if how == 3
                else total / (past - first if how == 1 else 1)
            )
