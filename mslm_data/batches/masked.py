"""Mask the rows of many batches by one call, and yield them a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mslm_data.batches.batch_options import BatchOptions
from mslm_data.batches.collate import Batch, Masked
from mslm_data.batches.mix import with_rounds
from mslm_data.batches.order import Cursor
from mslm_data.data.examples import Examples
from mslm_data.lexicon.artefacts import ArtefactKind, find_artefact
from mslm_data.mask.artefacts import iter_artefacts, with_artefacts
from mslm_data.mask.plan import MaskKind, Objective
from mslm_data.mask.sentinels import MARGIN, check_sentinels
from mslm_data.mask.strategy import Curriculum, Strategy
from mslm_data.mask.table import strategy as make_strategy
from mslm_data.shard.split import Rows

_ROWS_LOOKED_AT = 1 << 16
_ROWS_TRIED = 1024
_EPOCHS_TRIED = 4
_SHARE_OF_SENTINELS = 0.8
"""The longest rows among the first, whose masks of some epochs are tried before training, and the
share of the sentinels that they may need: of 4,096 tries the maximum is about 3.6 standard
deviations above the mean; the rest of 100 sentinels is further than 6."""

TokenWeights: TypeAlias = tuple[float, float]
"""`(w_elm, w_blm)`, the loss weights of terms and of other tokens."""

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
    weights: npt.NDArray[np.float32] | None = None,
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
        weights: float32 `[P, 3]`, from `table_of_weights`. Default: no loss weights.

    Raises:
        FetchError: A remote shard is unreachable.
        ShardError: A shard is missing or damaged.
        ValueError: A row is longer than `batch_tokens`.
        CallError: Rows may need more sentinels than the tokenizer has.
    """
    _check_sentinels(split, strategy, cursor.order.options.seed)
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
            weights=weights,
        )
        # Yield the group batch by batch.
        places = np.arange(len(examples))
        stop = 0
        for step in group:
            start = stop
            stop += len(step.rows)
            cursor.count()
            yield masked.batch(places[start:stop], options=options)


def batch_options(strategy: Strategy, **options: Any) -> BatchOptions:
    """Return the options of batches of a strategy.

    Raises:
        ValueError: See `BatchOptions`, or flat rows with sentinels.
    """
    has_sentinels = Objective.SENTINELS in strategy.objectives
    if has_sentinels and options["flat"]:
        raise ValueError(
            "flat: expected False with sentinels, since encoder-decoders do not tell flat rows "
            "apart, got True"
        )
    return BatchOptions(**options, margin=MARGIN if has_sentinels else 0)


def _check_sentinels(split: Rows, strategy: Strategy, seed: int) -> None:
    """Check that the rows with the most tokens need only a share of the sentinels.

    Otherwise training would end at the first row with too many masked runs, days after its start.

    Raises:
        CallError: They need more.
    """
    parts = strategy.parts if isinstance(strategy, Curriculum) else (strategy,)
    for part in parts:
        if part.objectives != {Objective.SENTINELS}:
            continue
        numbers = np.arange(min(len(split), _ROWS_LOOKED_AT))
        longest = np.argsort(-split.lengths(numbers).astype(np.int64), kind="stable")
        examples = split.take(numbers[longest[:_ROWS_TRIED]])
        for epoch in range(_EPOCHS_TRIED):
            plan = part.plan(examples, seed=seed, epoch=epoch, step=0, tokens=0)
            check_sentinels(examples, plan.kinds.values, share=_SHARE_OF_SENTINELS)


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


def table_of_weights(
    weights: TokenWeights | Sequence[TokenWeights] | None, strategy: Strategy
) -> npt.NDArray[np.float32] | None:
    """Return the loss weight of each `MaskKind`, for each part of a strategy, float32 `[P, 3]`.

    Args:
        weights: `(w_elm, w_blm)`, or one such pair for each part of a curriculum; None for none.
        strategy: The strategy.

    Raises:
        ValueError: There are other numbers than two, or than one pair for each part; or a weight is
            negative or not finite.
    """
    if weights is None:
        return None

    parts = len(strategy.parts) if isinstance(strategy, Curriculum) else 1
    try:
        pairs = np.array(weights, np.float32)
    except (TypeError, ValueError):  # of words, or with rows of different lengths
        pairs = np.zeros(0, np.float32)
    if pairs.shape not in ((2,), (parts, 2)):
        several = f", or {parts} such pairs, one for each part" if parts > 1 else ""
        raise ValueError(f"weights: expected (w_elm, w_blm){several}, got {weights!r}")
    if not (np.isfinite(pairs) & (pairs >= 0)).all():
        raise ValueError(f"weights: expected numbers of at least 0, got {weights!r}")

    table = np.zeros((parts, len(MaskKind)), np.float32)
    table[:, [MaskKind.ENTITY, MaskKind.BASE]] = pairs
    return table


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
