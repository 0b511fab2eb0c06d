"""A torch Dataset over a split: rows by index, masked when they are read.

The dataset is map-style and returns `MaskedRow`: this works with the defaults of Hugging Face's
Trainer, Accelerate and Lightning. Every iterable form that was tried broke in one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import Dataset

from mslm_data.batches.batch_options import OPEN_SHARDS, BatchOptions
from mslm_data.batches.collate import Masked
from mslm_data.batches.masked import check_split, strategy_for
from mslm_data.mask.rng import check_count
from mslm_data.mask.strategy import Strategy
from mslm_data.shard.row_numbers import resolve_row
from mslm_data.shard.split import Rows
from mslm_data.torch.data.epoch import Epoch, FollowsEpoch
from mslm_data.torch.data.masked_row import MaskedRow
from mslm_data.torch.data.sampler import BatchRows, read_epoch

if TYPE_CHECKING:
    from mslm_data.torch.data.loader import MaskedLoader

_SET_EPOCH = (
    "take the batches from dataset.loader(...), pass MaskEpochCallback() to the Trainer, set "
    "dataset.epoch before each pass of your own, or for evaluation create the dataset with "
    "static=True"
)


class MaskedDataset(FollowsEpoch, Dataset[MaskedRow]):
    """A split with masks, which are a pure function of (row key, seed, epoch, strategy).

    Rows requested together (`__getitems__`, used by DataLoader) are gathered from memory-mapped
    shards and masked in one call. `MaskingCollator()` makes batches of them. The dataset works in
    forked and spawned workers, including persistent ones: all see a new `epoch` at once. The first
    row is masked on creation, so errors are raised early and forked workers inherit compiled
    kernels.

    Reading a row requires an epoch. A `loader` passes it with the rows; in Hugging Face's Trainer,
    `MaskEpochCallback` sets `epoch`::

        dataset = MaskedDataset(md.load("shards/ncbi")["train"], md.strategy("joint"))
        for batch in dataset.loader(batch_size=32): ...

        collator = MaskingCollator()
        Trainer(
            ..., train_dataset=dataset, data_collator=collator, callbacks=[MaskEpochCallback()]
        )

    Attributes:
        split: A split of a loaded folder, or a mix.
        strategy: The masking strategy.
        seed: Seed of the masks, and of the order of a `loader`.
        static: Whether the epoch is fixed, so that each row keeps its mask.
    """

    def __init__(
        self,
        split: Rows,
        strategy: Strategy | str | Path,
        *,
        seed: int = 0,
        epoch: int | None = None,
        static: bool = False,
    ) -> None:
        """Configure the masks, and mask the first row.

        Args:
            split: `md.load(folder_or_url)[name]`, or `md.mix(...)`.
            strategy: `md.strategy(...)`, or the name of a strategy. Lexicons are also searched in
                the folder of the split.
            seed: Seed, in `[0, 2**63)`.
            epoch: The first epoch, in `[0, 2**63)`. Default: 0 for `loader`, not set for other
                samplers.
            static: Whether rows keep the masks of `epoch` (default 0), for evaluation.

        Raises:
            TypeError: `split` is not a split, for example a folder, or `strategy` not a strategy.
            ValueError: Seed or epoch is out of range, the strategy is unknown, a strategy with
                score columns is used on a mix, or `static` with a rate that follows training.
            ShardError: A shard is missing or damaged. Only the first row is read here.
            VocabularyError: A lexicon or score column is missing, damaged, or made with another
                tokenizer.
        """
        check_split(split)
        check_count("seed", seed)
        self.split = split
        self.strategy = strategy_for(split, strategy)
        if static and self.strategy.follows_training:
            raise ValueError(
                "static: the rate of the strategy follows training, so masks cannot stay the same; "
                "pass a constant rate, such as 0.15"
            )
        self.seed = seed
        self.static = static
        self._epoch = Epoch(0 if static and epoch is None else epoch)
        """Epoch for which this process last checked the split's files."""
        """Shards of the last batch, if the sampler reported them."""

        # Mask the first row: raises errors early, and compiles the kernels before workers are
        # forked.
        first = np.arange(min(1, len(self)))
        self.masked(first, epoch=self.epoch or 0, step=0, tokens=0).batch()

    def __len__(self) -> int:
        return len(self.split)

    def __repr__(self) -> str:
        epoch = "not set" if self.epoch is None else self.epoch
        static = ", static" if self.static else ""

        return f"MaskedDataset({self.split!r}, seed {self.seed}, epoch {epoch}{static})"

    def __getitem__(self, row: int) -> MaskedRow:
        """Return one masked row; negative indices count from the end.

        Raises:
            IndexError: The index is out of range.
            TypeError: The index is not an integer.
            ValueError: The epoch is not set, or the strategy's rate follows training.
        """
        number = resolve_row(row, len(self))

        return MaskedRow(self.masked(np.array([number], np.int64), epoch=read_epoch([row])), 0)

    def __getitems__(self, rows: Sequence[int]) -> list[MaskedRow]:
        """Return several masked rows, gathered and masked in one call; used by DataLoader.

        Raises:
            ValueError: The epoch is not set; or the strategy's rate follows training, and the
                sampler is not that of `loader`.
        """
        epoch = read_epoch(rows)
        step = tokens = None
        if isinstance(rows, BatchRows):
            step = rows.step

            tokens = rows.tokens

        chunk = self.masked(np.asarray(rows, np.int64), epoch=epoch, step=step, tokens=tokens)

        # Without an epoch from the sampler, a second pass in the same epoch would go unnoticed.
        if not self.static and epoch is None:
            self._epoch.watch(chunk.examples.keys, _SET_EPOCH)

        if not isinstance(rows, BatchRows) or rows.packs is None:
            return [MaskedRow(chunk, place) for place in range(len(chunk))]

        # Tell the collator which rows the sampler packed together.
        packs = np.repeat(np.arange(len(rows.packs) - 1), np.diff(rows.packs)).tolist()
        return [MaskedRow(chunk, place, pack) for place, pack in enumerate(packs)]

    def masked(
        self,
        rows: npt.NDArray[np.int64],
        *,
        epoch: int | None = None,
        step: int | None = None,
        tokens: int | None = None,
    ) -> Masked:
        """Gather and mask rows.

        Args:
            rows: int64 `[R]`, indices in any order, each in `[0, len(self))`.
            epoch: Default: `self.epoch`, which a static dataset always uses.
            step: The training step, for rates that follow it.
            tokens: Number of tokens in all earlier steps, for rates that follow them.

        Raises:
            ValueError: The epoch is not set, or the strategy's rate follows training and `step` or
                `tokens` is missing.
            ShardError: A shard is missing or damaged.
        """
        if step is None and tokens is None and self.strategy.follows_training:
            raise ValueError(
                "step, tokens: a rate follows training, but the sampler does not report the "
                "training step; take the batches from dataset.loader(...), or let the rate "
                "follow the epoch (per='epoch')"
            )
        epoch = self.mask_epoch(epoch)

        examples = self.split.take(self.split.epoch_rows(rows, seed=self.seed, epoch=epoch))
        return Masked.by_strategy(
            examples, self.strategy, seed=self.seed, epoch=epoch, step=step, tokens=tokens
        )

    def mask_epoch(self, epoch: int | None) -> int:
        """Return the epoch that seeds the masks: the argument, or the epoch of the dataset.

        Raises:
            ValueError: The epoch is not set.
        """
        if epoch is None or self.static:
            return self._epoch.require(_SET_EPOCH)
        return epoch

    def loader(  # noqa: D417 - the options of batches are explained once, in BatchOptions
        self,
        batch_size: int | None = None,
        *,
        batch_tokens: int | None = None,
        row_tokens: int | None = None,
        flat: bool = False,
        shuffle: bool | Literal["shards"] = True,
        open_shards: int = OPEN_SHARDS,
        bucketed: bool = False,
        drop_last: bool = False,
        multiple_of: int = 1,
        rank: int | None = None,
        world: int | None = None,
        workers: int = 0,
        pin_memory: bool = False,
        columns: Sequence[str] | None = None,
        dtypes: Mapping[str, torch.dtype] | None = None,
        **worker_options: Any,
    ) -> MaskedLoader:
        """Return a loader of tensor batches, for plain loops, DDP, Accelerate or Lightning.

        See `mslm_data.batches.batch_options.BatchOptions` for options not listed here; they are the
        same as in `md.Batches`. The seed is the dataset's.

        Args:
            rank: Rank of this process. Default, for both `rank` and `world`: as reported by
                torch.distributed.
            world: Number of ranks.
            workers: Number of worker processes. Default: 0, make batches in this process, which is
                faster.
            pin_memory: Whether to return batches in pinned memory; needs an accelerator.
            columns: Columns of a batch, see `MaskingCollator`. Default: all.
            dtypes: Column -> dtype.
            **worker_options: Further options of DataLoader: `persistent_workers`,
                `prefetch_factor`, `multiprocessing_context`.

        Raises:
            TypeError: The option of DataLoader is set by the loader itself.
            ValueError: An option is invalid, or `in_order=False`. While iterating: a row has more
                tokens than `batch_tokens` or `row_tokens`.
        """
        from mslm_data.torch.data.loader import MaskedLoader

        options = BatchOptions(
            batch_size=batch_size,
            batch_tokens=batch_tokens,
            row_tokens=row_tokens,
            flat=flat,
            multiple_of=multiple_of,
            shuffle=shuffle,
            open_shards=open_shards,
            bucketed=bucketed,
            drop_last=drop_last,
            seed=self.seed,
        )
        return MaskedLoader(
            self,
            options,
            rank=rank,
            world=world,
            workers=workers,
            pin_memory=pin_memory,
            columns=columns,
            dtypes=dtypes,
            worker_options=worker_options,
        )
