"""A split as a torch Dataset: rows by number, masked on the way.

It is map-style and hands out `MaskedRow`, which made the defaults of Hugging Face's Trainer, Accelerate and Lightning
right without a flag; iterable ones each broke in at least one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from torch.utils.data import Dataset

from mslm_data.mask import Strategy
from mslm_data.mask.draws import check_count
from mslm_data.shard.split import Split
from mslm_data.torch.epoch import Epoch, FollowsEpoch
from mslm_data.torch.masked import Masked, MaskedRow
from mslm_data.torch.sampler import Rows

if TYPE_CHECKING:
    from mslm_data.torch.loader import MaskedLoader

_HOW = (
    "pass MaskEpochCallback() to the Trainer, or call set_epoch on the dataset, loader or sampler before each epoch, "
    "or make the dataset with static=True if its masks are to stay (evaluation)"
)


class MaskedDataset(FollowsEpoch, Dataset[MaskedRow]):
    """The rows of a split with their masks, a pure function of (row key, seed, epoch, strategy).

    Rows that are asked for together (`__getitems__`, as DataLoader does) are gathered from the mapped shards and
    masked by one call. `MaskingCollator()` makes batches of them. It travels to forked and spawned workers; these see
    `set_epoch` at once, persistent ones too. Its first row is masked when it is made, so that what is wrong is said
    there, and forked workers find kernels in memory.

        dataset = MaskedDataset(md.load("shards/ncbi")["train"], md.strategy("joint"))
        Trainer(..., train_dataset=dataset, data_collator=MaskingCollator(), callbacks=[MaskEpochCallback()])
        for batch in dataset.loader(batch_size=32): ...

    Attributes:
        split: Of a loaded folder.
        strategy: What masks.
        seed: Of masks, and of the order that `loader` and `ShardSampler` make.
        static: Whether `set_epoch` changes nothing, so that each row keeps its mask.
    """

    def __init__(
        self,
        split: Split,
        strategy: Strategy,
        *,
        seed: int = 0,
        epoch: int = 0,
        static: bool = False,
    ) -> None:
        """Say which.

        Args:
            split: `md.load(folder_or_url)[name]`.
            strategy: What masks: `md.strategy(...)`, or `shards.strategy(...)` where it needs the folder's lexicons.
            seed: In `[0, 2**63)`.
            epoch: The first one.
            static: Keep the masks of `epoch`, for evaluation.

        Raises:
            TypeError: Not a split, such as the folder itself.
            ValueError: A seed or epoch out of range.
            ShardError: A shard is missing or damaged, as far as the first row tells.
        """
        if not isinstance(split, Split):
            raise TypeError(
                f"split: expected one, as md.load(folder)['train'] is, got {type(split).__name__}"
            )
        check_count("seed", seed)
        self.split, self.strategy, self.seed, self.static = split, strategy, seed, static
        self._epoch = Epoch(epoch)
        self.masked(np.arange(min(1, len(self))), step=0).batch()

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, row: int) -> MaskedRow:
        """Return one row; negative numbers count from the end.

        Raises:
            IndexError: No such row.
            ValueError: A rate follows the step.
        """
        if not -len(self) <= row < len(self):
            raise IndexError(f"row: expected one of {len(self)}, got {row}")
        return MaskedRow(self.masked(np.array([row % len(self)], np.int64)), 0)

    def __getitems__(self, rows: Sequence[int]) -> list[MaskedRow]:
        """Return rows that were gathered and masked at once, as DataLoader asks for them.

        Raises:
            ValueError: A rate follows the step, and the rows are not those of `loader` or `ShardSampler`.
        """
        said = (rows.epoch, rows.step) if isinstance(rows, Rows) else (None, None)
        chunk = self.masked(np.asarray(rows, np.int64), epoch=said[0], step=said[1])
        if not self.static and said[0] is None:
            self._epoch.watch(chunk.examples.keys, _HOW)
        return [MaskedRow(chunk, place) for place in range(len(chunk))]

    def masked(
        self, rows: npt.NDArray[np.int64], *, epoch: int | None = None, step: int | None = None
    ) -> Masked:
        """Gather and mask any rows, in any order.

        Args:
            rows: int64 `[R]`, each in `[0, len(self))`.
            epoch: None is the present one, as it is always for a static dataset.
            step: Of training, where a rate follows it.

        Raises:
            ValueError: A rate follows the step, and there is none.
            ShardError: A shard is missing or damaged.
        """
        if self.strategy.by_step and step is None:
            raise ValueError(
                "step: expected one, as a rate follows it, got rows of a sampler that does not tell; take the batches "
                "from dataset.loader(...), or let the rate follow the epoch (per='epoch')"
            )
        now = self.epoch if epoch is None or self.static else epoch
        return Masked.of(self.split.take(rows), self.strategy, seed=self.seed, epoch=now, step=step)

    def lengths(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the number of tokens of any rows, `[R]`."""
        return self.split.lengths(rows)

    def loader(self, batch_size: int = 32, **options: Any) -> MaskedLoader:
        """Return the batches of each epoch as tensors, made in this process; see `MaskedLoader` for the options."""
        from mslm_data.torch.loader import MaskedLoader

        return MaskedLoader(self, batch_size=batch_size, **options)
