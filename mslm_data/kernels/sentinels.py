"""Replace runs of masked tokens by sentinels, and merge the two halves again.

A run is a maximal stretch of masked tokens of a row.
"""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel


@kernel
def count_runs(offsets: Array, kinds: Array, masked: Array, runs: Array) -> None:
    """Count the masked tokens and the runs of each row.

    Args:
        offsets: int64 `[N + 1]`.
        kinds: uint8 `[T]`, 0 for tokens that are not masked.
        masked: int64 `[N]`, number of masked tokens, written.
        runs: int64 `[N]`, number of runs, written.
    """
    for i in range(len(runs)):
        masked[i] = 0
        runs[i] = 0
        inside = False
        for t in range(offsets[i], offsets[i + 1]):
            if kinds[t] > 0:
                masked[i] += 1
                runs[i] += not inside
            inside = kinds[t] > 0


@kernel
def split_runs(
    offsets: Array,
    ids: Array,
    kinds: Array,
    sentinels: Array,
    input_offsets: Array,
    inputs: Array,
    label_offsets: Array,
    labels: Array,
    label_kinds: Array,
) -> None:
    """Write the encoder's input and the decoder's labels of each row.

    Args:
        offsets: int64 `[N + 1]`.
        ids: int32 `[T]`, token ids.
        kinds: uint8 `[T]`, 0 for tokens that are not masked.
        sentinels: int32, ids of sentinels, at least as many as the runs of a row.
        input_offsets: int64 `[N + 1]`, a row without its masked tokens, with a token per run.
        inputs: int32, written.
        label_offsets: int64 `[N + 1]`, the masked tokens of a row, with a token per run. A row may
            have more, at its end, which are not written.
        labels: int32, written.
        label_kinds: uint8, same offsets as `labels`, written. A sentinel has the kind of the first
            token of its run.
    """
    for i in range(len(offsets) - 1):
        p = input_offsets[i]
        q = label_offsets[i]
        run = 0
        inside = False
        for t in range(offsets[i], offsets[i + 1]):
            kind = kinds[t]
            if kind == 0:
                inputs[p] = ids[t]
                p += 1
                inside = False
                continue

            if not inside:
                inputs[p] = sentinels[run]
                p += 1
                labels[q] = sentinels[run]
                label_kinds[q] = kind
                q += 1
                run += 1
                inside = True
            labels[q] = ids[t]
            label_kinds[q] = kind
            q += 1


@kernel
def merge_runs(
    input_offsets: Array,
    inputs: Array,
    is_sentinel: Array,
    label_offsets: Array,
    labels: Array,
    ends_run: Array,
    offsets: Array,
    out: Array,
) -> None:
    """Put the runs of the labels in place of the sentinels of the inputs.

    Args:
        input_offsets: int64 `[N + 1]`.
        inputs: int32, inputs of the encoder.
        is_sentinel: bool, same offsets as `inputs`.
        label_offsets: int64 `[N + 1]`.
        labels: int32, labels of the decoder, with the sentinels of the inputs in the same order.
        ends_run: bool, same offsets as `labels`: sentinels, and the end of a text.
        offsets: int64 `[N + 1]` of the merged rows.
        out: int32, written.
    """
    for i in range(len(offsets) - 1):
        t = offsets[i]
        q = label_offsets[i]
        for p in range(input_offsets[i], input_offsets[i + 1]):
            if not is_sentinel[p]:
                out[t] = inputs[p]
                t += 1
                continue

            q += 1  # the sentinel
            while q < label_offsets[i + 1] and not ends_run[q]:
                out[t] = labels[q]
                t += 1
                q += 1
