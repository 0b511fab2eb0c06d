"""Find the tokens and units that may be masked, count them, and mark units in a plan."""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.rows import begins_word, longest_row

_LARGEST, _MEAN, _SUM = range(3)
"""Ways in which `reduce_units` makes one number of those of a unit's tokens; any other value takes
the first one."""


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
    """Find the tokens that may still be chosen, and count the tokens that are not special.

    Args:
        offsets: int64 `[N + 1]`.
        word_ids: int32 `[T]`, -1 on special tokens.
        input_ids: int32 `[T]`.
        unk: The id of the unknown token, a useless target; -1 where the tokenizer has none, or
            where it may be chosen.
        kinds: uint8 `[T]`, not 0 where an earlier pick took the token.
        pool: uint8 `[T]`, written: 1 where a token is neither special, nor unknown, nor taken.
        sizes: int64 `[N]`, written: tokens of each row that are not special, taken ones included.
    """
    for i in range(len(sizes)):
        start, stop = offsets[i], offsets[i + 1]
        row_words = word_ids[start:stop]
        row_ids = input_ids[start:stop]
        row_kinds = kinds[start:stop]
        row_pool = pool[start:stop]

        # No branch, and a count of 32 bits, so that it compiles to SIMD.
        size = np.int32(0)
        for t in range(len(row_words)):
            real = row_words[t] >= 0
            row_pool[t] = real & (row_ids[t] != unk) & (row_kinds[t] == 0)
            size += np.int32(real)
        sizes[i] = size


@kernel
def count_numbered(offsets: Array, numbers: Array, out: Array) -> None:
    """Count the entries of each row that have a number, such as tokens that are not special.

    Args:
        offsets: int64 `[N + 1]`.
        numbers: integers `[T]`, negative for none; `word_ids` for the tokens of words.
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
        word_ids: int32 `[T]`, never falling within a row but for the -1 of special tokens.
        out: int64 `[N]`, written: distinct values other than -1.
    """
    for i in range(len(out)):
        row = word_ids[offsets[i] : offsets[i + 1]]
        count = 0
        last = -1
        for t in range(len(row)):
            # Special tokens stand below any word, so `last` passes over them.
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
        numbers: integers `[T]`; negative ones belong to no run.
        starts: int32 `[T]`, written up to U: a run's first token, counted within its row. Item U
            may hold scratch data.
        ends: int32 `[T]`, written up to U; half open.
        unit_offsets: int64 `[N + 1]`, written: the runs of each row; U is the last item.
    """
    u = 0
    unit_offsets[0] = 0
    for i in range(len(offsets) - 1):
        row = numbers[offsets[i] : offsets[i + 1]]
        before = -1
        for t in range(len(row)):
            # No branch: where no run begins, the next one overwrites this.
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
    """Mark the first tokens of units.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        unit_offsets: int64 `[N + 1]` of the units.
        starts: int32 `[U]`: a unit's first token, counted within its row.
        taken: int64 `[U]`: how many tokens of each unit to mark; 0 for none.
        mark: The value to write.
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
    """Find the units all of whose tokens may be masked.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        unit_offsets: int64 `[N + 1]` of the units.
        starts: int32 `[U]`: a unit's first token, counted within its row.
        ends: int32 `[U]`, half open.
        pool: uint8 `[T]`, 1 where a token may be masked.
        out: uint8 `[U]`, written: 1 where all tokens of a unit may be masked, 0 elsewhere.
    """
    # `sums[t]` counts the open tokens before token t: half the time of a loop over each unit.
    sums = np.zeros(longest_row(offsets) + 1, np.int32)
    for i in range(len(offsets) - 1):
        row = pool[offsets[i] : offsets[i + 1]]
        total = 0
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
    """Make one number of the numbers of each unit's tokens.

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

            # Both at once for every `how`: units are short, and a branch in the loop costs more.
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
