"""Mask the rows of many batches by one call, and yield them a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from mslm_data.batches.batch_options import BatchOptions
from mslm_data.batches.collate import Batch, Masked
from mslm_data.batches.mix import with_rounds
from mslm_data.batches.order import Cursor
from mslm_data.data.examples import Examples
from mslm_data.lexicon.artefacts import ArtefactKind, find_artefact
from mslm_data.mask.artefacts import iter_artefacts, with_artefacts
from mslm_data.mask.strategy import Strategy
from mslm_data.mask.table import strategy as make_strategy
from mslm_data.shard.split import Rows

BATCHES_AT_ONCE = 64
"""Maximum number of batches that one call masks."""
TOKENS_AT_ONCE = 1 << 17
"""Approximate number of tokens that one call masks.

With fewer, the overhead of Python dominates; with more, the arrays do not fit into the cache of a
core.
"""


def mask_batches(
    split: Rows,
    strategy: Strategy,
    cursor: Cursor,
    *,
    rank: int,
    world: int,
    static: bool = False,
) -> Iterator[Batch]:
    """Yield the masked batches of a rank, from the cursor's position to the end of its epoch.

    The rows of many batches are read and masked by one call. The mask of a row depends on no other
    row, so the number of batches per call does not matter.

    Args:
        split: The split or mix.
        strategy: The masking strategy.
        cursor: The position, moved past each batch that is yielded. The seed of its options is that
            of the masks too.
        rank: The rank, in `[0, world)`.
        world: Number of ranks.
        static: Whether each row keeps its mask of epoch 0. Default: False.

    Raises:
        FetchError: A remote shard is unreachable.
        ShardError: A shard is missing or damaged.
        ValueError: A row is longer than `batch_tokens`.
    """
    steps = cursor.begin(rank=rank, world=world)
    options = cursor.order.options
    mask_epoch = 0 if static else cursor.epoch

    at_once = _batches_at_once(split, strategy, options)
    while group := list(islice(steps, at_once)):
        examples = split.take(np.concatenate([step.rows for step in group]))
        rounds = [step.rounds for step in group if step.rounds is not None]
        if rounds:
            examples = with_rounds(examples, np.concatenate(rounds))

        # `at_once` is 1 for rates that follow training, so a group has one step number.
        masked = Masked.by_strategy(
            examples,
            strategy,
            seed=options.seed,
            epoch=mask_epoch,
            step=group[0].number,
            tokens=group[0].tokens,
        )
        # Yield the group batch by batch.
        places = np.arange(len(examples))
        stop = 0
        for step in group:
            start = stop
            stop += len(step.rows)
            cursor.count()
            yield masked.batch(places[start:stop], options=options)


def check_split(split: object) -> None:
    """Check that an object is a split or a mix.

    Raises:
        TypeError: Another object, such as a folder, a path, or rows.
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
    """Return a strategy from a strategy, its name, or the path of its file.

    Raises:
        TypeError: Another object.
        ValueError: An unknown name, or an invalid file.
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
    """Return a strategy with the lexicons and score columns of a split's folder.

    They are found as by `Shards.strategy`. A mix has no folder, so lexicons must be given as paths.

    Raises:
        TypeError: As from `as_strategy`.
        ValueError: As from `as_strategy`, or the strategy reads score columns and the rows are a
            mix.
        VocabularyError: A lexicon or score column is missing or damaged, or was made with another
            tokenizer.
    """
    made = as_strategy(strategy)
    folder = split.place
    if folder is None:
        # A score column finds rows by key, and a mix changes the keys of repeated rows.
        if "scores" in made.needs:
            raise ValueError(
                "strategy: expected one without score columns for a mix of folders, as a score "
                "column belongs to one folder; train on a single split, or use another strategy"
            )
        return made
    if not any(iter_artefacts(made)):
        return made

    (part,) = split.splits
    tokenizer = part.source.manifest.tokenizer.sha256

    def find(name: str, kind: ArtefactKind) -> str:
        return str(find_artefact(folder, name, kind, tokenizer=tokenizer))

    return with_artefacts(made, find)


def _batches_at_once(split: Rows, strategy: Strategy, options: BatchOptions) -> int:
    """Return the number of batches per call, with about `TOKENS_AT_ONCE` tokens together."""
    # A rate that follows training differs from batch to batch.
    if strategy.follows_training:
        return 1

    tokens = options.batch_tokens
    if tokens is None:
        tokens = (options.batch_size or 1) * split.tokens // max(len(split), 1)
    return max(1, min(BATCHES_AT_ONCE, TOKENS_AT_ONCE // max(tokens, 1)))
