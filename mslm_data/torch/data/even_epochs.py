"""Batches for Hugging Face's Trainer, whose epochs all have the same number of steps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from torch.utils.data import Sampler

from mslm_data.batches.order import Place
from mslm_data.torch.data.sampler import BatchRows, ShardSampler


class EvenEpochs(Sampler[BatchRows]):
    """Gives as many batches in each epoch as the first epoch of the rows has.

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
        return self._batches_of(0)

    def __iter__(self) -> Iterator[BatchRows]:
        """Give the batches of the epoch that was set."""
        # In which epoch of the rows its first batch is, and how many batches of that come before.
        before = self._epoch * len(self)
        epoch = 0
        while before >= (batches := self._batches_of(epoch)) > 0:
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

    def _batches_of(self, epoch: int) -> int:
        """Return the number of this rank's batches in an epoch of the rows."""
        _, world = self.sampler.ranks()
        if (epoch, world) not in self._counted:
            order = self.sampler.cursor.order
            self._counted[epoch, world] = order.steps(Place(epoch), world)
        return self._counted[epoch, world]
