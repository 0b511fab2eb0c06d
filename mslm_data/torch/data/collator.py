"""A collator that masks and pads rows, and converts them to tensors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mslm_data.batches.batch_options import BatchOptions
from mslm_data.batches.collate import Masked
from mslm_data.batches.masked import TokenWeights, as_strategy, table_of_weights
from mslm_data.mask.rng import check_count
from mslm_data.mask.strategy import Strategy
from mslm_data.registry import check_names
from mslm_data.torch.data.rows import CHARACTERS, SPANS, Row, make_examples, token_ids
from mslm_data.torch.data.tensors import check_columns, to_tensors

_REQUIRED_COLUMNS = {"word_ids": ("word_ids",), "mentions": SPANS, "text": CHARACTERS}
"""Need of a strategy -> required columns of a row."""
_UNKNOWN = -1
"""Epoch that is not set."""


class MaskingCollator:
    """Mask and pad a list of rows; a replacement for `DataCollatorForLanguageModeling`.

    Over plain text::

        collator = MaskingCollator(md.strategy("bert"), tokenizer, plain=True)
        Trainer(..., data_collator=collator, callbacks=[MaskEpochCallback()])

    Rows are those of a `datasets.Dataset`, dicts or BatchEncodings, with lists, arrays or tensors.
    They need a `key` and the columns that the strategy reads (`Strategy.needs`), or `plain=True`;
    then all columns besides `input_ids` are optional:

    * `key`: Seeds the row's mask, such as the number of the row. Default: a hash of its
      `input_ids`, so rows with equal tokens get equal masks.
    * `word_ids`: Word number of each token, None or -1 on special tokens, as returned by
      tokenizers. Default: each token is a word.
    * `special_tokens_mask`: 1 on special tokens, in addition to the tokenizer's special ids;
      ignored with `word_ids`. Special ids are never masked, even if the text itself contains them
      (`</s>`).
    * `span_starts`, `span_ends`, `span_labels`: Mentions as half-open token ranges. Alternatives
      are `bio`, tags numbered as in shards, and token classification `labels`, with the argument
      `tags`. Default: no mentions.
    * `token_starts`, `token_ends`: Character range of each token, half open; for strategies that
      read text.
    * `sentence_starts`: First token of each sentence. N-grams of a lexicon do not cross sentences.
      Default: one sentence.
    * `attention_mask`: Must be 1. Rows are not padded before the collator.
    * `token_type_ids`: Must be 0, since batches have no such column.

    **Columns removed by the Trainer.** By default, the Trainer removes all columns that are not
    arguments of the model's `forward`, including keys, words and mentions. Pass
    `remove_unused_columns=False` in `TrainingArguments`.

    Masks are a pure function of (key, seed, epoch, strategy): rows of
    `datasets.load_from_disk(folder)` get the same masks as in `MaskedDataset` and `md.Batches`,
    whose finished batches are faster.

    A batch is a dict of tensors, for B rows of L tokens with at most S mentions:

    * int64 `[B, L]`: `input_ids` (corrupted), `attention_mask`, `labels` (original ids of masked
      tokens, -100 elsewhere), `bio` (-100 on special tokens and padding).
    * uint8 `[B, L]`: `mask_kinds`.
    * int64 `[B, S]`, padded with -1: `span_starts`, `span_ends`, `span_labels`.
    * int64 `[B]`: `keys`, the bits of the shards' uint64, which few torch operations support.
    * float32 `[B]`: `mask_rates`, if the strategy has rates.
    * float32 `[B, L]`: `loss_weights`, with `weights`.
    * int64 `[]`: `objective`, if it is not `MASKED`, see `mslm_data.batches.collate.Batch`.
    """

    def __init__(
        self,
        strategy: Strategy | str | Path,
        tokenizer: Any,
        *,
        seed: int = 0,
        epoch: int | None = None,
        static: bool = False,
        tags: Sequence[str] | None = None,
        plain: bool = False,
        multiple_of: int = 1,
        weights: TokenWeights | Sequence[TokenWeights] | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        """Configure masking and the columns of a batch.

        Args:
            strategy: `md.strategy(...)`, or the name of a strategy.
            tokenizer: A Hugging Face tokenizer, or a split of loaded shards.
            seed: Seed of the masks, in `[0, 2**63)`.
            epoch: The first epoch. Default: None, set `epoch` before the first row is masked.
            static: Whether rows keep the masks of `epoch` (default 0), for evaluation.
            tags: Names of the tags in the rows' `labels`, such as
                `dataset.features["labels"].feature.names`.
            plain: Whether to accept rows without keys and without the columns that the strategy
                needs, such as plain text: each token is then a word, without mentions.
            multiple_of: Pad rows to a multiple of this number of tokens, such as 8 for tensor
                cores.
            weights: `(w_elm, w_blm)`, for `loss_weights` in each batch; see `md.Batches`.
            columns: Columns of a batch. Default: all.

        Raises:
            ValueError: A number is out of range, a column is unknown, or the strategy's rate
                follows training, which the collator does not know.
            TypeError: An argument has the wrong type.
        """
        self._options = BatchOptions(multiple_of=multiple_of)
        check_count("seed", seed)
        check_columns(columns)
        check_names("tags", tags)

        self.strategy = as_strategy(strategy)
        if self.strategy.follows_training:
            raise ValueError(
                "strategy: a rate follows the training step or tokens, which a collator does not "
                "know; take the batches from MaskedDataset(...).loader(...), or let "
                "the rate follow the epoch (per='epoch')"
            )

        self.seed = seed
        self.static = static
        self.ids = token_ids(tokenizer)
        self.protected = bool(getattr(tokenizer, "protected", False))
        self._tags = tags
        self._plain = plain
        self._weights = table_of_weights(weights, self.strategy)
        self._columns = columns
        if static and epoch is None:
            epoch = 0
        if epoch is not None:
            check_count("epoch", epoch)
        # In memory shared with worker processes, which see a new epoch at once.
        first = torch.tensor(_UNKNOWN if epoch is None else epoch)
        self._epoch: Tensor = first.share_memory_()  # type: ignore[no-untyped-call]

    @property
    def epoch(self) -> int | None:
        """The epoch of the masks; None if it is not set.

        Set it before each pass. No effect if `static`. There is no `set_epoch`, which trainers call
        in some passes and not in others.

        Raises:
            ValueError: The new value is negative or not an integer.
        """
        epoch = int(self._epoch)
        return None if epoch == _UNKNOWN else epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        check_count("epoch", epoch)
        if not self.static:
            self._epoch.fill_(epoch)

    def __call__(self, rows: Sequence[Row]) -> dict[str, Tensor]:
        """Mask and pad rows.

        Args:
            rows: At least one row.

        Raises:
            ValueError: The epoch is not set, rows cannot be masked, or columns are missing.
        """
        if not rows:
            raise ValueError("rows: expected at least one row, got none")
        self._check_columns(rows[0])
        epoch = self.epoch
        if epoch is None:
            raise ValueError(
                "epoch: not set, so every epoch would have the same masks; pass "
                "MaskEpochCallback() to the Trainer, set collator.epoch before each pass of your "
                "own, or for evaluation create the collator with static=True"
            )

        examples = make_examples(rows, self.ids, tags=self._tags)
        masked = Masked.by_strategy(
            examples, self.strategy, seed=self.seed, epoch=epoch, weights=self._weights
        )

        return to_tensors(masked.batch(options=self._options), self._columns)

    def _check_columns(self, row: Row) -> None:
        """Check that a row has its key and the columns that the strategy needs.

        Otherwise rows of shards would get other masks without their keys, and rows without words or
        mentions would be masked by tokens.

        Raises:
            ValueError: A column is missing.
        """
        if self._plain or "input_ids" not in row:
            return

        tags = "bio" if self._tags is None else "labels"
        present = set(row)
        if getattr(row, "encodings", None):
            present.add("word_ids")
        if tags in row:
            present.update(SPANS)

        needed = ["key"]
        for need, columns in _REQUIRED_COLUMNS.items():
            if need in self.strategy.needs:
                needed += columns

        missing = [name for name in needed if name not in present]
        if missing:
            raise ValueError(
                f"rows: expected the columns {', '.join(missing)}, got only "
                f"{', '.join(sorted(row))}; if the Trainer removed them, pass "
                "remove_unused_columns=False in TrainingArguments; for rows without them, such as "
                "plain text, pass plain=True to MaskingCollator"
            )
