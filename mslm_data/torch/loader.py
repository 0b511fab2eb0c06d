"""The batches themselves, made in the training process, with exact resume.

Passing small batches between processes costs more than making them: workers are for what insists on them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from mslm_data.loading import batches_at_once
from mslm_data.torch.collate import MaskingCollator
from mslm_data.torch.dataset import MaskedDataset
from mslm_data.torch.sampler import ShardSampler


class MaskedLoader:
    """The batches of one epoch of a `MaskedDataset`, a dict of tensors each; iterate again for the next epoch.

    With one rank these are the batches of `md.Batches` of equal options. It keeps torchdata's StatefulDataLoader
    protocol (`state_dict`, `load_state_dict`), which Lightning and `Accelerator.register_for_checkpointing` use; the
    state counts what was handed out, never what workers prepared, and is good for any number of workers and ranks.

    It is rank-aware: Accelerate's `prepare` leaves it alone, and so does Lightning's sampler injection.

        for epoch in range(epochs):
            loader.set_epoch(epoch)      # nothing for the epoch that a state was taken in
            for batch in loader: ...

    Attributes:
        sampler: Which rows each batch has.
        workers: See `__init__`.
    """

    def __init__(
        self,
        dataset: MaskedDataset,
        *,
        batch_size: int = 32,
        shuffle: bool = True,
        bucketed: bool = False,
        drop_last: bool = False,
        rank: int | None = None,
        world: int | None = None,
        workers: int = 0,
        pin_memory: bool = False,
        multiple_of: int = 1,
        columns: Sequence[str] | None = None,
        dtypes: Mapping[str, torch.dtype] | None = None,
        **worker_options: Any,
    ) -> None:
        """Say which.

        Args:
            dataset: Masked rows.
            batch_size: Rows of each rank's batch.
            shuffle: See `ShardSampler`; so the next two.
            bucketed: Whether rows of like length share a batch.
            drop_last: Whether to leave out what is not full.
            rank: Which of the ranks this is; None asks torch.distributed, where that is initialised, or is 0.
            world: How many ranks there are; likewise.
            workers: Processes that make batches; 0 makes them in this one, which is faster.
            pin_memory: Whether batches lie in pinned memory; needs an accelerator.
            multiple_of: See `MaskingCollator`; so the next two.
            columns: Which ones a batch has; None is all.
            dtypes: Column -> another dtype.
            **worker_options: More of DataLoader's options, of use with workers: `persistent_workers`,
                `prefetch_factor`, `multiprocessing_context`.

        Raises:
            ValueError: What `ShardSampler`, `MaskingCollator` or DataLoader refuse.
        """
        if (rank is None) != (world is None):
            raise ValueError("rank, world: expected both or neither")
        here, all_ = _ranks() if rank is None or world is None else (rank, world)
        self.dataset, self.workers, self._pin = dataset, workers, pin_memory
        self.sampler = ShardSampler(
            dataset,
            batch_size=batch_size,
            epoch=dataset.epoch,
            shuffle=shuffle,
            bucketed=bucketed,
            drop_last=drop_last,
            rank=here,
            world=all_,
        )
        self._collator = MaskingCollator(multiple_of=multiple_of, columns=columns, dtypes=dtypes)
        self._loader = DataLoader(
            dataset,
            batch_sampler=self.sampler,
            collate_fn=self._collator,
            num_workers=workers,
            pin_memory=pin_memory and workers > 0,
            **worker_options,
        )
        self._finished = -1

    def set_epoch(self, epoch: int) -> None:
        """Go to the first batch of an epoch; to the one that is, is nothing, so a resumed one goes on.

        Raises:
            ValueError: Not an epoch.
        """
        self.sampler.set_epoch(epoch)

    def __len__(self) -> int:
        """Return the number of batches of this epoch, those before a resume included."""
        return len(self.sampler)

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        if self._finished == self.sampler.epoch and not self.dataset.static:
            warnings.warn(
                f"epoch: expected another after a pass over the data, got {self._finished} again, so batches and masks "
                "are those that were; call set_epoch on the loader before each epoch",
                stacklevel=2,
            )
        batches = (
            iter(self._loader)
            if self.workers
            else self._in_process(self.sampler.arrays(), self.sampler.epoch)
        )
        self.sampler.given = 0
        return self._counted(batches, self.sampler.epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return where iterating stands; see `ShardSampler.state_dict`."""
        return {**self.sampler.state_dict(), "tokens": self.dataset.split.record.tokens}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a state was taken, with any number of workers and ranks.

        Raises:
            ValueError: A state of other rows or options, which would repeat or lose rows.
        """
        tokens = self.dataset.split.record.tokens
        if state.get("tokens") != tokens:
            raise ValueError(
                f"state: expected tokens = {tokens}, got {state.get('tokens')}; load the same shards first"
            )
        self.sampler.load_state_dict(state)
        self._finished = -1

    def _counted(
        self, batches: Iterator[dict[str, Tensor]], epoch: int
    ) -> Iterator[dict[str, Tensor]]:
        """Give batches, and tell the sampler, which is ahead, how many."""
        for given, batch in enumerate(batches, start=1):
            self.sampler.given = given
            yield batch
        self._finished = epoch

    def _in_process(
        self, batches: Iterator[tuple[npt.NDArray[np.int64], int]], epoch: int
    ) -> Iterator[dict[str, Tensor]]:
        """Gather and mask the rows of many batches at once; a batch at a time where a rate follows the step."""
        many = (
            1
            if self.dataset.strategy.by_step
            else batches_at_once(self.dataset.split, self.sampler.batch_size)
        )
        while group := list(islice(batches, many)):
            chunk = self.dataset.masked(
                np.concatenate([rows for rows, _ in group]), epoch=epoch, step=group[0][1]
            )
            places, begin = np.arange(len(chunk)), 0
            for rows, _ in group:
                batch = self._collator.tensors(chunk, places[begin : begin + len(rows)])
                begin += len(rows)
                yield (
                    {name: tensor.pin_memory() for name, tensor in batch.items()}
                    if self._pin
                    else batch
                )


def _ranks() -> tuple[int, int]:
    """Return this process's rank and how many there are, as torch.distributed knows them."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1
