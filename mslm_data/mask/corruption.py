"""Corruption: replaces masked tokens in the input.

Abaho et al. 2024 replace all masked tokens by `[MASK]`. Devlin et al. 2019 replace 80 % by `[MASK]`
and 10 % by random ids, and keep 10 % unchanged. Raffel et al. 2020 replace each run of masked
tokens by a sentinel; see `sentinels`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Meta

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
from mslm_data.lexicon.store import Lexicon, open_lexicon
from mslm_data.mask.artefacts import LexiconFile
from mslm_data.mask.ingredient import Ingredient
from mslm_data.mask.plan import MaskPlan
from mslm_data.mask.rng import ACTIONS, RANDOM_IDS, RowRng
from mslm_data.mask.sentinels import put_sentinels


class Corruption(Ingredient, frozen=True):
    """Replacement of masked tokens.

    Raises:
        ValueError: `shares` is neither `mask`, `sentinels` nor three percentages that sum to 100.
    """

    shares: Annotated[
        str,
        Meta(
            description="`mask` replaces all masked tokens by `[MASK]`. Three numbers are the "
            "percentages of `[MASK]`, random ids and unchanged tokens, such as `80-10-10`. "
            "`sentinels` replaces each run of masked tokens by a sentinel, for an encoder-decoder."
        ),
    ] = "mask"
    by: Annotated[
        Literal["token", "word", "unit", "run"],
        Meta(
            description="Tokens that get the same action: each `token` alone, all of a `word`, all "
            "of a masked `unit`, or all of a `run` of masked tokens. Random ids are still drawn "
            "for each token."
        ),
    ] = "token"
    random_ids: Annotated[
        Literal["ordinary", "vocabulary"],
        Meta(
            description="Source of random ids: `ordinary` ids, which are not special, or the whole "
            "`vocabulary`."
        ),
    ] = "ordinary"
    unigrams: Annotated[
        LexiconFile,
        Meta(
            description="File of a lexicon of single tokens with their counts, from which random "
            "ids are drawn in proportion. Default: all ids are equally likely."
        ),
    ] = ""

    def __post_init__(self) -> None:
        _percent(self.shares)

    @property
    def is_sentinels(self) -> bool:
        """Whether sentinels replace runs of masked tokens. Other fields then have no effect."""
        return self.shares == "sentinels"

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
        """The columns that the corruption reads; see `Strategy.needs`."""
        return frozenset({"word_ids"}) if self.by == "word" and self.mask < 1 else frozenset()


@lru_cache(maxsize=64)
def _percent(shares: str) -> tuple[int, int, int]:
    """Parse the percentages of `[MASK]`, random ids and unchanged tokens."""
    if shares == "mask":
        return 100, 0, 0
    if shares == "sentinels":
        return 0, 0, 0

    match = re.fullmatch(r"(\d+)-(\d+)-(\d+)", shares)
    if match is not None:
        mask, random, unchanged = map(int, match.groups())
        if mask + random + unchanged == 100:
            return mask, random, unchanged

    raise ValueError(
        "corruption: expected 'mask', 'sentinels' or the percentages of [MASK], random and "
        f"unchanged tokens, such as '80-10-10', got '{shares}'"
    )


def corrupt(
    examples: Examples, plan: MaskPlan, corruption: Corruption, *, seed: int, epoch: int
) -> Ragged:
    """Return `input_ids` with the planned tokens replaced. All other tokens are unchanged.

    With sentinels, rows become shorter: these are the inputs of the encoder.

    Args:
        examples: N rows of T tokens.
        plan: The plan of these rows.
        corruption: Replacement of masked tokens.
        seed: In `[0, 2**63)`. May differ from the plan's.
        epoch: In `[0, 2**63)`. May differ from the plan's.

    Raises:
        ValueError: The plan belongs to other rows, tokens are to be replaced by a mask token that
            the tokenizer does not have, or all ids are special.
        CallError: The tokenizer has fewer sentinels than a row has masked runs.
        VocabularyError: The lexicon `unigrams` is missing, damaged, made with another tokenizer, or
            has entries of several tokens.
    """
    _check(examples, plan, corruption)
    kinds = plan.kinds.values
    if corruption.is_sentinels:
        return put_sentinels(examples, kinds).inputs

    ids = examples.input_ids.values
    offsets = examples.input_ids.offsets

    out = np.empty_like(ids)
    if corruption.mask == 1:
        put_mask(kinds, ids, examples.ids.mask, out)
        return Ragged(out, offsets)

    # Draw an action for each masked token. The first token's action then spreads to the rest of
    # its word, unit or run.
    rng = RowRng(keys=examples.keys, seed=seed, epoch=epoch)
    actions = np.empty(len(ids), np.uint8)
    shares = (corruption.mask, corruption.random)
    choose_actions(offsets, kinds, *shares, rng.streams(ACTIONS), actions)
    if corruption.by != "token":
        spread_actions(offsets, kinds, _joins(examples, plan, corruption.by), actions)
    put_mask((actions == MASK).view(np.uint8), ids, examples.ids.mask, out)

    # Draw random ids from a stream of their own, so actions do not depend on the vocabulary.
    streams = rng.streams(RANDOM_IDS)
    size = examples.ids.size
    if corruption.unigrams:
        path = Path(corruption.unigrams)
        known, sums = _unigrams(open_lexicon(path), corruption.unigrams, size)
        put_unigram(offsets, actions, known, sums, streams, out)
    else:
        never = _never_drawn(examples.ids, corruption)
        put_random(offsets, actions, size, never, streams, out)
    return Ragged(out, offsets)


def _check(examples: Examples, plan: MaskPlan, corruption: Corruption) -> None:
    """Check that the plan fits the rows, and that the tokenizer has a mask token if it is used."""
    same_tokens = len(plan.kinds.values) == len(examples.input_ids.values)
    if not same_tokens or len(plan.kinds) != len(examples):
        raise ValueError(
            f"plan: expected a plan of {len(examples)} rows, got {len(plan.kinds)}; pass the rows "
            "of the plan"
        )
    if examples.ids.mask < 0 and corruption.mask > 0 and plan.kinds.values.any():
        raise ValueError("corrupt: the tokenizer has no mask token; `plan` works without one")


def _joins(examples: Examples, plan: MaskPlan, by: str) -> Array:
    """Return the tokens that get the action of the masked token before them, uint8 `[T]`."""
    if by == "run":
        return np.ones(len(plan.kinds.values), np.uint8)

    if by == "word":
        words = examples.word_ids.values
        joins = np.zeros(len(words), np.uint8)
        joins[1:] = words[1:] == words[:-1]
        return joins

    if plan.continues_unit is None:
        raise ValueError(
            "plan: it has no `continues_unit`; make the plan with the strategy that corrupts it"
        )
    return plan.continues_unit.values


def _never_drawn(ids: TokenIds, corruption: Corruption) -> npt.NDArray[np.int64]:
    """Return the ids excluded from random ids, ascending.

    Raises:
        ValueError: All ids are excluded.
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
    """Return the tokens of a lexicon, int32 `[E]`, and their cumulative counts, int64 `[E]`."""
    if lexicon.about["size"] != size:
        raise VocabularyError(
            f"{path}: expected a lexicon made with a tokenizer of {size} ids, got "
            f"{lexicon.about['size']} ids"
        )

    counts = lexicon.scores
    whole_numbers = np.all(counts >= 0) and np.all(counts == np.floor(counts))
    single_tokens = np.all(lexicon.tokens.lengths == 1)
    # Sums of integers below 2**53 are exact in float64.
    if not whole_numbers or not single_tokens or not 1 <= counts.sum() < 2**53:
        raise VocabularyError(f"{path}: expected single tokens with their counts as scores")
    return lexicon.tokens.values, np.cumsum(counts.astype(np.int64))
