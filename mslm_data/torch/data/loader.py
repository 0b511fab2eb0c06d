"""Finished batches of masked rows as tensors, for any training loop.

Batches are made in the training process: passing a small batch between processes takes longer than
making it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NoReturn

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from mslm_data.batches.batch_options import OPEN_SHARDS, BatchOptions
from mslm_data.batches.masked import (
    TokenWeights,
    batch_options,
    check_split,
    mask_batches,
    strategy_for,
    table_of_weights,
)
from mslm_data.batches.order import Cursor, EpochOrder
from mslm_data.mask.rng import check_count
from mslm_data.mask.strategy import Strategy
from mslm_data.shard.split import Rows
from mslm_data.torch.data.tensors import check_columns, to_tensors

_BATCHES_ONLY = (
    "MaskedDataset: rows come in finished batches, which a DataLoader would repeat, lose or stack; "
    "write `for batch in data.loader(...)`, without a DataLoader; in Hugging Face's Trainer, pass "
    "the loader as train_dataset to MslmTrainer, or return loader.for_trainer() from "
    "get_train_dataloader"
)


class MaskedDataset:
    """A split with a strategy: rows whose masks depend on (key, seed, epoch, strategy) alone.

    Its `loader` yields finished batches::

        data = MaskedDataset(md.load("shards/ncbi")["train"], md.strategy("joint"), seed=0)
        for batch in data.loader(batch_tokens=4_096): ...

    Attributes:
        split: A split of a loaded folder, or a mix.
        strategy: The masking strategy.
        seed: Seed of the masks, and of the order of the rows.
        static: Whether each row keeps its mask of epoch 0.
    """

    def __init__(
        self,
        split: Rows,
        strategy: Strategy | str | Path,
        *,
        seed: int = 0,
        static: bool = False,
    ) -> None:
        """Choose the rows and their masks. No row is read.

        Args:
            split: `md.load(folder_or_url)[name]`, or `md.mix(...)`.
            strategy: `md.strategy(...)`, or the name of a strategy. Lexicons are also searched in
                the folder of the split.
            seed: Seed, in `[0, 2**63)`.
            static: Whether rows keep the masks of epoch 0, for evaluation.

        Raises:
            TypeError: `split` is not a split, for example a folder, or `strategy` not a strategy.
            ValueError: The seed is out of range, the strategy is unknown, a strategy with score
                columns is used on a mix, or `static` with a rate that follows training.
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

    def loader(  # noqa: D417 - the options of batches are explained once, in BatchOptions
        self,
        batch_size: int | None = None,
        *,
        batch_tokens: int | None = None,
        flat: bool = False,
        shuffle: bool | Literal["shards"] = True,
        open_shards: int = OPEN_SHARDS,
        bucketed: bool | None = None,
        drop_last: bool = False,
        multiple_of: int = 1,
        weights: TokenWeights | Sequence[TokenWeights] | None = None,
        rank: int | None = None,
        world: int | None = None,
        pin_memory: bool = False,
        columns: Sequence[str] | None = None,
    ) -> MaskedLoader:
        """Return a loader of finished batches.

        See `mslm_data.batches.batch_options.BatchOptions` for options not listed here; they are the
        same as in `md.Batches`. The seed is the dataset's.

        Args:
            weights: `(w_elm, w_blm)`, for `loss_weights` in each batch; see `md.Batches`.
            rank: Rank of this process. Default, for both `rank` and `world`: as reported by
                torch.distributed.
            world: Number of ranks.
            pin_memory: Whether to return batches in pinned memory; needs an accelerator.
            columns: Columns of a batch, such as `["input_ids", "attention_mask", "labels"]` for a
                model that takes no others. Default: all.

        Raises:
            ValueError: An option is invalid, or a column is unknown. While iterating: a row has
                more tokens than `batch_tokens`.
        """
        options = batch_options(
            self.strategy,
            batch_size=batch_size,
            batch_tokens=batch_tokens,
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
            weights=weights,
            rank=rank,
            world=world,
            pin_memory=pin_memory,
            columns=columns,
        )

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, row: object) -> NoReturn:
        """Raise an error, also in a DataLoader: there are no single rows.

        Raises:
            TypeError: Always.
        """
        raise TypeError(_BATCHES_ONLY)

    def __repr__(self) -> str:
        static = ", static" if self.static else ""

        return f"MaskedDataset({self.split!r}, seed {self.seed}{static})"


class MaskedLoader:
    """Iterate over the batches of one epoch as dicts of tensors; see `MaskedDataset.loader`.

    After a complete pass, the next iteration starts the next epoch, with another order and other
    masks. On a single rank, the batches are those of `md.Batches` with the same options. Iterate
    the loader itself, in any process: it distributes batches over ranks, and Accelerate's `prepare`
    returns it unchanged. The rank is read when iteration begins, so the loader can be created
    before the process group::

        for epoch in range(epochs):
            loader.set_epoch(epoch)      # no effect within the epoch of a loaded state
            for batch in loader: ...

    `state_dict` and `load_state_dict` follow the protocol of torchdata's StatefulDataLoader, which
    Lightning and `Accelerator.register_for_checkpointing` call. A state counts the batches returned
    to the training loop, and can be loaded on any number of ranks, or by `md.Batches`.

    Attributes:
        dataset: The masked rows.
        options: Size and form of the batches, and the seed.
    """

    def __init__(
        self,
        dataset: MaskedDataset,
        options: BatchOptions,
        *,
        weights: TokenWeights | Sequence[TokenWeights] | None = None,
        rank: int | None = None,
        world: int | None = None,
        pin_memory: bool = False,
        columns: Sequence[str] | None = None,
    ) -> None:
        """Configure the batches; see `MaskedDataset.loader` for the arguments.

        Raises:
            TypeError: `columns` is a single name.
            ValueError: Rank or columns are invalid, or the options do not fit the rows.
        """
        if (rank is None) != (world is None):
            raise ValueError(
                f"rank, world: expected both or neither, got rank={rank} and world={world}"
            )
        if rank is not None and world is not None and not 0 <= rank < world:
            raise ValueError(f"rank: expected a number from 0 to {world - 1}, got {rank}")
        check_columns(columns)
        self.dataset = dataset
        self.options = options
        self._weights = table_of_weights(weights, dataset.strategy)
        self._rank = rank
        self._world = world
        self._pin_memory = pin_memory
        self._columns = columns
        self._cursor = Cursor(EpochOrder(dataset.split, options))

    def set_epoch(self, epoch: int) -> None:
        """Start an epoch from its first batch; no effect within the current epoch.

        A resumed run therefore continues where its state was saved.

        Raises:
            ValueError: The epoch is invalid.
        """
        self._cursor.set_epoch(epoch)

    def __len__(self) -> int:
        """Return the number of this rank's batches in the epoch, including those before a resume.

        With `batch_tokens`, this reads the lengths of all rows, and downloads all shards of a
        remote split.
        """
        _, world = self._ranks()

        return self._cursor.steps(world)

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        if get_worker_info() is not None:
            raise TypeError(_BATCHES_ONLY)
        self._cursor.rewind()

        return self._pass()

    def _pass(self) -> Iterator[dict[str, Tensor]]:
        """Yield batches from the cursor's position to the end of its epoch."""
        rank, world = self._ranks()
        dataset = self.dataset
        batches = mask_batches(
            dataset.split,
            dataset.strategy,
            self._cursor,
            rank=rank,
            world=world,
            static=dataset.static,
            weights=self._weights,
        )
        for arrays in batches:
            batch = to_tensors(arrays, self._columns)
            if self._pin_memory:
                batch = {name: tensor.pin_memory() for name, tensor in batch.items()}

            yield batch

    def _ranks(self) -> tuple[int, int]:
        """Return this process's rank and the number of ranks."""
        if self._rank is not None and self._world is not None:
            return self._rank, self._world

        # Not cached, since loaders are often created before the process group.
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return torch.distributed.get_rank(), torch.distributed.get_world_size()

        return 0, 1

    def for_trainer(self, epoch: int | None = None) -> DataLoader[dict[str, Tensor]]:
        """Return a DataLoader for Hugging Face's Trainer, in this process; see `TrainerBatches`.

        `MslmTrainer` calls it for the loaders that it is given. In a plain Trainer::

            class LoaderTrainer(Trainer):
                def get_train_dataloader(self):
                    return self.train_dataset.for_trainer()

            LoaderTrainer(..., train_dataset=loader, callbacks=[MaskEpochCallback()])

        In the Trainer's reports, such as `train_samples_per_second`, a batch counts as an example.

        Args:
            epoch: The first epoch. Default: None, set by `MaskEpochCallback`. For evaluation, 0.
        """
        return DataLoader(TrainerBatches(self, epoch), batch_size=None)

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the data, which is the same on all ranks."""
        return self._cursor.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a state, on any number of ranks.

        Raises:
            ValueError: The state belongs to other rows or options, and would repeat or skip rows.
        """
        self._cursor.load_state_dict(state)

    def __getitem__(self, row: object) -> NoReturn:
        """Raise an error, also in a DataLoader: a loader has no single rows.

        Raises:
            TypeError: Always.
        """
        raise TypeError(_BATCHES_ONLY)

    def __repr__(self) -> str:
        state = self.state_dict()

        return (
            f"MaskedLoader({self.options.describe_size()} from {self.dataset!r}; "
            f"epoch {state['epoch']}, {state['batch']:,} given)"
        )


class TrainerBatches(IterableDataset[dict[str, Tensor]]):
    """The batches of a loader in epochs of equal length, as Hugging Face's Trainer expects them.

    The Trainer reads the number of steps of an epoch once. Filled by tokens, epochs of the rows
    differ in length, so surplus batches would be skipped. Here each epoch has the length of the
    first, and starts where the one before ended: each row is used once in an epoch of the rows,
    which may end a few batches before or after an epoch of the Trainer.

    The Trainer resumes by skipping batches of an epoch, so the epoch must be set.

    Attributes:
        dataset: The loader, with a position of its own.
        epoch: Epoch of the Trainer for the next iteration; None if it is not set.
    """

    def __init__(self, loader: MaskedLoader, epoch: int | None) -> None:
        """Start at the loader's epoch 0, and do not move it."""
        self.dataset = copy(loader)
        self.dataset._cursor = Cursor(loader._cursor.order)
        self.epoch = epoch
        self._length = len(self.dataset)
        self._next_epoch = 0
        self._next_state = self.dataset.state_dict()
        """State at the start of the next epoch."""

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        if get_worker_info() is not None:
            raise TypeError(_BATCHES_ONLY)
        if self.epoch is None:
            raise ValueError(
                "epoch: not set, so a resumed run would repeat the masks of earlier epochs; pass "
                "callbacks=[MaskEpochCallback()] to the Trainer"
            )

        return self._pass(self.epoch)

    def _pass(self, epoch: int) -> Iterator[dict[str, Tensor]]:
        """Yield the batches of an epoch of the Trainer, across epochs of the rows."""
        self.dataset.load_state_dict(self._find_state(epoch))

        remaining = self._length
        while remaining:
            for batch in islice(self.dataset, remaining):
                remaining -= 1
                if not remaining:
                    # Before the last batch is given: the Trainer does not ask for another one.
                    self._next_epoch = epoch + 1
                    self._next_state = self.dataset.state_dict()
                yield batch

    def _find_state(self, epoch: int) -> dict[str, Any]:
        """Return the state of the loader at the start of an epoch of the Trainer."""
        if epoch == self._next_epoch:
            return self._next_state

        # After a resume, count the batches of earlier epochs without making them.
        cursor = Cursor(self.dataset._cursor.order)
        rank, world = self.dataset._ranks()
        remaining = epoch * self._length
        while remaining:
            for _ in islice(cursor.begin(rank=rank, world=world), remaining):
                cursor.count()
                remaining -= 1

        return cursor.state_dict()
