"""A loader of tensor batches, made in the training process, that resumes exactly.

Passing small batches between processes costs more than making them, so workers are for trainers
that insist on them.
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

    Iterate again for the next epoch: after a pass that was finished it begins by itself.

    With one rank these are the batches of `md.Batches` with the same options. The loader has the
    protocol of torchdata's StatefulDataLoader (`state_dict`, `load_state_dict`), which Lightning
    and `Accelerator.register_for_checkpointing` use. Its state counts what was handed out, never
    what workers prepared, and is good for any number of workers and ranks.

    The loader deals its batches to the ranks itself, so Accelerate's `prepare` and Lightning's
    sampler injection leave it alone. The rank is asked for when iterating begins: the loader may be
    made before the process group::

        for epoch in range(epochs):
            loader.set_epoch(epoch)      # does nothing within the epoch of a loaded state
            for batch in loader: ...

    Attributes:
        dataset: The masked rows.
        sampler: Which rows each batch has.
        workers: Processes that make batches; 0 makes them in this one.
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
        """Configure the batches; `MaskedDataset.loader` explains the arguments.

        Raises:
            TypeError: An option of DataLoader that the loader itself sets.
            ValueError: What `ShardSampler`, `MaskingCollator` or DataLoader refuse; or
                `in_order=False`. When iterated: a row has more tokens than there is room.
        """
        for name in worker_options:
            if name in _SET_HERE:
                raise TypeError(f"loader: unknown option '{name}'; {_SET_HERE[name]}")
        if not worker_options.get("in_order", True):
            raise ValueError(
                "in_order: expected True, got False; a resumed run would repeat some batches and "
                "lose others, as a state counts them in order"
            )

        self.dataset = dataset
        self.workers = workers
        self.sampler = ShardSampler(dataset, options, rank=rank, world=world)
        self.sampler.counts = False  # workers make it hand out batches that training has not seen
        self._pin = pin_memory
        self._collator = MaskingCollator(
            row_tokens=options.row_tokens,
            flat=options.flat,
            multiple_of=options.multiple_of,
            columns=columns,
            dtypes=dtypes,
        )
        self._worker_options = worker_options
        self._loader = self._data_loader(self.sampler)

    @property
    def batch_sampler(self) -> ShardSampler:
        """The sampler, under the name that Lightning uses during evaluation."""
        return self.sampler

    def for_trainer(self) -> DataLoader[Any]:
        """Return a DataLoader for Hugging Face's Trainer; see `EvenEpochs`.

        `MslmTrainer` calls this itself.
        """
        return self._data_loader(EvenEpochs(self.sampler))

    def set_epoch(self, epoch: int) -> None:
        """Start `epoch` from its first batch.

        Does nothing within the current one, so a resumed run continues.

        Raises:
            ValueError: Not an epoch.
        """
        self.sampler.set_epoch(epoch)

    def __len__(self) -> int:
        """Return the number of batches of this rank in the epoch, including those before a resume.

        Where rows are counted by their tokens, this reads the lengths of all rows, and so fetches
        all shards of a remote split.
        """
        return len(self.sampler)

    def __getitem__(self, row: object) -> NoReturn:
        """Raise an error: a trainer asked for single rows, so it needs a dataset, not a loader.

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

        return self._pass()

    def __repr__(self) -> str:
        place = self.sampler.state_dict()
        _, world = self.sampler.ranks()
        steps = self.sampler.cursor.steps_in_words(world)

        size = self.sampler.options.describe_size()

        return (
            f"MaskedLoader({steps} batches of {size} from {self.dataset!r}; "
            f"epoch {place['epoch']}, {place['steps']:,} given)"
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the data. `md.Batches` can load it too."""
        return self.sampler.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a state, with any number of workers and ranks.

        Raises:
            ValueError: A state of other rows or options, which would repeat or lose rows.
        """
        self.sampler.load_state_dict(state)

    def _pass(self) -> Iterator[dict[str, Tensor]]:
        """Yield the batches from the sampler's position to the end of its epoch."""
        batches = iter(self._loader) if self.workers else self._in_process()

        for batch in batches:
            self.sampler.cursor.count()
            yield batch

    def _data_loader(self, sampler: Sampler[BatchRows]) -> DataLoader[Any]:
        """Return torch's DataLoader over a sampler of batches."""
        return DataLoader(
            self.dataset,
            batch_sampler=sampler,
            collate_fn=self._collator,
            num_workers=self.workers,
            pin_memory=self._pin and self.workers > 0,
            **self._worker_options,
        )

    def _in_process(self) -> Iterator[dict[str, Tensor]]:
        """Make batches in this process; one call gathers and masks many of them."""
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
"""Option of DataLoader that the loader sets -> what to do instead."""
