"""Samples batches of rows: shuffled, bucketed, sharded over ranks, resumable in mid-epoch.

Which rows each batch has is decided in `mslm_data.batches.order`; with one rank they are those of
`md.Batches`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import Sampler

from mslm_data.batches.batch_options import BatchOptions
from mslm_data.batches.order import Cursor, EpochOrder, Place, Step
from mslm_data.mask.rng import check_count

ShardsOfSplits: TypeAlias = tuple[frozenset[int] | None, ...]
"""The shards of each split of which rows come; None for any shard."""


class EpochRow(int):
    """A row index that carries its epoch; any DataLoader treats it as an int.

    The epoch comes with each number, not with the batch alone, as trainers cut batches of a sampler
    and put others together.

    Attributes:
        epoch: Which pass over the data.
    """

    epoch: int


def read_epoch(rows: Sequence[int]) -> int | None:
    """Return the epoch that all rows carry; None if they carry none."""
    epochs = {getattr(row, "epoch", None) for row in rows}

    return epochs.pop() if len(epochs) == 1 else None


class BatchRows(list[int]):
    """The row indices of a batch with its training step; any DataLoader treats it as a list.

    Attributes:
        epoch: Which pass over the data; each row has it too.
        step: Batches of this rank before, those of earlier epochs included.
        tokens: Tokens that all ranks were given before this step; None where they are not known.
        packs: int64 `[B + 1]`, where each packed row begins among the rows; None where none is.
        shards: For each split, the shards of which rows come now, None for any of them; None where
            rows come of any shard of all splits.
    """

    def __init__(
        self,
        rows: Iterable[int],
        *,
        epoch: int,
        step: int,
        tokens: int | None = None,
        packs: npt.NDArray[np.int64] | None = None,
        shards: ShardsOfSplits | None = None,
    ) -> None:
        """Give each row the epoch."""
        numbers = [EpochRow(row) for row in rows]
        for number in numbers:
            number.epoch = epoch

        super().__init__(numbers)
        self.epoch = epoch
        self.step = step
        self.tokens = tokens
        self.packs = packs
        self.shards = shards

    def __reduce__(self) -> tuple[Any, ...]:
        # To workers as plain numbers: each by itself would take twenty times as long.
        return _rows, ([int(row) for row in self], vars(self))


def _rows(rows: list[int], options: dict[str, Any]) -> BatchRows:
    return BatchRows(rows, **options)


class ShardSampler(Sampler[BatchRows]):
    """Yield the row indices of each batch; a `batch_sampler` for any DataLoader.

    In a loader of torch's::

        sampler = ShardSampler(dataset, BatchOptions(batch_size=32, seed=dataset.seed))
        DataLoader(dataset, batch_sampler=sampler, collate_fn=MaskingCollator())

    Every rank gives the same number of batches, so DDP never waits for one that has ended: where
    the last step has fewer batches than ranks, their rows are shared out evenly. A step needs a row
    for each rank: where fewer than that are left for the last one, as when an epoch is resumed near
    its end on more ranks, some of them are given twice.

    A pass begins at the epoch's first batch, and after a pass that was finished the next epoch
    begins; after `load_state_dict` the next pass begins where the state was taken. The epoch comes
    with each row. With workers, DataLoader asks for batches ahead of training: take the state from
    `MaskedLoader`, or from torchdata's StatefulDataLoader, which count what training has seen.

    Leave `rank` and `world` alone where the trainer shards batches itself (Accelerate's `prepare`):
    batches that are sharded twice lose rows, and nothing says so.

    Attributes:
        dataset: The rows.
        options: What a rank's batch is made of.
        drop_last: Whether batches that are not full are left out.
        cursor: How far the present pass has come.
        counts: Whether batches count as given when they are handed out here. `MaskedLoader` counts
            what training has seen instead.
    """

    def __init__(
        self,
        dataset: Sized,
        options: BatchOptions,
        *,
        epoch: int | None = None,
        rank: int | None = 0,
        world: int | None = 1,
    ) -> None:
        """Configure the order of a dataset's rows.

        Args:
            dataset: Anything of some length; `bucketed` and tokens to be counted need one with
                `lengths` and `tokens`, as `MaskedDataset` has.
            options: Of the batches. `MaskingCollator` needs rows of a `MaskedDataset` where they
                are packed.
            epoch: The first epoch; None takes the dataset's, or 0.
            rank: Which of the ranks this is; None, with `world`, asks torch.distributed whenever
                iterating begins.
            world: How many ranks there are.

        Raises:
            ValueError: A rank or epoch out of range, or buckets of rows without lengths.
        """
        if (rank is None) != (world is None):
            raise ValueError(
                f"rank, world: expected both or neither, got rank={rank} and world={world}"
            )
        if rank is not None and world is not None and not 0 <= rank < world:
            raise ValueError(f"rank: expected a number from 0 to {world - 1}, got {rank}")

        self.dataset = dataset
        self.options = options
        self.drop_last = options.drop_last
        self.counts = True
        self._rank = rank
        self._world = world
        first = getattr(dataset, "epoch", None) if epoch is None else epoch
        self.cursor = Cursor(
            EpochOrder.from_options(dataset, options), 0 if first is None else first
        )
        self._announced = self.epoch
        """The epoch of the next pass, if somebody said it; else 0."""
        self._moves = 0
        """How often another place was set: passes that began before are over."""

    @property
    def sampler(self) -> ShardSampler:
        """The sampler itself; Lightning and Accelerate look for `set_epoch` here."""
        return self

    @property
    def batch_size(self) -> int | None:
        """Rows per batch and rank, read by Accelerate; None if batches are filled by tokens."""
        return self.options.batch_size

    @property
    def epoch(self) -> int:
        """The current epoch."""
        return self.cursor.epoch

    def set_epoch(self, epoch: int) -> None:
        """Start `epoch` from its first batch.

        Does nothing within the current one, so a resumed run continues.

        Raises:
            ValueError: Not an epoch; or one before that which was set or loaded, with no batch in
                between.
        """
        check_count("epoch", epoch)
        if epoch < self._announced:
            # A loader that Accelerate has prepared sets the number of its own passes, which begins
            # at 0 after a resume too: masks of earlier epochs would come again.
            raise ValueError(
                f"epoch: expected at least {self._announced}, which was set before, got {epoch}; "
                "call set_epoch of the loader that Accelerate has "
                "prepared, or take the batches from dataset.loader(...), unprepared"
            )
        self._moves += epoch != self.epoch
        self.cursor.set_epoch(epoch)
        self._announced = epoch

    def __len__(self) -> int:
        """Return the number of batches of this rank in the epoch, including those before a resume.

        Where rows are counted by their tokens, this reads the lengths of all rows, and so fetches
        all shards of a remote split.
        """
        _, world = self.ranks()

        return self.cursor.steps(world)

    def __iter__(self) -> Iterator[BatchRows]:
        self.cursor.rewind()

        return self._pass()

    def _pass(self) -> Iterator[BatchRows]:
        """Yield the batches from the cursor's position to the end of its epoch.

        Raises:
            ValueError: Another epoch was set after the pass began.
        """
        steps = self.begin()
        epoch = self.epoch
        moves = self._moves
        order = self.cursor.order
        uses = order.row_order.shard_uses(seed=self.options.seed, epoch=epoch)
        is_by_shards = any(of_split is not None for of_split in uses)
        place = Place(epoch)
        ranges: list[tuple[int, int]] = []
        shards: ShardsOfSplits | None = None
        for step in steps:
            if self._moves != moves:
                # Lightning does so where it resumes a DataLoader with workers, which ask for
                # batches before an epoch is set. They would have the masks of an earlier one.
                raise ValueError(
                    f"epoch: set to {self.epoch} after workers had started epoch {epoch}; take the "
                    "batches from dataset.loader(...), which resumes from checkpoints, or set the "
                    "epoch before iterating"
                )
            if is_by_shards:
                before = ranges
                ranges = [
                    order.needed_shards(own, place, step.after) for own in uses if own is not None
                ]
                if ranges != before:
                    left = iter(ranges)
                    shards = tuple(
                        None if own is None else frozenset(own.shards[slice(*next(left))].tolist())
                        for own in uses
                    )
                place = step.after
            if self.counts:
                self.cursor.count()
            yield BatchRows(
                step.batch.rows.tolist(),
                epoch=epoch,
                step=step.number,
                tokens=step.tokens,
                packs=step.batch.packs,
                shards=shards,
            )

    def begin(self) -> Iterator[Step]:
        """Start a pass and return its steps; call `cursor.count` for each."""
        rank, world = self.ranks()
        self._announced = 0

        return self.cursor.begin(rank=rank, world=world)

    def ranks(self) -> tuple[int, int]:
        """Return this process's rank and the number of ranks."""
        if self._rank is not None and self._world is not None:
            return self._rank, self._world

        # Asked anew each time, as a loader is often made before its trainer starts the process
        # group.
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return torch.distributed.get_rank(), torch.distributed.get_world_size()

        return 0, 1

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the data; it is equal on all ranks and fits any number of them."""
        return self.cursor.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a state.

        The ranks may be others now. Without buckets, so may the batch size.

        Raises:
            ValueError: A state of other rows or options, which would repeat or lose rows.
        """
        self.cursor.load_state_dict(state)
        self._moves += 1
        self._announced = self.epoch


class EvenEpochs(Sampler[BatchRows]):
    """Yield the same number of batches in each epoch, that of the first.

    The Trainer asks once for the number of steps. Where rows are counted by their tokens, epochs of
    the rows differ by a few batches, which would be left out without a word. So each epoch here
    goes on with the rows where the one before ended: no row is passed over, and the last epoch may
    end some batches before or after the rows do.

    Attributes:
        sampler: Whose batches; those of this rank.
    """

    def __init__(self, sampler: ShardSampler) -> None:
        """Begin with epoch 0, whatever epoch the sampler is at."""
        self.sampler = sampler
        self._epoch = 0
        self._counted: dict[tuple[int, int], int] = {}
        """Epoch of the rows and number of ranks -> this rank's batches."""

    def set_epoch(self, epoch: int) -> None:
        """Go to the first batch of an epoch."""
        self._epoch = epoch

    def __len__(self) -> int:
        """Return the number of batches of each epoch."""
        return self._count_batches(0)

    def __iter__(self) -> Iterator[BatchRows]:
        """Yield the batches of the current epoch."""
        # In which epoch of the rows its first batch is, and how many batches of that come before.
        before = self._epoch * len(self)
        epoch = 0
        while before >= (batches := self._count_batches(epoch)) > 0:
            before -= batches
            epoch += 1

        left = len(self)
        while left:
            self.sampler.set_epoch(epoch)
            for rows in islice(self.sampler, before, before + left):
                left -= 1
                yield rows
            before = 0
            epoch += 1

    def _count_batches(self, epoch: int) -> int:
        """Return the number of this rank's batches in an epoch of the rows."""
        _, world = self.sampler.ranks()
        if (epoch, world) not in self._counted:
            order = self.sampler.cursor.order
            self._counted[epoch, world] = order.steps(Place(epoch), world)
        return self._counted[epoch, world]
