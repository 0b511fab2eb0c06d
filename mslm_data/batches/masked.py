"""Masks rows many batches at a time, and hands them out a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mslm_data.batches.ahead import reading
from mslm_data.batches.batch_options import BatchOptions, RowNumbers
from mslm_data.batches.collate import PADDED, Batch, collate
from mslm_data.batches.order import EpochOrder, Place, Step
from mslm_data.data.examples import Examples, concatenate
from mslm_data.data.ragged import Ragged
from mslm_data.lexicon.artefacts import ArtefactKind, find_artefact
from mslm_data.mask.artefacts import iter_artefacts, with_artefacts
from mslm_data.mask.strategy import Strategy
from mslm_data.mask.table import strategy as make_strategy
from mslm_data.shard.row_protocol import Rows

BATCHES_AT_ONCE = 64
"""Maximum number of batches that one call masks."""
TOKENS_AT_ONCE = 1 << 17
"""Tokens that one call masks: fewer spend their time in Python, more do not fit a core's cache."""
_GROWTH = 8
"""Factor by which the number of batches per call grows."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Masked:
    """N rows with their masks.

    Attributes:
        examples: The rows before masking.
        kinds: uint8 `MaskKind`, one per token.
        corrupted: The ids that the model sees.
        rates: float32 `[N]`: the rate of each row; None where no row has one. See `MaskPlan`.
    """

    examples: Examples
    kinds: Ragged
    corrupted: Ragged
    rates: npt.NDArray[np.float32] | None = None

    @classmethod
    def by_strategy(
        cls,
        examples: Examples,
        strategy: Strategy,
        *,
        seed: int,
        epoch: int,
        step: int | None = None,
        tokens: int | None = None,
    ) -> Masked:
        """Mask rows; each row's mask is a pure function of its key and the arguments.

        Raises:
            ValueError: What `Strategy.plan` and `Strategy.corrupt` refuse.
        """
        plan = strategy.plan(examples, seed=seed, epoch=epoch, step=step, tokens=tokens)
        corrupted = strategy.corrupt(examples, plan, seed=seed, epoch=epoch)

        return cls(examples=examples, kinds=plan.kinds, corrupted=corrupted, rates=plan.rates)

    @classmethod
    def concatenate(cls, parts: Sequence[Masked]) -> Masked:
        """Put the rows of one or more parts one after the other; rows without a rate get 1."""
        has_rates = any(part.rates is not None for part in parts)
        rates = [
            np.ones(len(part), np.float32) if part.rates is None else part.rates for part in parts
        ]
        return cls(
            examples=concatenate([part.examples for part in parts]),
            kinds=Ragged.concatenate([part.kinds for part in parts]),
            corrupted=Ragged.concatenate([part.corrupted for part in parts]),
            rates=np.concatenate(rates) if has_rates else None,
        )

    def __len__(self) -> int:
        return len(self.examples)

    def batch(
        self,
        places: npt.NDArray[np.int64] | None = None,
        *,
        packs: npt.NDArray[np.int64] | None = None,
        options: BatchOptions = PADDED,
    ) -> Batch:
        """Return a batch of the rows at `places`, `[R]`; None takes all. See `collate`."""
        return collate(
            self.examples,
            self.kinds,
            self.corrupted,
            places,
            rates=self.rates,
            packs=packs,
            options=options,
        )


class PlacedBatch(NamedTuple):
    """A batch among rows that were masked together.

    Attributes:
        masked: Rows that hold it.
        places: int64 `[R]`, its own rows among them.
        packs: int64 `[B + 1]`, where each packed row begins among these; None where none is packed.
    """

    masked: Masked
    places: npt.NDArray[np.int64]
    packs: npt.NDArray[np.int64] | None


def mask_batches(
    split: Rows,
    strategy: Strategy,
    steps: Iterator[Step],
    *,
    order: EpochOrder,
    begin: Place,
    seed: int,
    mask_epoch: int,
) -> Iterator[PlacedBatch]:
    """Gather and mask the rows of many batches by one call.

    A row's mask depends on no other row, so it is the same however many batches are masked
    together.

    Args:
        split: Whose rows.
        strategy: What masks.
        steps: The batches, as `EpochOrder.batches` gives them.
        order: What gives them.
        begin: Where they begin, which is in the middle of an epoch where training goes on.
        seed: Seeds the masks, in `[0, 2**63)`.
        mask_epoch: The epoch of the masks, in `[0, 2**63)`.

    Raises:
        FetchError: A remote shard is out of reach.
        ShardError: A shard is missing or damaged, or has changed since it was opened; files are
            looked at before the first batch and after the last.
    """
    split.check()
    at_once = _batches_at_once(split, strategy, order.options)
    place = begin
    with reading(split, order, begin.epoch) as shards:
        # While shards are being fetched, the first batch waits for its own shards only.
        count = 1 if shards is not None else at_once
        while group := list(islice(steps, count)):
            count = min(_GROWTH * count, at_once)
            rows = np.concatenate([step.batch.rows for step in group])
            if shards is not None:
                shards.reach(place, group[-1].after)
            examples = gather_rows(split, rows)
            if shards is not None:
                shards.fetch_next()
            place = group[-1].after

            masked = Masked.by_strategy(
                examples,
                strategy,
                seed=seed,
                epoch=mask_epoch,
                step=group[0].number,
                tokens=group[0].tokens,
            )
            places = np.arange(len(rows))
            stop = 0
            for step in group:
                start = stop
                stop += len(step.batch.rows)
                yield PlacedBatch(masked, places[start:stop], step.batch.packs)
    split.check()


def gather_rows(split: Rows, rows: RowNumbers) -> Examples:
    """Return rows of a split: views of a shard if they are adjacent, otherwise a copy."""
    side_by_side = len(rows) > 1 and rows[-1] - rows[0] == len(rows) - 1
    if side_by_side and np.all(np.diff(rows) == 1):
        return split.examples(int(rows[0]), int(rows[-1]) + 1)

    return split.take(rows)


def check_split(split: object) -> None:
    """Check that an object is a split or a mix.

    Raises:
        TypeError: It is something else, such as a folder, a path, or rows of a split.
    """
    if isinstance(split, Examples):
        raise TypeError(
            "split: expected a split, got rows, as `take` and `examples` return; mask rows by "
            "strategy.plan(rows), or train on a part of a split by split.subset(documents=...)"
        )
    if not isinstance(split, Rows):
        raise TypeError(
            "split: expected a split, such as md.load(folder)['train'], or md.mix(...), "
            f"got {type(split).__name__}"
        )


def as_strategy(strategy: Strategy | str | Path) -> Strategy:
    """Return a strategy, made first if only its name or its file is given.

    Raises:
        TypeError: Neither a strategy nor a name nor a path.
        ValueError: An unknown name, or a file that makes none.
    """
    if isinstance(strategy, str | Path):
        return make_strategy(strategy)
    if not isinstance(strategy, Strategy):
        raise TypeError(
            "strategy: expected md.strategy(...), or the name of a strategy, got "
            f"{type(strategy).__name__}"
        )

    return strategy


def strategy_for(split: Rows, strategy: Strategy | str | Path) -> Strategy:
    """Return a strategy whose lexicons and score columns are those of a split's folder.

    They are looked for as `Shards.strategy` looks for them. Rows of several folders have no folder
    of their own, so names of lexicons are paths there. A score column knows the rows of one folder
    by their keys, and a row that comes again in a mix has another key.

    Raises:
        TypeError: As from `as_strategy`.
        ValueError: The same, or the strategy reads score columns and the rows are of several
            folders.
        VocabularyError: A lexicon or score column is missing, damaged, or of another tokenizer.
    """
    made = as_strategy(strategy)
    folder = split.place
    if folder is None:
        if "scores" in made.needs:
            raise ValueError(
                "strategy: expected one without score columns for a mix of folders, got one that "
                "reads them; they know the rows of one folder: train on its split alone, or take "
                "another strategy"
            )
        return made
    if not any(iter_artefacts(made)):
        return made

    (part,) = split.splits
    tokenizer = part.split.manifest.tokenizer["sha256"]

    def find(name: str, kind: ArtefactKind) -> str:
        return str(find_artefact(folder, name, kind, tokenizer=tokenizer))

    return with_artefacts(made, find)


def _batches_at_once(split: Rows, strategy: Strategy, options: BatchOptions) -> int:
    """Return how many batches have about `TOKENS_AT_ONCE` tokens, to be masked by one call."""
    if strategy.follows_training:
        return 1

    tokens = options.tokens
    if tokens is None:
        tokens = (options.batch_size or 1) * split.tokens // max(len(split), 1)
    return max(1, min(BATCHES_AT_ONCE, TOKENS_AT_ONCE // max(tokens, 1)))
