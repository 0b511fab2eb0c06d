"""Masked rows, and their padding to batches. All padding happens here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mslm_data.batches.batch_options import BatchOptions
from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, Ragged, count_up, make_offsets
from mslm_data.kernels.pad import IGNORED, pad
from mslm_data.mask.plan import Objective
from mslm_data.mask.sentinels import put_sentinels
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
* `loss_weights`: float32 `[B, L]`, the weight of each label in the loss, 0 where there is none.
  Only with `weights`.
* `objective`: int64 `[]`, the `Objective`. Only where it is not `MASKED`.

With the objective `CAUSAL`, `input_ids` are not corrupted, and each token but a row's first has a
label, at its own place, and a kind.

With the objective `SENTINELS`, `input_ids` and `attention_mask`, `[B, L]`, are those of the
encoder, and `labels`, `mask_kinds` and `loss_weights`, `[B, D]`, those of the decoder, padded to a
width of their own. `bio`, `[B, R]`, and mentions count the tokens of the row before it was masked,
which no side sees. `mslm_data.mask.sentinels` says what the labels and their kinds are.

With `flat`, B is 1, and the flat row holds R rows of the split. `keys` and `doc_labels` are `[R]`.
`mask_rates` is `[1, L]`, the rate of each token's row, 1 on padding. Mentions are in tokens of the
flat row. There are more arrays:

* `position_ids`: int64 `[1, L]`, position within the original row, 0 on padding.
* `sequence_ids`: int64 `[1, L]`, number of the original row within the flat row, -1 on padding.
* `cu_seq_lens_q`, `cu_seq_lens_k`: int32 `[R + 1]`, offsets of the original rows, for
  FlashAttention.
* `max_length_q`, `max_length_k`: int64 `[]`, length of the longest original row.

With the objective `CAUSAL`, flat batches have no `attention_mask`: with it, models of transformers
do not look at `position_ids`, and rows attend to those before them."""

FLAT_COLUMNS = (
    "position_ids",
    "sequence_ids",
    "cu_seq_lens_q",
    "cu_seq_lens_k",
    "max_length_q",
    "max_length_k",
)
"""Columns that only flat batches have; the last four as in the documentation of transformers."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Masked:
    """N masked rows.

    Attributes:
        examples: The rows before masking.
        input_ids: int32, the ids that the model sees.
        labels: int32, original ids of masked tokens, -100 elsewhere, with the offsets of
            `input_ids`; with the objective `SENTINELS`, with offsets of their own.
        kinds: uint8 `MaskKind` of each label.
        rates: float32 `[N]`, masking rate of each row (`MaskPlan.rates`). None without rates.
        objective: What the model sees.
        weights: float32 `[3]`, the loss weight of each `MaskKind`, 0 for `NONE`. None for batches
            without `loss_weights`.
    """

    examples: Examples
    input_ids: Ragged
    labels: Ragged
    kinds: Ragged
    rates: npt.NDArray[np.float32] | None = None
    objective: Objective = Objective.MASKED
    weights: npt.NDArray[np.float32] | None = None

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
        weights: npt.NDArray[np.float32] | None = None,
    ) -> Masked:
        """Mask rows by a strategy. The mask of a row depends on its key and the arguments only.

        Args:
            examples: The rows.
            strategy: The strategy.
            seed: See `Strategy.plan`, as for `epoch`, `step` and `tokens`.
            epoch: The epoch.
            step: The training step.
            tokens: The number of tokens seen.
            weights: float32 `[P, 3]`, the loss weight of each `MaskKind`, for each part of a
                curriculum. Default: no weights.

        Raises:
            ValueError: As `Strategy.plan` and `Strategy.corrupt`.
        """
        plan = strategy.plan(examples, seed=seed, epoch=epoch, step=step, tokens=tokens)
        if plan.objective == Objective.SENTINELS:
            sides = put_sentinels(examples, plan.kinds.values)
            input_ids = sides.inputs
            kinds = sides.kinds
            labels = find_labels(sides.labels, kinds)
        else:
            input_ids = strategy.corrupt(examples, plan, seed=seed, epoch=epoch)
            kinds = plan.kinds
            labels = find_labels(examples.input_ids, kinds)

        return cls(
            examples=examples,
            input_ids=input_ids,
            labels=labels,
            kinds=kinds,
            rates=plan.rates,
            objective=plan.objective,
            weights=None if weights is None else weights[plan.part],
        )

    def __len__(self) -> int:
        return len(self.examples)

    @cached_property
    def tags(self) -> Ragged:
        """BIO tags, -100 on special tokens, int16."""
        is_word = self.examples.word_ids.values >= 0
        values = np.where(is_word, self.examples.bio.values, np.int16(IGNORED))
        return Ragged(values, self.examples.bio.offsets)

    def batch(
        self,
        rows: npt.NDArray[np.int64] | None = None,
        *,
        options: BatchOptions = PADDED,
    ) -> Batch:
        """Pad rows to a batch, or concatenate them to a flat row.

        Args:
            rows: int64 `[R]`, indices of the rows to take, in order. Default: all.
            options: Options of the form: `flat` and `multiple_of`.
        """
        examples = self.examples
        if rows is None:
            rows = np.arange(len(examples))
        lengths = _lengths(self.input_ids.offsets, rows)
        counts = _lengths(examples.span_starts.offsets, rows)

        # Each line has one row, a flat row all of them.
        bounds = np.array([0, len(rows)]) if options.flat else np.arange(len(rows) + 1)
        line_lengths = lengths.sum(keepdims=True) if options.flat else lengths
        line_counts = counts.sum(keepdims=True) if options.flat else counts
        width = label_width = row_width = options.width(int(line_lengths.max(initial=0)))
        if self.objective == Objective.SENTINELS:  # whose rows are not flat
            label_width = options.width(int(_lengths(self.labels.offsets, rows).max(initial=0)))
            row_width = options.width(int(examples.input_ids.lengths[rows].max(initial=0)))
        mentions = int(line_counts.max(initial=0))

        def gather(column: Ragged, fill: int, size: int, dtype: type = np.int64) -> Array:
            out: Array = np.empty((len(bounds) - 1, size), dtype)
            pad(rows, bounds, column.offsets, column.values, fill, out)
            return out

        is_token = np.arange(width) < line_lengths[:, None]
        batch = {
            "input_ids": gather(self.input_ids, max(examples.ids.pad, 0), width),
            "attention_mask": is_token.astype(np.int64),
            "labels": gather(self.labels, IGNORED, label_width),
            "mask_kinds": gather(self.kinds, 0, label_width, np.uint8),
            "bio": gather(self.tags, IGNORED, row_width),
            "span_starts": gather(examples.span_starts, -1, mentions),
            "span_ends": gather(examples.span_ends, -1, mentions),
            "span_labels": gather(examples.span_labels, -1, mentions),
            "keys": examples.keys[rows],
        }
        if examples.doc_labels is not None:
            batch["doc_labels"] = examples.doc_labels[rows].astype(np.int64)
        if self.rates is not None:
            batch["mask_rates"] = self.rates[rows]
        if self.weights is not None:
            batch["loss_weights"] = self.weights[batch["mask_kinds"]]
        if options.flat:
            _make_flat(batch, lengths, counts, width)
        if self.objective != Objective.MASKED:
            batch["objective"] = np.array(self.objective, np.int64)
            if options.flat:
                del batch["attention_mask"]
        return batch


def find_labels(ids: Ragged, kinds: Ragged) -> Ragged:
    """Return the ids of tokens with a kind, -100 for all others, int32."""
    return Ragged(np.where(kinds.values != 0, ids.values, np.int32(IGNORED)), ids.offsets)


def _lengths(offsets: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    lengths: npt.NDArray[np.int64] = offsets[rows + 1] - offsets[rows]
    return lengths


def _make_flat(
    batch: Batch, lengths: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], width: int
) -> None:
    """Add the arrays of a flat row to its batch, and move its mentions.

    Args:
        batch: The batch, changed.
        lengths: int64 `[R]`, number of tokens of each row.
        counts: int64 `[R]`, number of mentions of each row.
        width: Number of tokens of the flat row, with padding.
    """
    bounds = make_offsets(lengths)
    for name in ("span_starts", "span_ends"):
        batch[name] += np.repeat(bounds[:-1], counts)

    def fill_up(values: Array, fill: int) -> Array:
        out = np.full((1, width), fill, values.dtype)
        out[0, : len(values)] = values
        return out

    batch["position_ids"] = fill_up(count_up(0, lengths), 0)
    batch["sequence_ids"] = fill_up(np.repeat(np.arange(len(lengths)), lengths), -1)
    if "mask_rates" in batch:
        batch["mask_rates"] = fill_up(np.repeat(batch["mask_rates"], lengths), 1)

    batch["cu_seq_lens_q"] = batch["cu_seq_lens_k"] = bounds.astype(np.int32)
    longest = np.array(lengths.max(initial=0), np.int64)
    batch["max_length_q"] = batch["max_length_k"] = longest
