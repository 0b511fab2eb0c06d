"""Masked rows, and their padding to batches. All padding happens here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mslm_data.batches.batch_options import BatchOptions
from mslm_data.data.examples import Examples, concatenate
from mslm_data.data.ragged import Array, Ragged
from mslm_data.kernels.pad import (
    measure_rows,
    number_packed,
    pad_masked,
    pad_rates,
    pad_spans,
    pad_tags,
)
from mslm_data.mask.strategy import Strategy

PADDED = BatchOptions()
"""Options that pad rows to the longest row of the batch."""

Batch: TypeAlias = dict[str, Array]
"""A batch of B rows with up to L tokens and S mentions, as arrays by name:

* `input_ids`: int64 `[B, L]`, corrupted token ids.
* `attention_mask`: int64 `[B, L]`, 1 on tokens, 0 on padding.
* `labels`: int64 `[B, L]`, original ids of masked tokens, -100 elsewhere.
* `mask_kinds`: uint8 `[B, L]`, the `MaskKind` of each token, 0 if not masked.
* `bio`: int64 `[B, L]`, BIO tags, -100 on special tokens and padding.
* `span_starts`, `span_ends`: int64 `[B, S]`, mentions as half-open token ranges, padded with -1.
* `span_labels`: int64 `[B, S]`, labels of the mentions, padded with -1.
* `keys`: uint64 `[B]`, keys of the rows.
* `mask_rates`: float32 `[B]`, masking rate of each row, by which masked diffusion divides its loss.
  Only from strategies with a rate per row (`MaskPlan.rates`).
* `doc_labels`: int64 `[B]`, labels of the documents, -1 for none. Only from shards with document
  labels.

With packing, each of the B rows holds several rows of the split, R in all. `keys` and `doc_labels`
are `[R]`. `mask_rates` is `[B, L]`, the rate of each token's row, 1 on padding. Mentions are in
tokens of the packed row. There are more arrays:

* `position_ids`: int64 `[B, L]`, position within the original row, 0 on padding.
* `sequence_ids`: int64 `[B, L]`, number of the original row within the packed row, -1 on padding.
* `cu_seq_lens_q`, `cu_seq_lens_k`: int32 `[R + 1]`, offsets of the original rows, for
  FlashAttention. Only with `flat`.
* `max_length_q`, `max_length_k`: int64 `[]`, length of the longest original row. Only with
  `flat`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Masked:
    """N masked rows.

    Attributes:
        examples: The rows before masking.
        kinds: uint8 `MaskKind` of each token.
        corrupted: int32, corrupted token ids.
        rates: float32 `[N]`, masking rate of each row (`MaskPlan.rates`). None without rates.
    """

    examples: Examples
    kinds: Ragged
    corrupted: Ragged
    rates: npt.NDArray[np.float32] | None = None

    @classmethod
    def by_strategy(
        cls,
        examples: Examples,
        strategy: Strategy,
        *,
        seed: int,
        epoch: int,
        step: int | None = None,
        tokens: int | None = None,
    ) -> Masked:
        """Mask rows by a strategy. The mask of a row depends on its key and the arguments only.

        Raises:
            ValueError: As `Strategy.plan` and `Strategy.corrupt`.
        """
        plan = strategy.plan(examples, seed=seed, epoch=epoch, step=step, tokens=tokens)
        corrupted = strategy.corrupt(examples, plan, seed=seed, epoch=epoch)

        return cls(examples=examples, kinds=plan.kinds, corrupted=corrupted, rates=plan.rates)

    @classmethod
    def concatenate(cls, parts: Sequence[Masked]) -> Masked:
        """Concatenate rows; rows without a rate get rate 1."""
        has_rates = any(part.rates is not None for part in parts)
        rates = [
            np.ones(len(part), np.float32) if part.rates is None else part.rates for part in parts
        ]
        return cls(
            examples=concatenate([part.examples for part in parts]),
            kinds=Ragged.concatenate([part.kinds for part in parts]),
            corrupted=Ragged.concatenate([part.corrupted for part in parts]),
            rates=np.concatenate(rates) if has_rates else None,
        )

    def __len__(self) -> int:
        return len(self.examples)

    def batch(
        self,
        rows: npt.NDArray[np.int64] | None = None,
        *,
        packs: npt.NDArray[np.int64] | None = None,
        options: BatchOptions = PADDED,
    ) -> Batch:
        """Pad rows to a batch.

        Args:
            rows: int64 `[R]`, indices of the rows to take, in order. Default: all.
            packs: int64 `[B + 1]`, offsets of the packed rows into `rows`. Default: no packing.
            options: Options that determine the width: `row_tokens`, or else the length of the
                longest row, rounded up to a multiple of `multiple_of`.
        """
        examples = self.examples
        if rows is None:
            rows = np.arange(len(examples))
        bounds = np.arange(len(rows) + 1) if packs is None else packs
        size = len(bounds) - 1
        offsets = examples.input_ids.offsets
        span_offsets = examples.span_starts.offsets

        # Width of the batch, in tokens and mentions.
        maxima = np.empty(2, np.int64)
        measure_rows(rows, bounds, offsets, span_offsets, maxima)
        longest, mentions = maxima.tolist()
        width = options.width(longest)

        # One allocation for input_ids, attention_mask, labels and bio.
        tokens = np.empty((4, size, width), np.int64)
        kinds_padded = np.empty((size, width), np.uint8)
        pad = max(examples.ids.pad, 0)
        pad_masked(
            rows,
            bounds,
            offsets,
            examples.input_ids.values,
            self.corrupted.values,
            self.kinds.values,
            pad,
            tokens,
        )
        pad_tags(
            rows,
            bounds,
            offsets,
            examples.bio.values,
            examples.word_ids.values,
            self.kinds.values,
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
        if self.rates is not None:
            batch["mask_rates"] = self.rates[rows]
            if packs is not None:
                batch["mask_rates"] = np.empty((size, width), np.float32)
                pad_rates(rows, packs, offsets, self.rates, batch["mask_rates"])
        if packs is not None:
            numbers = np.empty((2, size, width), np.int64)
            number_packed(rows, packs, offsets, numbers)
            batch |= {"position_ids": numbers[0], "sequence_ids": numbers[1]}
            if options.flat:
                batch |= _flash_attention_args(examples.input_ids.lengths[rows])
        return batch


def _flash_attention_args(lengths: npt.NDArray[np.int64]) -> Batch:
    bounds = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=bounds[1:])
    longest = np.array(lengths.max(initial=0), np.int64)
    return {
        "cu_seq_lens_q": bounds,
        "cu_seq_lens_k": bounds,
        "max_length_q": longest,
        "max_length_k": longest,
    }
