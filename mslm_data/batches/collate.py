"""Masked rows to rectangles: the one place where padding happens."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, Ragged
from mslm_data.kernels.pad import (
    IGNORED,
    measure_rows,
    pad_masked,
    pad_sequences,
    pad_spans,
    pad_tags,
)

Batch: TypeAlias = dict[str, Array]
"""`[B, L]` int64: input_ids (corrupted), attention_mask, labels (-100 where nothing is predicted), bio (-100 on
specials and padding); uint8: mask_kinds. `[B, S]` int64, padded with -1: span_starts, span_ends, span_labels. uint64
`[B]`: keys. Of strategies that change lengths: see `collate_sequences`."""


def collate(
    examples: Examples,
    kinds: Ragged,
    hidden: Ragged,
    rows: npt.NDArray[np.int64] | None = None,
    *,
    multiple_of: int = 1,
) -> Batch:
    """Make a batch of masked rows.

    Args:
        examples: N rows.
        kinds: uint8 `MaskKind`: what is predicted and why, of the same rows.
        hidden: The ids that the model sees, of the same rows.
        rows: `[B]`, which rows, in this order; None is all.
        multiple_of: L is the longest row's length, rounded up to a multiple of this.
    """
    offsets, span_offsets = examples.input_ids.offsets, examples.span_starts.offsets
    rows = np.arange(len(examples)) if rows is None else rows
    most = np.empty(2, np.int64)
    measure_rows(rows, offsets, span_offsets, most)
    longest, mentions = most.tolist()
    shape = (len(rows), -(-longest // multiple_of) * multiple_of)
    tokens, kinds_of = np.empty((4, *shape), np.int64), np.empty(shape, np.uint8)
    pad = max(examples.ids.pad, 0)
    pad_masked(rows, offsets, examples.input_ids.values, hidden.values, kinds.values, pad, tokens)
    pad_tags(
        rows,
        offsets,
        examples.bio.values,
        examples.word_ids.values,
        kinds.values,
        tokens[3],
        kinds_of,
    )
    spans = np.empty((3, len(rows), mentions), np.int64)
    starts, ends, labels = (
        examples.span_starts.values,
        examples.span_ends.values,
        examples.span_labels.values,
    )
    pad_spans(rows, span_offsets, starts, ends, labels, spans)
    return {
        "input_ids": tokens[0],
        "attention_mask": tokens[1],
        "labels": tokens[2],
        "mask_kinds": kinds_of,
        "bio": tokens[3],
        "span_starts": spans[0],
        "span_ends": spans[1],
        "span_labels": spans[2],
        "keys": examples.keys[rows],
    }


def collate_sequences(
    examples: Examples,
    inputs: Ragged,
    targets: Ragged,
    rows: npt.NDArray[np.int64] | None = None,
    *,
    multiple_of: int = 1,
) -> Batch:
    """Make a batch of rows whose inputs and targets are sequences of their own lengths, for a model that writes.

    Returns input_ids and attention_mask `[B, L]`, labels `[B, M]`, -100 on padding, all int64; and keys, uint64 `[B]`.
    Tags and mentions are none of it: their places are those of the rows as they were.

    Args:
        examples: N rows.
        inputs: The ids that the model sees, N rows.
        targets: The ids that it is to write, N rows.
        rows: `[B]`, which rows, in this order; None is all.
        multiple_of: L and M are the longest row's lengths, rounded up to multiples of this.
    """
    rows = np.arange(len(examples)) if rows is None else rows
    most = np.empty(2, np.int64)
    measure_rows(rows, inputs.offsets, targets.offsets, most)
    width, written = (-(-most // multiple_of) * multiple_of).tolist()
    seen, labels = np.empty((len(rows), width), np.int64), np.empty((len(rows), written), np.int64)
    pad_sequences(rows, inputs.offsets, inputs.values, max(examples.ids.pad, 0), seen)
    pad_sequences(rows, targets.offsets, targets.values, IGNORED, labels)
    there = (np.arange(width) < inputs.lengths[rows, None]).astype(np.int64)
    return {
        "input_ids": seen,
        "attention_mask": there,
        "labels": labels,
        "keys": examples.keys[rows],
    }
