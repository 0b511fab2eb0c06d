"""A collator that masks rows, pads them and converts them to tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mslm_data.batches.batch_options import BatchOptions, pack
from mslm_data.batches.masked import Masked, as_strategy
from mslm_data.mask.rng import check_count
from mslm_data.mask.strategy import Strategy
from mslm_data.registry import check_names, did_you_mean
from mslm_data.torch.data.epoch import Epoch, FollowsEpoch
from mslm_data.torch.data.masked_row import MaskedRow, placed
from mslm_data.torch.data.rows import CHARACTERS, SPANS, Row, make_examples, token_ids

COLUMNS = (
    "input_ids",
    "attention_mask",
    "labels",
    "mask_kinds",
    "mask_rates",
    "bio",
    "span_starts",
    "span_ends",
    "span_labels",
    "keys",
    "doc_labels",
    "position_ids",
    "sequence_ids",
    "cu_seq_lens_q",
    "cu_seq_lens_k",
    "max_length_q",
    "max_length_k",
)
"""Names of the arrays of a batch. `mslm_data.batches.collate.Batch` has their types and shapes."""
_COLUMNS_OF = {
    "word_ids": ("word_ids",),
    "mentions": SPANS,
    "scores": ("key",),
    "text": CHARACTERS,
}
"""Need of a strategy -> the columns of a row that meet it.

A score column finds a row's scores by its key.
"""
_HOW = (
    "pass MaskEpochCallback() to the Trainer, set collator.epoch before each pass of your own, or "
    "make the collator with static=True if its masks are to stay (evaluation)"
)
_MIXED = (
    "rows: got rows of a MaskedDataset mixed with other or modified rows; pass rows of one kind"
)


class MaskingCollator(FollowsEpoch):
    """Mask and pad a list of rows; a replacement for `DataCollatorForLanguageModeling`.

    Over plain text::

        collator = MaskingCollator(md.strategy("bert"), tokenizer)
        Trainer(..., data_collator=collator, callbacks=[MaskEpochCallback()])

    **Rows of a `MaskedDataset`** are masked already, so that `MaskingCollator()` is enough; they
    are padded without touching Python lists, and the Trainer leaves their columns alone.

    **Any other rows** (of a `datasets.Dataset`, dicts, BatchEncodings; lists, arrays or tensors)
    are masked here. The collator reads `input_ids` and, if there is such a column:

    * `key`: seeds the row's mask. Without it a digest of the ids does, so equal texts get equal
      masks; but what the Trainer leaves of the rows of shards is refused.
    * `word_ids`: the tokenizer's, None or -1 on special tokens. Without it each token is a word of
      its own.
    * `special_tokens_mask`: more special tokens, used without `word_ids`. The tokenizer's special
      ids are never hidden, also where the text itself spells one, as `</s>`.
    * `span_starts`, `span_ends`, `span_labels`: mentions in tokens, half open. Or `bio`: tags as
      numbered in shards. Or, with `tags`, `labels` of token classification. Without any of these,
      rows have no mentions.
    * `token_starts`, `token_ends`: characters of each token, half open, for strategies that look at
      the text.
    * `sentence_starts`: tokens at which the row's sentences begin; no n-gram of a lexicon lies in
      two. Without it the row is one sentence.
    * `attention_mask`: tokens that are padding already are left out.
    * `token_type_ids`: refused unless 0, as batches have no such column.

    **Columns that the Trainer drops.** By default it takes from a `datasets.Dataset`, and from
    dicts, every column that the model's `forward` does not name, and with them words and mentions.
    Pass `remove_unused_columns=False` in `TrainingArguments`, or train on a `MaskedDataset`. Rows
    without a column that the strategy needs (`Strategy.needs`) are refused.

    Masks are a pure function of (key, seed, epoch, strategy): rows of
    `datasets.load_from_disk(folder)` get those of `MaskedDataset` and `md.Batches`.

    A batch is a dict of tensors. int64 `[B, L]`: `input_ids` (corrupted), `attention_mask`,
    `labels` (-100 where nothing is predicted), `bio` (-100 on special tokens and padding); uint8:
    `mask_kinds`. int64 `[B, S]`, padded with -1: `span_starts`, `span_ends`, `span_labels`. int64
    `[B]`: `keys`, the 64 bits of the shards' uint64, for which torch has few operations. float32
    `[B]`, or `[B, L]` of packed rows: `mask_rates`, of strategies that have them.
    """

    def __init__(
        self,
        strategy: Strategy | str | Path | None = None,
        tokenizer: Any = None,
        *,
        seed: int = 0,
        epoch: int | None = None,
        static: bool = False,
        tags: Sequence[str] | None = None,
        plain: bool = False,
        row_tokens: int | None = None,
        flat: bool = False,
        multiple_of: int = 1,
        columns: Sequence[str] | None = None,
        dtypes: Mapping[str, torch.dtype] | None = None,
    ) -> None:
        """Configure how rows are masked, unless they are masked already, and what a batch holds.

        Args:
            strategy: What masks: `md.strategy(...)`, or a name for a strategy's defaults. None for
                rows of a `MaskedDataset`.
            tokenizer: A tokenizer of Hugging Face, or a split of loaded shards. None for rows of a
                `MaskedDataset`.
            seed: Seeds the masks, in `[0, 2**63)`.
            epoch: The first epoch; None: not known before `epoch` is set. No row is masked
                without it.
            static: Keep the masks of `epoch`, for evaluation. Default: of epoch 0.
            tags: Names of the tags in the rows' `labels`, as
                `dataset.features["labels"].feature.names` has them.
            plain: Accept rows that lack what the strategy needs, or a key, as plain text does: each
                token is then a word.
            row_tokens: Pack the rows of a batch side by side into rows of so many tokens.
            flat: Put all rows of a batch side by side into one flat row.
            multiple_of: A batch's width is rounded up to a multiple of this: 8 suits tensor cores.
            columns: Which of `COLUMNS` a batch has; None keeps all.
            dtypes: Column -> another dtype, such as `{"attention_mask": torch.bool}`.

        Raises:
            ValueError: A number out of range, an unknown column, a strategy without a tokenizer, or
                a rate that follows training, whose steps and tokens a collator is not told.
            TypeError: Not a strategy, or not a tokenizer; one name where a list of them is meant,
                or a dtype that is not one of torch.
        """
        self.options = BatchOptions(row_tokens=row_tokens, flat=flat, multiple_of=multiple_of)
        check_count("seed", seed)
        check_names("columns", columns)
        check_names("tags", tags)
        for name in (*(columns or ()), *(dtypes or ())):
            if name not in COLUMNS:
                raise ValueError(f"columns: unknown column '{name}'{did_you_mean(name, COLUMNS)}")

        for name, dtype in (dtypes or {}).items():
            if not isinstance(dtype, torch.dtype):
                raise TypeError(
                    f"dtypes: expected a torch dtype for {name}, such as torch.int32, got {dtype!r}"
                )

        if (strategy is None) != (tokenizer is None):
            raise ValueError(
                "strategy, tokenizer: pass both, or neither for rows of a MaskedDataset"
            )
        self.strategy = None if strategy is None else as_strategy(strategy)
        if self.strategy is not None and self.strategy.follows_training:
            raise ValueError(
                "strategy: a rate follows the training step or tokens, which a collator does not "
                "know; take the batches from MaskedDataset(...).loader(...), or let "
                "the rate follow the epoch (per='epoch')"
            )

        self.seed = seed
        self.static = static
        self.ids = None if tokenizer is None else token_ids(tokenizer)
        self.protected = bool(getattr(tokenizer, "protected", False))
        self._tags = tags
        self._plain = plain
        self._needs = _find_required_columns(self.strategy) if not plain else []
        self._columns = columns
        self._dtypes = dict(dtypes or {})
        self._epoch = Epoch(0 if static and epoch is None else epoch)

    def __call__(self, rows: Sequence[Row | MaskedRow]) -> dict[str, Tensor]:
        """Make a batch.

        Args:
            rows: One or more.

        Raises:
            ValueError: The epoch is not known; rows that cannot be masked; or columns that the
                strategy needs and that are not there.
        """
        # Not isinstance: of an abstract class it costs more than reading a row.
        types = {type(row) for row in rows}
        if types == {MaskedRow}:
            return self.tensors(*placed(cast(Sequence[MaskedRow], rows)))
        if MaskedRow in types:
            raise ValueError(_MIXED)

        return self.tensors(self._masked(rows))

    def tensors(
        self,
        chunk: Masked,
        places: npt.NDArray[np.int64] | None = None,
        packs: npt.NDArray[np.int64] | None = None,
    ) -> dict[str, Tensor]:
        """Convert rows that were masked together to a batch of tensors.

        Args:
            chunk: Rows that hold it.
            places: `[R]`, its own rows among them; None takes all.
            packs: `[B + 1]`, where each packed row begins among these; None packs them here, where
                the options say so.
        """
        if places is None:
            places = np.arange(len(chunk))
        if packs is None and self.options.is_packed:
            places, packs = self._packed(chunk, places)
        batch = chunk.batch(places, packs=packs, options=self.options)
        batch["keys"] = batch["keys"].view(np.int64)

        if self._columns is not None:
            batch = {name: batch[name] for name in self._columns if name in batch}
        made = dict(zip(batch, map(torch.from_numpy, batch.values()), strict=True))
        for name, dtype in self._dtypes.items():
            if name in made:
                made[name] = made[name].to(dtype)

        return made

    def _packed(
        self, chunk: Masked, places: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Pack rows; return their order, and where each packed row begins in it."""
        if self.options.row_tokens is None:
            return places, np.array([0, len(places)])

        lengths = chunk.examples.input_ids.lengths[places]
        self.options.check_row_lengths(lengths)
        packed = pack(lengths, self.options.row_tokens)
        return places[np.concatenate(packed)], np.cumsum([0, *map(len, packed)])

    def _masked(self, rows: Sequence[Row]) -> Masked:
        """Mask rows that are not masked yet."""
        if not rows:
            raise ValueError("rows: expected at least one row, got none")
        if "mask_kinds" in rows[0]:
            raise ValueError(_MIXED)
        if self.strategy is None or self.ids is None:
            raise ValueError(
                "rows: expected masked rows of a MaskedDataset, got rows with the columns "
                f"{', '.join(map(str, rows[0])) or 'nothing'}; to mask rows in the collator, pass "
                "MaskingCollator(strategy, tokenizer)"
            )

        self._check(rows[0])
        epoch = self._epoch.require(_HOW)
        examples = make_examples(rows, self.ids, tags=self._tags)
        if not self.static:
            self._epoch.watch(examples.keys, _HOW)

        return Masked.by_strategy(examples, self.strategy, seed=self.seed, epoch=epoch)

    def _check(self, row: Row) -> None:
        """Check that a row has the columns that the strategy needs.

        Without a word about it, the row would be masked as one without words or mentions is.
        """
        tags = "bio" if self._tags is None else "labels"
        has = {name: all(column in row for column in _COLUMNS_OF[name]) for name in _COLUMNS_OF}
        has["word_ids"] |= bool(getattr(row, "encodings", None))
        has["mentions"] |= tags in row

        missing = [name for name in self._needs if not has[name]]
        if missing and "input_ids" in row:
            columns = [column for name in missing for column in _COLUMNS_OF[name]]
            raise ValueError(
                f"rows: expected columns {', '.join(columns)}, which the strategy needs, got "
                f"{', '.join(sorted(row))} only; the Trainer drops columns that its model does not "
                "take: pass remove_unused_columns=False in TrainingArguments, or train on a "
                "MaskedDataset; for text that has none, MaskingCollator(..., plain=True)"
            )

        # What the Trainer leaves of a row of shards: of all columns an MslmModel takes the mentions
        # and the ids, another model the ids alone.
        has_mentions = any(column in row for column in ("bio", *SPANS))
        is_rest = (has_mentions or set(row) == {"input_ids"}) and not has["word_ids"]
        if is_rest and "key" not in row and not self._plain:
            raise ValueError(
                "rows: expected the column key, by which shards seed masks, got "
                f"{', '.join(sorted(row))} only; the Trainer drops columns that its model does not "
                "take: pass remove_unused_columns=False in TrainingArguments, or train on a "
                "MaskedDataset; for rows that never had a key, MaskingCollator(..., plain=True)"
            )


def _find_required_columns(strategy: Strategy | None) -> list[str]:
    """Return the groups of columns that rows need for a strategy."""
    if strategy is None:
        return []

    return [name for name in _COLUMNS_OF if name in strategy.needs]
