"""A loader of tensor batches that resumes exactly.

By default it makes batches in the training process: passing a small batch between processes takes
longer than making it. Workers are for trainers that require them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Sampler

from mslm_data.batches.batch_options import BatchOptions
from mslm_data.batches.masked import mask_batches
from mslm_data.torch.data.collator import MaskingCollator
from mslm_data.torch.data.sampler import BatchRows, EvenEpochs, ShardSampler

if TYPE_CHECKING:
    from mslm_data.torch.data.dataset import MaskedDataset


class MaskedLoader:
    """Iterate over the batches of one epoch as dicts of tensors; see `MaskedDataset.loader`.

    After a complete pass, the next iteration starts the next epoch. On a single rank, the batches
    are those of `md.Batches` with the same options.

    The loader implements the protocol of torchdata's StatefulDataLoader (`state_dict`,
    `load_state_dict`), which is supported by Lightning and
    `Accelerator.register_for_checkpointing`. The state counts batches returned to the training
    loop, not batches prefetched by workers, and can be loaded with any number of workers and ranks.

    The loader distributes batches over ranks itself; Accelerate's `prepare` and Lightning's sampler
    injection leave it unchanged. The rank is read when iteration begins, so the loader can be
    created before the process group::

        for epoch in range(epochs):
            loader.set_epoch(epoch)      # no effect within the epoch of a loaded state
            for batch in loader: ...

    Attributes:
        dataset: The masked rows.
        sampler: The sampler of row indices.
        workers: Number of worker processes; 0 makes batches in this process.
    """

    def __init__(
        self,
        dataset: MaskedDataset,
        options: BatchOptions,
        *,
        rank: int | None = None,
        world: int | None = None,
        workers: int = 0,
        pin_memory: bool = False,
        columns: Sequence[str] | None = None,
        dtypes: Mapping[str, torch.dtype] | None = None,
        worker_options: Mapping[str, Any],
    ) -> None:
        """Configure the batches; see `MaskedDataset.loader` for the arguments.

        Raises:
            TypeError: An option of DataLoader is set by the loader itself.
            ValueError: An option is invalid, or `in_order=False`. While iterating: a row has more
                tokens than `batch_tokens` or `row_tokens`.
        """
        for name in worker_options:
            if name in _SET_HERE:
                raise TypeError(f"loader: unknown option '{name}'; {_SET_HERE[name]}")
        if not worker_options.get("in_order", True):
            raise ValueError(
                "in_order: expected True, got False; states count batches in order, so a resumed "
                "run would repeat some batches and skip others"
            )

        self.dataset = dataset
        self.workers = workers
        self.sampler = ShardSampler(
            dataset.split, options, epoch=dataset.epoch or 0, rank=rank, world=world
        )
        self.sampler.counts = False  # workers prefetch: `_iter_batches` counts instead
        self._pin = pin_memory
        self._collator = MaskingCollator(
            row_tokens=options.row_tokens,
            flat=options.flat,
            multiple_of=options.multiple_of,
            columns=columns,
            dtypes=dtypes,
        )
        self._worker_options = worker_options
        self._loader = self._make_data_loader(self.sampler)

    @property
    def batch_sampler(self) -> ShardSampler:
        """The sampler, under the name that Lightning uses in evaluation."""
        return self.sampler

    def for_trainer(self) -> DataLoader[Any]:
        """Return a DataLoader for Hugging Face's Trainer; see `EvenEpochs`.

        It starts at epoch 0 and does not move this loader, whose position and states do not apply
        to it: the Trainer resumes from its own checkpoints. `MslmTrainer` calls it for a
        `MaskedLoader`.
        """
        return self._make_data_loader(EvenEpochs(self.sampler))

    def set_epoch(self, epoch: int) -> None:
        """Start an epoch from its first batch; no effect within the current epoch.

        A resumed run therefore continues where its state was saved.

        Raises:
            ValueError: The epoch is invalid.
        """
        self.sampler.set_epoch(epoch)

    def __len__(self) -> int:
        """Return the number of this rank's batches in the epoch, including those before a resume.

        With `batch_tokens` or `row_tokens`, this reads the lengths of all rows, and downloads all
        shards of a remote split.
        """
        return len(self.sampler)

    def __getitem__(self, row: object) -> NoReturn:
        """Raise an error: a loader yields batches, and has no single rows.

        Raises:
            TypeError: Always.
        """
        raise TypeError(
            "loader: a trainer asked for single rows, but a loader only yields batches; "
            "MslmTrainer takes a loader as train_dataset, for others pass a MaskedDataset, or "
            "return the loader from get_train_dataloader"
        )

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        self.sampler.cursor.rewind()

        return self._iter_batches()

    def __repr__(self) -> str:
        state = self.sampler.state_dict()
        _, world = self.sampler.ranks()
        steps = self.sampler.cursor.steps_in_words(world)

        size = self.sampler.options.describe_size()

        return (
            f"MaskedLoader({steps} batches of {size} from {self.dataset!r}; "
            f"epoch {state['epoch']}, {state['steps']:,} given)"
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the data, which is the same on all ranks.

        `md.Batches` can load it too.
        """
        return self.sampler.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a state, with any number of workers and ranks.

        Raises:
            ValueError: The state belongs to other rows or options, and would repeat or skip rows.
        """
        self.sampler.load_state_dict(state)

    def _iter_batches(self) -> Iterator[dict[str, Tensor]]:
        """Yield the remaining batches of the epoch, and count them as given."""
        batches = iter(self._loader) if self.workers else self._iter_in_process()

        for batch in batches:
            self.sampler.cursor.count()
            yield batch

    def _make_data_loader(self, sampler: Sampler[BatchRows]) -> DataLoader[Any]:
        return DataLoader(
            self.dataset,
            batch_sampler=sampler,
            collate_fn=self._collator,
            num_workers=self.workers,
            pin_memory=self._pin and self.workers > 0,
            **self._worker_options,
        )

    def _iter_in_process(self) -> Iterator[dict[str, Tensor]]:
        """Make batches in this process; rows of many batches are gathered and masked together."""
        dataset = self.dataset
        steps = self.sampler.begin()
        masked_batches = mask_batches(
            dataset.split,
            dataset.strategy,
            steps,
            order=self.sampler.cursor.order,
            begin=self.sampler.cursor.place,
            seed=dataset.seed,
            mask_epoch=dataset.mask_epoch(self.sampler.epoch),
        )
        for masked, places, packs in masked_batches:
            batch = self._collator.tensors(masked, places, packs)
            if self._pin:
                batch = {name: tensor.pin_memory() for name, tensor in batch.items()}

            yield batch


_SET_HERE = {
    "num_workers": "pass workers",
    "sampler": "make a DataLoader of the MaskedDataset with it",
    "batch_sampler": "make a DataLoader of the MaskedDataset with it",
    "collate_fn": "make a DataLoader of the MaskedDataset with it",
}
"""Option of DataLoader that the loader sets itself -> the alternative."""
