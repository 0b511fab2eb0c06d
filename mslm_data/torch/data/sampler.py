"""Samples batches of row indices: shuffled, bucketed, sharded over ranks, resumable in mid-epoch.

`mslm_data.batches.order` decides the rows of each batch, as for `md.Batches`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from copy import copy
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import Sampler

from mslm_data.batches.batch_options import BatchOptions
from mslm_data.batches.order import Cursor, EpochOrder, Place, Step
from mslm_data.mask.rng import check_count


class EpochRow(int):
    """A row index that carries its epoch; an int for any DataLoader.

    Each index has the epoch, not only the batch, because trainers split and merge the batches of a
    sampler.

    Attributes:
        epoch: Number of the pass over the data.
    """

    epoch: int


def read_epoch(rows: Sequence[int]) -> int | None:
    """Return the epoch of `EpochRow` indices; None if they differ, or for plain integers."""
    epochs = {getattr(row, "epoch", None) for row in rows}

    return epochs.pop() if len(epochs) == 1 else None


class BatchRows(list[int]):
    """The row indices of a batch, with its training step; a list for any DataLoader.

    Attributes:
        epoch: Epoch of all rows.
        step: Number of batches of this rank before, including earlier epochs.
        tokens: Number of tokens in all earlier steps, over all ranks; None if unknown.
        packs: int64 `[B + 1]`, index in this list of the first row of each packed row; None if rows
            are not packed.
    """

    def __init__(
        self,
        rows: Iterable[int],
        *,
        epoch: int,
        step: int,
        tokens: int | None = None,
        packs: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Create the row indices with their epoch."""
        indices = [EpochRow(row) for row in rows]
        for index in indices:
            index.epoch = epoch

        super().__init__(indices)
        self.epoch = epoch
        self.step = step
        self.tokens = tokens
        self.packs = packs

    def __reduce__(self) -> tuple[Any, ...]:
        # Sent to workers as plain ints: pickling each EpochRow takes twenty times as long.
        return _restore_batch, ([int(row) for row in self], vars(self))


def _restore_batch(rows: list[int], options: dict[str, Any]) -> BatchRows:
    return BatchRows(rows, **options)


class ShardSampler(Sampler[BatchRows]):
    """Yield the row indices of each batch; a `batch_sampler` for any DataLoader.

    Example::

        sampler = ShardSampler(dataset.split, BatchOptions(batch_size=32, seed=dataset.seed))
        DataLoader(dataset, batch_sampler=sampler, collate_fn=MaskingCollator())

    **Ranks.** All ranks get the same number of batches, so DDP does not hang. If the last step has
    fewer batches than ranks, its rows are distributed evenly over the ranks. If it has fewer rows
    than ranks, which can happen after resuming with more ranks, some rows are repeated. Keep the
    defaults of `rank` and `world` if the trainer shards batches itself (Accelerate's `prepare`):
    sharding twice silently loses rows.

    **Epochs and resuming.** Each iteration yields one epoch, and after a complete pass the next
    iteration the next epoch. After `load_state_dict`, iteration continues within the epoch of the
    state. Each row index carries its epoch. DataLoader workers prefetch batches, so save the state
    of `MaskedLoader`, or of torchdata's StatefulDataLoader, which count batches returned to the
    training loop.

    Attributes:
        options: The options of batches.
        drop_last: Whether to drop incomplete batches.
        cursor: The position in the epoch.
        counts: Whether batches are counted when this sampler yields them. `MaskedLoader` sets it to
            False, and counts batches returned to the training loop.
    """

    def __init__(
        self,
        rows: Sized,
        options: BatchOptions,
        *,
        epoch: int = 0,
        rank: int | None = 0,
        world: int | None = 1,
    ) -> None:
        """Configure the order of rows.

        Args:
            rows: A split or a mix, or anything else with a length. Bucketing and `batch_tokens`
                need `lengths` and `tokens`, as in a split.
            options: The options of batches. With packed rows, `MaskingCollator` needs rows of a
                `MaskedDataset`.
            epoch: The first epoch. Default: 0.
            rank: Rank of this process. With None for both `rank` and `world`, torch.distributed is
                asked at the start of each iteration.
            world: Number of ranks. Default: 1.

        Raises:
            ValueError: Rank or epoch is out of range, or the options need `lengths` and the rows
                have none.
        """
        if (rank is None) != (world is None):
            raise ValueError(
                f"rank, world: expected both or neither, got rank={rank} and world={world}"
            )
        if rank is not None and world is not None and not 0 <= rank < world:
            raise ValueError(f"rank: expected a number from 0 to {world - 1}, got {rank}")

        self.options = options
        self.drop_last = options.drop_last
        self.counts = True
        self._rank = rank
        self._world = world
        self.cursor = Cursor(EpochOrder.from_options(rows, options), epoch)
        self._next_epoch = self.epoch
        """Epoch set or loaded for the next pass, otherwise 0."""
        self._jumps = 0
        """Number of jumps to another position; they invalidate running iterators."""

    @property
    def sampler(self) -> ShardSampler:
        """The sampler itself; Lightning and Accelerate look for `set_epoch` here."""
        return self

    @property
    def batch_size(self) -> int | None:
        """Number of rows per batch and rank, read by Accelerate; None with `batch_tokens`."""
        return self.options.batch_size

    @property
    def epoch(self) -> int:
        """The current epoch."""
        return self.cursor.epoch

    def set_epoch(self, epoch: int) -> None:
        """Start an epoch from its first batch; no effect within the current epoch.

        A resumed run therefore continues where its state was saved.

        Raises:
            ValueError: The epoch is invalid, or lower than the epoch set or loaded before, without
                a batch in between.
        """
        check_count("epoch", epoch)
        if epoch < self._next_epoch:
            # Loaders prepared by Accelerate call this with their own count of passes, which
            # restarts at 0 when training resumes: the masks of earlier epochs would be repeated.
            raise ValueError(
                f"epoch: expected at least {self._next_epoch}, which was set before, got {epoch}; "
                "call set_epoch of the loader that Accelerate has "
                "prepared, or take the batches from dataset.loader(...), unprepared"
            )
        self._jumps += epoch != self.epoch
        self.cursor.set_epoch(epoch)
        self._next_epoch = epoch

    def __len__(self) -> int:
        """Return the number of this rank's batches in the epoch, including those before a resume.

        With `batch_tokens` or `row_tokens`, this reads the lengths of all rows, and downloads all
        shards of a remote split.
        """
        _, world = self.ranks()

        return self.cursor.steps(world)

    def __iter__(self) -> Iterator[BatchRows]:
        self.cursor.rewind()

        return self._iter_batches()

    def _iter_batches(self) -> Iterator[BatchRows]:
        """Yield the remaining batches of the epoch.

        Raises:
            ValueError: Another epoch was set during iteration.
        """
        steps = self.begin()
        epoch = self.epoch
        jumps = self._jumps
        for step in steps:
            if self._jumps != jumps:
                # Lightning does this when it resumes a DataLoader with workers: they prefetch
                # before the epoch is set, and would use the masks of an earlier epoch.
                raise ValueError(
                    f"epoch: set to {self.epoch} after workers had started epoch {epoch}; take the "
                    "batches from dataset.loader(...), which resumes from checkpoints, or set the "
                    "epoch before iterating"
                )

            if self.counts:
                self.cursor.count()
            yield BatchRows(
                step.batch.rows.tolist(),
                epoch=epoch,
                step=step.number,
                tokens=step.tokens,
                packs=step.batch.packs,
            )

    def begin(self) -> Iterator[Step]:
        """Start a pass and return its steps; the caller counts each with `cursor.count`."""
        rank, world = self.ranks()
        self._next_epoch = 0

        return self.cursor.begin(rank=rank, world=world)

    def ranks(self) -> tuple[int, int]:
        """Return this process's rank and the number of ranks."""
        if self._rank is not None and self._world is not None:
            return self._rank, self._world

        # Not cached, since loaders are often created before the process group.
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return torch.distributed.get_rank(), torch.distributed.get_world_size()

        return 0, 1

    def at_start(self) -> ShardSampler:
        """Return a sampler of the same batches at epoch 0, with a position of its own."""
        sampler = copy(self)
        # The order is shared, since it remembers the lengths that it has read.
        sampler.cursor = Cursor(self.cursor.order)
        sampler.counts = True
        sampler._next_epoch = sampler._jumps = 0
        return sampler

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the data, which is the same on all ranks."""
        return self.cursor.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a state.

        The number of ranks may change; without `bucketed` the batch size too.

        Raises:
            ValueError: The state belongs to other rows or options, and would repeat or skip rows.
        """
        self.cursor.load_state_dict(state)
        self._jumps += 1
        self._next_epoch = self.epoch


class EvenEpochs(Sampler[BatchRows]):
    """Yield the same number of batches in all epochs: that of the first.

    The Trainer reads the number of steps once. With `batch_tokens`, the number of batches varies
    between epochs, and surplus batches would be silently skipped. Here each epoch starts where the
    one before ended, so no row is skipped; training may end a few batches before or after an epoch
    of the rows.

    Attributes:
        sampler: The sampler of this rank's batches.
    """

    def __init__(self, sampler: ShardSampler) -> None:
        """Start at epoch 0, regardless of the sampler's position, and do not move it."""
        self.sampler = sampler.at_start()
        self._epoch = 0
        self._batch_counts: dict[tuple[int, int], int] = {}
        """(Epoch of the rows, number of ranks) -> number of this rank's batches."""

    def set_epoch(self, epoch: int) -> None:
        """Move to the first batch of an epoch."""
        self._epoch = epoch

    def __len__(self) -> int:
        """Return the number of batches of each epoch."""
        return self._count_batches(0)

    def __iter__(self) -> Iterator[BatchRows]:
        """Yield the batches of the current epoch."""
        # Find the epoch of the rows that contains the first batch, and the batch's index in it.
        skip = self._epoch * len(self)
        epoch = 0
        while skip >= (batches := self._count_batches(epoch)) > 0:
            skip -= batches
            epoch += 1

        # Take batches from there on, across epochs of the rows.
        remaining = len(self)
        while remaining:
            self.sampler.set_epoch(epoch)
            for rows in islice(self.sampler, skip, skip + remaining):
                remaining -= 1
                yield rows
            skip = 0
            epoch += 1

    def _count_batches(self, epoch: int) -> int:
        """Return the number of this rank's batches in an epoch of the rows."""
        _, world = self.sampler.ranks()
        if (epoch, world) not in self._batch_counts:
            order = self.sampler.cursor.order
            self._batch_counts[epoch, world] = order.steps(Place(epoch), world)
        return self._batch_counts[epoch, world]
