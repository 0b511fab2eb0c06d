"""Corruption: replaces masked tokens in the input.

Abaho et al. 2024 replace all of them by `[MASK]`. Devlin et al. 2019 keep a tenth and replace a
tenth by random ids.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt

from mslm_data.data.examples import Examples, TokenIds
from mslm_data.data.ragged import Array, Ragged
from mslm_data.errors import VocabularyError
from mslm_data.kernels.corrupt import (
    MASK,
    choose_actions,
    put_mask,
    put_random,
    put_unigram,
    spread_actions,
)
from mslm_data.kernels.rng import name_streams
from mslm_data.lexicon.artefacts import LEXICON
from mslm_data.lexicon.store import Lexicon, open_lexicon
from mslm_data.mask.artefacts import artefact
from mslm_data.mask.plan import MaskPlan
from mslm_data.mask.rng import ACTIONS, RANDOM_IDS
from mslm_data.registry import Help


@dataclass(frozen=True, slots=True)
class Corruption:
    """How masked tokens are replaced.

    Raises:
        ValueError: Shares that are neither `mask` nor three percentages that sum to 100.
    """

    shares: Annotated[
        str,
        Help(
            "`mask` replaces all by `[MASK]`. Otherwise the percentages of `[MASK]`, random ids "
            "and unchanged tokens, such as `80-10-10`."
        ),
    ] = "mask"
    by: Annotated[
        Literal["token", "word", "unit", "run"],
        Help(
            "Tokens that are replaced alike: each `token` by itself, those of a `word`, of a "
            "masked `unit`, or of a `run` of masked tokens. Random ids are still drawn for each "
            "token."
        ),
    ] = "token"
    random_ids: Annotated[
        Literal["ordinary", "vocabulary"],
        Help(
            "Random ids come from all ids that are not special (`ordinary`), or from the whole "
            "`vocabulary`."
        ),
    ] = "ordinary"
    unigrams: Annotated[
        str,
        Help(
            "File of a lexicon of single tokens with their counts; random ids are drawn in "
            "proportion to them. Default: all ids are equally likely."
        ),
    ] = artefact(LEXICON)

    def __post_init__(self) -> None:
        _percent(self.shares)

    @property
    def mask(self) -> float:
        """Share of masked tokens that become `[MASK]`, in `[0, 1]`."""
        return _percent(self.shares)[0] / 100

    @property
    def random(self) -> float:
        """Share of masked tokens that become random ids, in `[0, 1]`."""
        return _percent(self.shares)[1] / 100

    @property
    def needs(self) -> frozenset[str]:
        """The columns that rows must bring; see `Strategy.needs`."""
        return frozenset({"word_ids"}) if self.by == "word" and self.mask < 1 else frozenset()


@lru_cache(maxsize=64)
def _percent(shares: str) -> tuple[int, int, int]:
    """Return the percentages of `[MASK]`, random ids and unchanged tokens."""
    if shares == "mask":
        return 100, 0, 0

    match = re.fullmatch(r"(\d+)-(\d+)-(\d+)", shares)
    if match is not None:
        mask, random, kept = map(int, match.groups())
        if mask + random + kept == 100:
            return mask, random, kept

    raise ValueError(
        "corruption: expected 'mask', or percent of [MASK], random and kept such as '80-10-10', "
        f"got '{shares}'"
    )


def corrupt(
    examples: Examples, plan: MaskPlan, corruption: Corruption, *, seed: int, epoch: int
) -> Ragged:
    """Return `input_ids` with the planned tokens replaced; all others are unchanged.

    Args:
        examples: N rows of T tokens.
        plan: The plan of these rows.
        corruption: How planned tokens are replaced.
        seed: In `[0, 2**63)`; need not be the plan's.
        epoch: In `[0, 2**63)`; need not be the plan's.

    Raises:
        ValueError: The plan is of other rows, the tokenizer has no mask token, or all ids are
            special.
        VocabularyError: The lexicon `unigrams` is missing, damaged, has entries of several tokens,
            or was made with another tokenizer.
    """
    _check(examples, plan)
    kinds = plan.kinds.values
    ids = examples.input_ids.values
    offsets = examples.input_ids.offsets

    out = np.empty_like(ids)
    if corruption.mask == 1:
        put_mask(kinds, ids, examples.ids.mask, out)
        return Ragged(out, offsets)

    # Draw an action for each masked token; a word, unit or run then takes that of its first token.
    streams = np.empty(len(examples), np.uint64)
    actions = np.empty(len(ids), np.uint8)
    name_streams(examples.keys, seed, epoch, ACTIONS, streams)
    choose_actions(offsets, kinds, corruption.mask, corruption.random, streams, actions)
    if corruption.by != "token":
        spread_actions(offsets, kinds, _joins(examples, plan, corruption.by), actions)
    put_mask((actions == MASK).view(np.uint8), ids, examples.ids.mask, out)

    name_streams(examples.keys, seed, epoch, RANDOM_IDS, streams)
    size = examples.ids.size
    if corruption.unigrams:
        path = Path(corruption.unigrams)
        known, sums = _unigrams(open_lexicon(path), corruption.unigrams, size)
        put_unigram(offsets, actions, known, sums, streams, out)
    else:
        never = _never_drawn(examples.ids, corruption)
        put_random(offsets, actions, size, never, streams, out)
    return Ragged(out, offsets)


def _check(examples: Examples, plan: MaskPlan) -> None:
    """Check that the plan fits the rows and that there is a mask token."""
    same_tokens = len(plan.kinds.values) == len(examples.input_ids.values)
    if not same_tokens or len(plan.kinds) != len(examples):
        raise ValueError(
            f"plan: expected a plan of {len(examples)} rows, got {len(plan.kinds)}; pass the rows "
            "that it was made from"
        )
    if examples.ids.mask < 0:
        raise ValueError("corrupt: the tokenizer has no mask token; `plan` works without one")


def _joins(examples: Examples, plan: MaskPlan, by: str) -> Array:
    """Return which tokens are replaced like a masked token before them: uint8 `[T]`."""
    if by == "run":
        return np.ones(len(plan.kinds.values), np.uint8)

    if by == "word":
        words = examples.word_ids.values
        joins = np.zeros(len(words), np.uint8)
        joins[1:] = words[1:] == words[:-1]
        return joins

    if plan.continues_unit is None:
        raise ValueError(
            "plan: it has no `continues_unit`; make it with the strategy that corrupts"
        )
    return plan.continues_unit.values


def _never_drawn(ids: TokenIds, corruption: Corruption) -> npt.NDArray[np.int64]:
    """Return the ids that are never drawn as random ids, ascending.

    Raises:
        ValueError: No other id would be left.
    """
    if corruption.random_ids == "vocabulary":
        return np.empty(0, np.int64)

    special = _special(ids)
    if len(special) >= ids.size:
        raise ValueError(
            f"corrupt: all {ids.size} ids of the tokenizer are special, so none can be random"
        )
    return special


@lru_cache(maxsize=16)
def _special(ids: TokenIds) -> npt.NDArray[np.int64]:
    """Return the distinct special ids, ascending."""
    named = (*ids.special, ids.mask, ids.pad, ids.unk)
    return np.array(sorted({id_ for id_ in named if 0 <= id_ < ids.size}), np.int64)


@lru_cache(maxsize=4)
def _unigrams(lexicon: Lexicon, path: str, size: int) -> tuple[Array, Array]:
    """Return a lexicon's single tokens, int32 `[E]`, and their summed counts, int64 `[E]`."""
    if lexicon.about["size"] != size:
        raise VocabularyError(
            f"{path}: expected a lexicon of {size} ids, got one of {lexicon.about['size']}"
        )

    counts = lexicon.scores
    whole_numbers = np.all(counts >= 0) and np.all(counts == np.floor(counts))
    single_tokens = np.all(lexicon.tokens.lengths == 1)
    # Sums of whole numbers below 2**53 are exact in float64.
    if not whole_numbers or not single_tokens or not 1 <= counts.sum() < 2**53:
        raise VocabularyError(f"{path}: expected single tokens with their counts as scores")
    return lexicon.tokens.values, np.cumsum(counts.astype(np.int64))
