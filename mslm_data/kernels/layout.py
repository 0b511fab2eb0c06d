"""Rows that become shorter: one id in the place of each hidden run, and the runs as a sequence to be written.

A run is tokens hidden next to each other; where it is known which are joined, it ends where they are not.
"""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel


@kernel
def opens_run(kind: int, before: int, joined: int) -> bool:
    """Return whether a token is the first of a hidden run.

    Args:
        kind: Not 0 where it is hidden.
        before: Not 0 where the token before it is; 0 at a row's beginning.
        joined: 1 where it belongs to the run of the one before it, if both are hidden.
    """
    return (kind != 0) & ((before == 0) | (joined == 0))


@kernel
def measure_runs(offsets: Array, words: Array, kinds: Array, joined: Array, out: Array) -> None:
    """Count what the layouts need.

    Args:
        offsets: int64 `[N + 1]`.
        words: int32 `[T]`, -1 on special tokens.
        kinds: uint8 `[T]`: not 0 where a token is hidden.
        joined: uint8 `[T]`: 1 where a token belongs to the run of the one before it, if both are hidden.
        out: int64 `[3, N]`, written: hidden tokens, runs of them, and special tokens at the row's end.
    """
    for i in range(len(offsets) - 1):
        row, row_joined = kinds[offsets[i] : offsets[i + 1]], joined[offsets[i] : offsets[i + 1]]
        row_words, last = words[offsets[i] : offsets[i + 1]], len(row)
        hidden, runs = 0, int(len(row) > 0 and row[0] != 0)
        for t in range(len(row)):
            hidden += int(row[t] != 0)
        for t in range(1, len(row)):
            runs += int(opens_run(row[t], row[t - 1], row_joined[t]))
        while last > 0 and row_words[last - 1] < 0:
            last -= 1
        out[0, i], out[1, i], out[2, i] = hidden, runs, len(row) - last


@kernel
def write_inputs(
    offsets: Array, ids: Array, kinds: Array, joined: Array, marks: Array, to: Array, out: Array
) -> None:
    """Write rows with one mark in the place of each hidden run.

    Args:
        offsets: int64 `[N + 1]`.
        ids: int32 `[T]`.
        kinds: uint8 `[T]`: not 0 where a token is hidden.
        joined: uint8 `[T]`: 1 where a token belongs to the run of the one before it, if both are hidden.
        marks: int32 `[M]`, one at least: of a row's first run, the second and so on; the last is that of all others.
        to: int64 `[N + 1]`: offsets of the shorter rows.
        out: int32, written, and its last place of no use: one longer than all rows.
    """
    for i in range(len(offsets) - 1):
        row, row_kinds = ids[offsets[i] : offsets[i + 1]], kinds[offsets[i] : offsets[i + 1]]
        row_joined = joined[offsets[i] : offsets[i + 1]]
        place, run, before = to[i], 0, 0
        for t in range(len(row)):  # no branch: what is left out is overwritten by the next
            opens = opens_run(row_kinds[t], before, row_joined[t])
            out[place] = marks[min(run, len(marks) - 1)] if opens else row[t]
            run += int(opens)
            place += int((row_kinds[t] == 0) | opens)
            before = int(row_kinds[t])


@kernel
def write_targets(
    offsets: Array,
    ids: Array,
    kinds: Array,
    joined: Array,
    marks: Array,
    tails: Array,
    to: Array,
    out: Array,
) -> None:
    """Write each hidden run behind its mark, then the row's last tokens.

    Args:
        offsets: int64 `[N + 1]`.
        ids: int32 `[T]`.
        kinds: uint8 `[T]`: not 0 where a token is hidden.
        joined: uint8 `[T]`: 1 where a token belongs to the run of the one before it, if both are hidden.
        marks: int32 `[M]`, as many as a row has runs at least.
        tails: int64 `[N]`: how many tokens at the row's end to add, none of them hidden.
        to: int64 `[N + 1]`: offsets of the targets.
        out: int32, written.
    """
    for i in range(len(offsets) - 1):
        row, row_kinds = ids[offsets[i] : offsets[i + 1]], kinds[offsets[i] : offsets[i + 1]]
        row_joined = joined[offsets[i] : offsets[i + 1]]
        place, run, before = to[i], 0, 0
        for t in range(len(row)):
            if opens_run(row_kinds[t], before, row_joined[t]):
                out[place] = marks[run]
                place, run = place + 1, run + 1
            if row_kinds[t] != 0 or t >= len(row) - tails[i]:
                out[place] = row[t]
                place += 1
            before = int(row_kinds[t])
