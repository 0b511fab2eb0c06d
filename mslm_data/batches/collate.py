"""Masked rows to rectangles: the one place where padding happens."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, Ragged
from mslm_data.kernels.pad import measure_rows, pad_masked, pad_spans, pad_tags

Batch: TypeAlias = dict[str, Array]
"""A batch of B rows, of L tokens and S mentions at most. Array names, with types and shapes:

* int64 `[B, L]`: `input_ids` (corrupted), `attention_mask`, `labels` (-100 where nothing is
  predicted), `bio` (-100 on special tokens and padding);
* uint8 `[B, L]`: `mask_kinds`, why a token is predicted (`MaskKind`), 0 where it is not;
* int64 `[B, S]`: `span_starts`, `span_ends` (half open, in tokens), `span_labels`, padded with -1;
* uint64 `[B]`: `keys`, the rows' own;
* int64 `[B]`: `doc_labels`, labels of the rows' documents, -1 where one has none; only where the
  shards have them."""


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
        rows: `[B]`, which rows, in this order; None takes all.
        multiple_of: L is the longest row's length, rounded up to a multiple of this.
    """
    if rows is None:
        rows = np.arange(len(examples))
    offsets = examples.input_ids.offsets
    span_offsets = examples.span_starts.offsets

    most = np.empty(2, np.int64)
    measure_rows(rows, offsets, span_offsets, most)
    longest, mentions = most.tolist()
    width = -(-longest // multiple_of) * multiple_of

    # input_ids, attention_mask, labels and bio are one block of memory: a single allocation a
    # batch.
    tokens = np.empty((4, len(rows), width), np.int64)
    kinds_padded = np.empty((len(rows), width), np.uint8)
    pad = max(examples.ids.pad, 0)
    pad_masked(rows, offsets, examples.input_ids.values, hidden.values, kinds.values, pad, tokens)
    pad_tags(
        rows,
        offsets,
        examples.bio.values,
        examples.word_ids.values,
        kinds.values,
        tokens[3],
        kinds_padded,
    )

    spans = np.empty((3, len(rows), mentions), np.int64)
    pad_spans(
        rows,
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
    return batch
