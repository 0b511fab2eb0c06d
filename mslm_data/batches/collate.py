"""Masked rows to rectangles: the one place where padding happens."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mslm_data.batches.batch_options import BatchOptions
from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, Ragged
from mslm_data.kernels.pad import (
    measure_rows,
    number_packed,
    pad_masked,
    pad_rates,
    pad_spans,
    pad_tags,
)

PADDED = BatchOptions()
"""Rows that are padded to the longest of their batch."""

Batch: TypeAlias = dict[str, Array]
"""A batch of B rows, of L tokens and S mentions at most. Array names, with types and shapes:

* int64 `[B, L]`: `input_ids` (corrupted), `attention_mask`, `labels` (-100 where nothing is
  predicted), `bio` (-100 on special tokens and padding);
* uint8 `[B, L]`: `mask_kinds`, why a token is predicted (`MaskKind`), 0 where it is not;
* int64 `[B, S]`: `span_starts`, `span_ends` (half open, in tokens), `span_labels`, padded with -1;
* uint64 `[B]`: `keys`, the rows' own;
* float32 `[B]`: `mask_rates`, the chance that each row's tokens had, by which masked diffusion
  divides its loss (`MaskPlan.rates`); only from strategies that have rates;
* int64 `[B]`: `doc_labels`, labels of the rows' documents, -1 where one has none; only where the
  shards have them.

Where rows are packed, several of them are one of the B rows here: `keys` and `doc_labels` then have
one item for each that was packed, in order, and mentions are in tokens of the packed row.
`mask_rates` are `[B, L]`: at each token those of its row, and 1 on padding. There are besides:

* int64 `[B, L]`: `position_ids`, which begin at 0 in each row that was packed, 0 on padding;
* int64 `[B, L]`: `sequence_ids`, the number of that row within the packed one, -1 on padding;
* of one flat row with R in it, what FlashAttention wants: int32 `[R + 1]`, `cu_seq_lens_q` and
  `cu_seq_lens_k`, where each begins; int64 `[]`, `max_length_q` and `max_length_k`, the longest."""


def collate(
    examples: Examples,
    kinds: Ragged,
    corrupted: Ragged,
    rows: npt.NDArray[np.int64] | None = None,
    *,
    rates: npt.NDArray[np.float32] | None = None,
    packs: npt.NDArray[np.int64] | None = None,
    options: BatchOptions = PADDED,
) -> Batch:
    """Make a batch of masked rows.

    Args:
        examples: N rows.
        kinds: uint8 `MaskKind`: what is predicted and why, of the same rows.
        corrupted: The ids that the model sees, of the same rows.
        rows: `[R]`, which rows, in this order; None takes all.
        rates: float32 `[N]`, the rate of each row; None where no row has one.
        packs: `[B + 1]`, where each packed row begins among them; None packs none.
        options: Say how wide the batch is: `row_tokens`, or the longest row's length, rounded up to
            a multiple of `multiple_of`.
    """
    if rows is None:
        rows = np.arange(len(examples))
    bounds = np.arange(len(rows) + 1) if packs is None else packs
    size = len(bounds) - 1
    offsets = examples.input_ids.offsets
    span_offsets = examples.span_starts.offsets

    maxima = np.empty(2, np.int64)
    measure_rows(rows, bounds, offsets, span_offsets, maxima)
    longest, mentions = maxima.tolist()
    width = options.width(longest)

    # input_ids, attention_mask, labels and bio are one block of memory: a single allocation a
    # batch.
    tokens = np.empty((4, size, width), np.int64)
    kinds_padded = np.empty((size, width), np.uint8)
    pad = max(examples.ids.pad, 0)
    pad_masked(
        rows,
        bounds,
        offsets,
        examples.input_ids.values,
        corrupted.values,
        kinds.values,
        pad,
        tokens,
    )
    pad_tags(
        rows,
        bounds,
        offsets,
        examples.bio.values,
        examples.word_ids.values,
        kinds.values,
        tokens[3],
        kinds_padded,
    )

    spans = np.empty((3, size, mentions), np.int64)
    pad_spans(
        rows,
        bounds,
        offsets,
        span_offsets,
        examples.span_starts.values,
        examples.span_ends.values,
        examples.span_labels.values,
        spans,
    )

    batch = {
        "input_ids": tokens[0],
        "attention_mask": tokens[1],
        "labels": tokens[2],
        "mask_kinds": kinds_padded,
        "bio": tokens[3],
        "span_starts": spans[0],
        "span_ends": spans[1],
        "span_labels": spans[2],
        "keys": examples.keys[rows],
    }
    if examples.doc_labels is not None:
        batch["doc_labels"] = examples.doc_labels[rows].astype(np.int64)
    if rates is not None:
        batch["mask_rates"] = rates[rows]
        if packs is not None:
            batch["mask_rates"] = np.empty((size, width), np.float32)
            pad_rates(rows, packs, offsets, rates, batch["mask_rates"])
    if packs is not None:
        numbers = np.empty((2, size, width), np.int64)
        number_packed(rows, packs, offsets, numbers)
        batch |= {"position_ids": numbers[0], "sequence_ids": numbers[1]}
        if options.flat:
            batch |= _bounds(examples.input_ids.lengths[rows])
    return batch


def _bounds(lengths: npt.NDArray[np.int64]) -> Batch:
    """Return where the rows of a flat row begin, as FlashAttention takes it."""
    bounds = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=bounds[1:])
    longest = np.array(lengths.max(initial=0), np.int64)
    return {
        "cu_seq_lens_q": bounds,
        "cu_seq_lens_k": bounds,
        "max_length_q": longest,
        "max_length_k": longest,
    }
