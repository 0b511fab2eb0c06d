"""Rows to a batch of tensors: the one place where a trainer's rows are masked, padded and made tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mslm_data.batches.masked import Masked
from mslm_data.mask.draws import check_count
from mslm_data.mask.strategy import Strategy
from mslm_data.registry import did_you_mean
from mslm_data.torch.epoch import Epoch, FollowsEpoch
from mslm_data.torch.masked import MaskedRow, chunk_of
from mslm_data.torch.rows import SPANS, Row, examples_of, token_ids

COLUMNS = (
    "input_ids",
    "attention_mask",
    "labels",
    "mask_kinds",
    "bio",
    "span_starts",
    "span_ends",
    "span_labels",
    "keys",
)
"""What a batch has; `mslm_data.batches.collate.Batch` says of what types and shapes."""
_HOW = (
    "pass MaskEpochCallback() to the Trainer, or call set_epoch on the collator before each epoch"
)
_MIXED = "rows: expected rows without masks, got some of a MaskedDataset among them, or changed"


class MaskingCollator(FollowsEpoch):
    """A list of rows to a batch; takes the place of `DataCollatorForLanguageModeling` in any pipeline.

        Trainer(..., data_collator=MaskingCollator(md.strategy("bert"), tokenizer), callbacks=[MaskEpochCallback()])

    **Rows of a `MaskedDataset`** are masked already, so that `MaskingCollator()` is enough; they are padded without
    touching Python lists, and the Trainer leaves their columns alone.

    **Any other rows** (of a `datasets.Dataset`, dicts, BatchEncodings; lists, arrays or tensors) are masked here. Read
    are `input_ids` and, where there is such a column:

    * `key`: seeds the row's mask. Without it, a digest of the ids does, so equal texts get equal masks.
    * `word_ids`: the tokenizer's, None or -1 on special tokens. Without it, each token is a word of its own.
    * `special_tokens_mask`: where there is no `word_ids`; without either, the tokenizer's special ids.
    * `span_starts`, `span_ends`, `span_labels`: mentions in tokens, half open. Or `bio`: tags in the coding of shards.
      Or, with `tags`, `labels` of token classification. Without any of these, no mentions.
    * `attention_mask`: what is padding already is left out.

    **Columns that the Trainer drops.** By default it takes from a `datasets.Dataset`, and from dicts, every column that
    the model's `forward` does not name, and with them words and mentions. Pass `remove_unused_columns=False` in
    `TrainingArguments`, or train on a `MaskedDataset`. A strategy that hides words or mentions refuses rows without.

    Masks are a pure function of (key, seed, epoch, strategy): rows of `datasets.load_from_disk(folder)` get those of
    `MaskedDataset` and `md.Batches`.

    A batch is a dict of tensors. int64 `[B, L]`: `input_ids` (corrupted), `attention_mask`, `labels` (-100 where
    nothing is predicted), `bio` (-100 on specials and padding); uint8: `mask_kinds`. int64 `[B, S]`, padded with -1:
    `span_starts`, `span_ends`, `span_labels`. int64 `[B]`: `keys`, the 64 bits of the shards' uint64, which torch can
    do little with.
    """

    def __init__(
        self,
        strategy: Strategy | None = None,
        tokenizer: Any = None,
        *,
        seed: int = 0,
        epoch: int = 0,
        static: bool = False,
        tags: Sequence[str] | None = None,
        plain: bool = False,
        multiple_of: int = 1,
        columns: Sequence[str] | None = None,
        dtypes: Mapping[str, torch.dtype] | None = None,
    ) -> None:
        """Say how to mask, where that is not done, and what a batch is to be.

        Args:
            strategy: What masks; None for rows of a `MaskedDataset`.
            tokenizer: Of Hugging Face, or a split of loaded shards; None likewise.
            seed: Of masks.
            epoch: The first one.
            static: Keep the masks of `epoch`, for evaluation.
            tags: Names of the tags in the rows' `labels`, as `dataset.features["labels"].feature.names` has them.
            plain: Rows have neither words nor mentions, and that is meant: each token is a word.
            multiple_of: A batch's width is rounded up to a multiple of this: 8 for tensor cores.
            columns: Which of `COLUMNS` a batch has; None is all.
            dtypes: Column -> another dtype, such as `{"attention_mask": torch.bool}`.

        Raises:
            ValueError: A number out of range, an unknown column, a strategy without a tokenizer, or a rate that
                follows the step, which a collator is not told.
            TypeError: No tokenizer.
        """
        if multiple_of < 1:
            raise ValueError(f"multiple_of: expected at least 1, got {multiple_of}")
        for name in (*(columns or ()), *(dtypes or ())):
            if name not in COLUMNS:
                raise ValueError(f"columns: unknown column '{name}'{did_you_mean(name, COLUMNS)}")
        if (strategy is None) != (tokenizer is None):
            raise ValueError(
                "strategy, tokenizer: expected both, or neither for rows of a MaskedDataset"
            )
        if strategy is not None and strategy.follows_step:
            raise ValueError(
                "strategy: expected rates that do not follow the step, which a collator is not told; take the batches "
                "from MaskedDataset(...).loader(...), or let the rate follow the epoch (per='epoch')"
            )
        check_count("seed", seed)
        self.strategy, self.seed, self.static = strategy, seed, static
        self._ids = None if tokenizer is None else token_ids(tokenizer)
        self._tags, self._wanted = tags, [] if plain or strategy is None else _wanted(strategy)
        self._multiple_of, self._columns, self._dtypes = multiple_of, columns, dict(dtypes or {})
        self._epoch = Epoch(epoch)

    def __call__(self, rows: Sequence[Row | MaskedRow]) -> dict[str, Tensor]:
        """Make a batch.

        Args:
            rows: One or more.

        Raises:
            ValueError: Rows that cannot be masked, or columns that the strategy needs and that are not there.
        """
        types = {
            type(row) for row in rows
        }  # isinstance asks an abstract class, which costs more than reading a row
        if types == {MaskedRow}:
            return self.tensors(*chunk_of(cast(Sequence[MaskedRow], rows)))
        if MaskedRow in types:
            raise ValueError(_MIXED)
        return self.tensors(self._masked(rows))

    def tensors(
        self, chunk: Masked, places: npt.NDArray[np.int64] | None = None
    ) -> dict[str, Tensor]:
        """Make a batch of rows that were masked together; `places` `[B]` says which, None is all."""
        batch = chunk.batch(places, multiple_of=self._multiple_of)
        batch["keys"] = batch["keys"].view(np.int64)
        if self._columns is not None:
            batch = {name: batch[name] for name in self._columns if name in batch}
        made = dict(zip(batch, map(torch.from_numpy, batch.values()), strict=True))
        for name, dtype in self._dtypes.items():
            if name in made:
                made[name] = made[name].to(dtype)
        return made

    def _masked(self, rows: Sequence[Row]) -> Masked:
        """Mask rows that are not masked yet."""
        if not rows:
            raise ValueError("rows: expected one or more, got none")
        first = rows[0]
        if "mask_kinds" in first:
            raise ValueError(_MIXED)
        if self.strategy is None or self._ids is None:
            raise ValueError(
                "rows: expected those of a MaskedDataset, got others; to mask them here, pass "
                "MaskingCollator(strategy, tokenizer)"
            )
        self._check(first)
        examples = examples_of(rows, self._ids, tags=self._tags)
        if not self.static:
            self._epoch.watch(examples.keys, _HOW)
        return Masked.of(examples, self.strategy, seed=self.seed, epoch=self.epoch)

    def _check(self, row: Row) -> None:
        """Refuse rows that lack what the strategy hides: columns that were dropped would be missed by nobody."""
        has = {
            "word_ids": "word_ids" in row or bool(getattr(row, "encodings", None)),
            "mentions": all(name in row for name in SPANS)
            or ("bio" if self._tags is None else "labels") in row,
        }
        missing = [name for name in self._wanted if not has[name]]
        if missing and "input_ids" in row:
            names = [
                name if name == "word_ids" else "span_starts, span_ends and span_labels"
                for name in missing
            ]
            raise ValueError(
                f"rows: expected {' and '.join(names)}, which the strategy needs, got {', '.join(sorted(row))} only; "
                "the Trainer drops columns that its model does not take: pass remove_unused_columns=False in "
                "TrainingArguments, or train on a MaskedDataset; for text that has none, MaskingCollator(..., "
                "plain=True)"
            )


def _wanted(strategy: Strategy) -> list[str]:
    """Return the columns that rows must have so that a strategy hides what it says."""
    return sorted(strategy.needs & {"word_ids", "mentions"}, reverse=True)
