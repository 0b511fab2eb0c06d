"""A torch Dataset over a split: rows by index, masked as they are read.

The dataset is map-style and hands out `MaskedRow`: with that, the defaults of Hugging Face's
Trainer, Accelerate and Lightning are right without a flag. Each iterable form that was tried broke
in at least one of them.
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
from mslm_data.batches.masked import Masked, check_split, strategy_for
from mslm_data.batches.row_order import RowOrder, row_order
from mslm_data.mask.rng import check_count
from mslm_data.mask.strategy import Strategy
from mslm_data.shard.row_protocol import Rows, resolve_row
from mslm_data.torch.data.epoch import Epoch, FollowsEpoch
from mslm_data.torch.data.masked_row import MaskedRow
from mslm_data.torch.data.sampler import BatchRows, ShardsOfSplits, read_epoch

if TYPE_CHECKING:
    from mslm_data.torch.data.loader import MaskedLoader

_HOW = (
    "take the batches from dataset.loader(...), pass MaskEpochCallback() to the Trainer, set "
    "dataset.epoch before each pass of your own, or make the dataset with static=True if its masks "
    "are to stay (evaluation)"
)


class MaskedDataset(FollowsEpoch, Dataset[MaskedRow]):
    """A split with its masks, which are a pure function of (row key, seed, epoch, strategy).

    Rows that are asked for together (`__getitems__`, as DataLoader does) are gathered from the
    mapped shards and masked by one call. `MaskingCollator()` makes batches of them. The dataset can
    be sent to forked and spawned workers; these see a new `epoch` at once, persistent ones too. Its
    first row is masked when it is made, so that errors are raised there, and forked workers find
    the kernels compiled.

    No row is given before its epoch is known. A `loader` sends it along with the rows;
    `MaskEpochCallback` sets `epoch` in Hugging Face's Trainer::

        dataset = MaskedDataset(md.load("shards/ncbi")["train"], md.strategy("joint"))
        for batch in dataset.loader(batch_size=32): ...

        collator = MaskingCollator()
        Trainer(
            ..., train_dataset=dataset, data_collator=collator, callbacks=[MaskEpochCallback()]
        )

    Attributes:
        split: A split of a loaded folder, or a mix of several.
        strategy: What masks.
        seed: Seeds the masks, and the order of a `loader`.
        static: Whether `epoch` stays, so that each row keeps its mask.
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
            split: `md.load(folder_or_url)[name]`, or `md.mix(...)` of several.
            strategy: What masks: `md.strategy(...)`, or a name for a strategy's defaults. Its
                lexicons are looked for in the folder of the split.
            seed: In `[0, 2**63)`.
            epoch: The first epoch, in `[0, 2**63)`. None: 0 for `loader`, and not known to any
                other sampler.
            static: Keep the masks of `epoch`, for evaluation. Default: of epoch 0.

        Raises:
            TypeError: Not a split, such as the folder itself, or not a strategy.
            ValueError: A seed or epoch out of range, an unknown strategy, one that reads score
                columns for a mix, or a static dataset whose rate follows training.
            ShardError: A shard is missing or damaged, as far as the first row tells.
            VocabularyError: A lexicon or score column of the strategy is missing, damaged, or of
                another tokenizer.
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
        self._checked: int | None = None
        """The epoch at whose first rows this process has looked at the split's files."""
        self._kept: ShardsOfSplits | None = None
        """Shards that the rows asked for last can be of, if that is known."""

        first = np.arange(min(1, len(self)))
        self.masked(first, epoch=self.epoch or 0, step=0, tokens=0).batch()

    @property
    def tokens(self) -> int:
        """Total number of tokens."""
        return self.split.tokens

    @property
    def digest(self) -> str | None:
        """Digest of the rows; a loader's state is checked against it."""
        return self.split.digest

    def row_order(self, options: BatchOptions) -> RowOrder:
        """Return the order of the split's rows; see `mslm_data.batches.row_order.row_order`."""
        return row_order(self.split, options)

    def __len__(self) -> int:
        return len(self.split)

    def __repr__(self) -> str:
        epoch = "not set" if self.epoch is None else self.epoch
        kept = ", static" if self.static else ""

        return f"MaskedDataset({self.split!r}, seed {self.seed}, epoch {epoch}{kept})"

    def __getitem__(self, row: int) -> MaskedRow:
        """Return one masked row; negative indices count from the end.

        Raises:
            IndexError: No such row.
            TypeError: Not a row's number, such as a slice.
            ValueError: The epoch is not known, or a rate follows training, by its steps or tokens.
        """
        number = resolve_row(row, len(self))

        return MaskedRow(self.masked(np.array([number], np.int64), epoch=read_epoch([row])), 0)

    def __getitems__(self, rows: Sequence[int]) -> list[MaskedRow]:
        """Return several masked rows, gathered and masked in one call; DataLoader uses it.

        Raises:
            ValueError: The epoch is not known; or a rate follows training, and the rows are not
                those of `loader`.
        """
        epoch = read_epoch(rows)
        step = tokens = None
        if isinstance(rows, BatchRows):
            step = rows.step
            if rows.shards != self._kept and rows.shards is not None:
                for part, shards in zip(self.split.splits, rows.shards, strict=True):
                    if shards is not None:
                        part.split.keep(shards)
                self._kept = rows.shards
            tokens = rows.tokens

        chunk = self.masked(np.asarray(rows, np.int64), epoch=epoch, step=step, tokens=tokens)
        if not self.static and epoch is None:
            self._epoch.watch(chunk.examples.keys, _HOW)

        if not isinstance(rows, BatchRows) or rows.packs is None:
            return [MaskedRow(chunk, place) for place in range(len(chunk))]
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
        """Gather and mask rows in any order.

        Args:
            rows: int64 `[R]`, each in `[0, len(self))`.
            epoch: None takes `epoch`, as a static dataset always does.
            step: The training step, where a rate follows it.
            tokens: Tokens that training was given before, where a rate follows them.

        Raises:
            ValueError: The epoch is not known; or a rate follows the step or the tokens, and there
                is none.
            ShardError: A shard is missing or damaged, or has changed by the first rows of an epoch.
        """
        if step is None and tokens is None and self.strategy.follows_training:
            raise ValueError(
                "step, tokens: a rate follows training, but the sampler does not report the "
                "training step; take the batches from dataset.loader(...), or let the rate "
                "follow the epoch (per='epoch')"
            )
        epoch = self.mask_epoch(epoch)

        if epoch != self._checked:
            self.split.check()
            self._checked = epoch

        examples = self.split.take(self.split.epoch_rows(rows, seed=self.seed, epoch=epoch))
        return Masked.by_strategy(
            examples, self.strategy, seed=self.seed, epoch=epoch, step=step, tokens=tokens
        )

    def mask_epoch(self, epoch: int | None) -> int:
        """Return the epoch that seeds the masks: the given one, or that of the dataset.

        Raises:
            ValueError: It is not known.
        """
        if epoch is None or self.static:
            return self._epoch.require(_HOW)
        return epoch

    def lengths(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the number of tokens of each given row, `[R]`."""
        return self.split.lengths(rows)

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

        The options not named here are those of `mslm_data.batches.batch_options.BatchOptions`, as
        in `md.Batches`; the seed is the dataset's.

        Args:
            rank: The rank of this process; None, with `world`, asks torch.distributed where it is
                initialised.
            world: Number of ranks.
            workers: Number of processes that make batches; 0 makes them in this one, which is
                faster.
            pin_memory: Whether batches lie in pinned memory; needs an accelerator.
            columns: Which columns a batch has; None keeps all. `MaskingCollator` lists them.
            dtypes: Column -> another dtype.
            **worker_options: More of DataLoader's options, useful with workers:
                `persistent_workers`, `prefetch_factor`, `multiprocessing_context`.

        Raises:
            TypeError: An option of DataLoader that the loader itself sets.
            ValueError: An option that `BatchOptions`, `MaskingCollator` or DataLoader refuses; or
                `in_order=False`. When iterated: a row has more tokens than there is room.
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
