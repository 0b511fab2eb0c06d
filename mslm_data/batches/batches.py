"""Iterate over masked batches of a built folder, as NumPy arrays, in any trainer.

shards = md.load("shards/ncbi")
for batch in md.Batches(shards["train"], md.strategy("joint"), batch_size=32): ...
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from mslm_data.batches.batch_options import OPEN_SHARDS, check_size
from mslm_data.batches.collate import Batch
from mslm_data.batches.masked import (
    TokenWeights,
    batch_options,
    check_split,
    mask_batches,
    strategy_for,
    table_of_weights,
)
from mslm_data.batches.order import Cursor, EpochOrder
from mslm_data.mask.strategy import Strategy
from mslm_data.shard.row_numbers import is_integer
from mslm_data.shard.split import Rows


class Batches:
    """The masked batches of an epoch, each a dict of arrays; iterate again for the next epoch.

    Each epoch has its own order and masks. After `load_state_dict`, the next iteration resumes at
    the state. A batch depends only on the rows, the strategy, the options below, the epoch, and its
    number within the epoch. `MaskedDataset.loader` with the same options has the same batches and
    states.

    For masking rates that follow training, steps and tokens are counted over all epochs and ranks.

    `mslm_data.batches.collate.Batch` describes the arrays and their shapes.
    """

    def __init__(  # noqa: D417 - the options are explained once, in BatchOptions
        self,
        split: Rows,
        strategy: Strategy | str | Path,
        *,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        flat: bool = False,
        seed: int = 0,
        epoch: int = 0,
        shuffle: bool | Literal["shards"] = True,
        open_shards: int = OPEN_SHARDS,
        bucketed: bool | None = None,
        drop_last: bool = False,
        multiple_of: int = 1,
        weights: TokenWeights | Sequence[TokenWeights] | None = None,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        """Configure the batches. No row is read before the iteration.

        `mslm_data.batches.batch_options.BatchOptions` describes the options not listed here.

        Args:
            split: A split of a loaded folder, `md.load(folder)["train"]`, or a mix, `md.mix(...)`.
            strategy: `md.strategy(...)`, `shards.strategy(...)`, or the name of a strategy, for its
                default options.
            seed: Seed of the order and the masks, in `[0, 2**63)`. Default: 0.
            epoch: First epoch, in `[0, 2**63)`. Default: 0.
            weights: `(w_elm, w_blm)`, the loss weights of terms and of other tokens, for
                `loss_weights` in each batch. `md.scaled_weights` gives them a mean of 1. In a
                curriculum, one such pair for all parts, or one for each. Default: no
                `loss_weights`.
            rank: The rank of this process, in `[0, world)`, to train on several. Default: 0.
            world: Number of ranks. Default: 1.

        Raises:
            TypeError: `split` is not a split or mix, or `strategy` not a strategy, name or path.
            ValueError: An invalid option, epoch or rank, an unknown strategy, or a strategy with
                score columns for a mix. During iteration: a row is longer than `batch_tokens`.
            VocabularyError: A lexicon or score column of the strategy is missing or damaged, or was
                made with another tokenizer.
        """
        check_split(split)
        self._split = split
        self._strategy = strategy_for(split, strategy)
        self._weights = table_of_weights(weights, self._strategy)
        self._options = batch_options(
            self._strategy,
            batch_size=batch_size,
            batch_tokens=batch_tokens,
            flat=flat,
            multiple_of=multiple_of,
            shuffle=shuffle,
            open_shards=open_shards,
            bucketed=bucketed,
            drop_last=drop_last,
            seed=seed,
        )
        check_size("world", world)
        if not is_integer(rank) or not 0 <= rank < world:
            raise ValueError(f"rank: expected an integer from 0 to {world - 1}, got {rank!r}")
        self._rank = rank
        self._world = world
        self._cursor = Cursor(EpochOrder(split, self._options), epoch)

    @property
    def epoch(self) -> int:
        """The current epoch. Setting it moves to the first batch of that epoch."""
        return self._cursor.epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self._cursor.set_epoch(epoch)

    def __len__(self) -> int:
        """Return the number of batches of this epoch, including those before a resume.

        With `batch_tokens`, this reads the length of every row, and downloads all shards of a
        remote split. With `batch_tokens` and `shuffle="shards"`, it is an estimate.
        """
        return self._cursor.steps(self._world)

    def __iter__(self) -> Iterator[Batch]:
        self._cursor.rewind()

        return mask_batches(
            self._split,
            self._strategy,
            self._cursor,
            rank=self._rank,
            world=self._world,
            weights=self._weights,
        )

    def __repr__(self) -> str:
        state = self._cursor.state_dict()

        return (
            f"Batches({self._options.describe_size()} each from {self._split!r}; "
            f"epoch {state['epoch']}, {state['batch']:,} given)"
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the data, to resume here or in another process."""
        return self._cursor.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume at a state, on any number of ranks. After the end of an epoch, resume at the next.

        Raises:
            ValueError: The state is damaged, or belongs to other rows or options, so rows would be
                repeated or lost.
        """
        self._cursor.load_state_dict(state)
