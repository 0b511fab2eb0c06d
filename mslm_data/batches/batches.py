"""Iterate over masked batches of a built folder, as NumPy arrays, in any trainer.

shards = md.load("shards/ncbi")
for batch in md.Batches(shards["train"], md.strategy("joint"), batch_size=32): ...
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from mslm_data.batches.batch_options import OPEN_SHARDS, BatchOptions
from mslm_data.batches.collate import Batch
from mslm_data.batches.masked import check_split, mask_batches, strategy_for
from mslm_data.batches.order import Cursor, EpochOrder
from mslm_data.mask.strategy import Strategy
from mslm_data.shard.split import Rows


class Batches:
    """The masked batches of an epoch, each a dict of arrays; iterate again for the next epoch.

    Each epoch has its own order and masks. After `load_state_dict`, the next iteration resumes at
    the state. A batch depends only on the rows, the strategy, the options below, the epoch, and its
    number within the epoch. `MaskedDataset.loader` with the same options has the same batches and
    states.

    For masking rates that follow training, the step is the number of batches so far, over all
    epochs, and `EpochOrder.tokens_before` counts the tokens.

    `mslm_data.batches.collate.Batch` describes the arrays and their shapes.
    """

    def __init__(  # noqa: D417 - the options are explained once, in BatchOptions
        self,
        split: Rows,
        strategy: Strategy | str | Path,
        *,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        row_tokens: int | None = None,
        flat: bool = False,
        seed: int = 0,
        epoch: int = 0,
        shuffle: bool | Literal["shards"] = True,
        open_shards: int = OPEN_SHARDS,
        bucketed: bool = False,
        drop_last: bool = False,
        multiple_of: int = 1,
    ) -> None:
        """Configure the batches. No row is read before the iteration.

        `mslm_data.batches.batch_options.BatchOptions` describes the options not listed here.

        Args:
            split: A split of a loaded folder, `md.load(folder)["train"]`, or a mix, `md.mix(...)`.
            strategy: `md.strategy(...)`, `shards.strategy(...)`, or the name of a strategy, for its
                default options.
            seed: Seed of the order and the masks, in `[0, 2**63)`. Default: 0.
            epoch: First epoch, in `[0, 2**63)`. Default: 0.

        Raises:
            TypeError: `split` is not a split or mix, or `strategy` not a strategy, name or path.
            ValueError: An invalid option or epoch, an unknown strategy, or a strategy with score
                columns for a mix. During iteration: a row is longer than `row_tokens` or
                `batch_tokens`.
            VocabularyError: A lexicon or score column of the strategy is missing or damaged, or was
                made with another tokenizer.
        """
        check_split(split)
        self._split = split
        self._strategy = strategy_for(split, strategy)
        self._options = BatchOptions(
            batch_size=batch_size,
            batch_tokens=batch_tokens,
            row_tokens=row_tokens,
            flat=flat,
            multiple_of=multiple_of,
            shuffle=shuffle,
            open_shards=open_shards,
            bucketed=bucketed,
            drop_last=drop_last,
            seed=seed,
        )
        self._order = EpochOrder.from_options(split, self._options)
        self._cursor = Cursor(self._order, epoch)

    @property
    def epoch(self) -> int:
        """The current epoch. Setting it moves to the first batch of that epoch."""
        return self._cursor.epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self._cursor.set_epoch(epoch)

    def __len__(self) -> int:
        """Return the number of batches of this epoch, including those before a resume.

        With `batch_tokens` or `row_tokens` this reads the length of every row. All shards of a
        remote split are downloaded.
        """
        return self._cursor.steps()

    def __iter__(self) -> Iterator[Batch]:
        self._cursor.rewind()

        return self._pass()

    def _pass(self) -> Iterator[Batch]:
        """Yield batches from the cursor's position to the end of its epoch."""
        steps = self._cursor.begin()
        batches = mask_batches(
            self._split,
            self._strategy,
            steps,
            order=self._order,
            begin=self._cursor.place,
            seed=self._options.seed,
            mask_epoch=self._cursor.epoch,
        )
        for masked, places, packs in batches:
            self._cursor.count()
            yield masked.batch(places, packs=packs, options=self._options)

    def __repr__(self) -> str:
        place = self._cursor.state_dict()

        size = self._options.describe_size()

        return (
            f"Batches({self._cursor.steps_in_words()} of {size} from {self._split!r}; "
            f"epoch {place['epoch']}, {place['steps']:,} given)"
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the data, to resume here or in another process."""
        return self._cursor.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume at a state. `batch_size` may differ, unless batches are bucketed or by tokens.

        Raises:
            ValueError: The state is damaged, or belongs to other rows or options, so rows would be
                repeated or lost.
        """
        self._cursor.load_state_dict(state)
