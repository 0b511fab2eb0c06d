"""What stands in the place of the tokens that are to be predicted.

Abaho et al. 2024 replace all of them by `[MASK]`; Devlin et al. 2019 leave a tenth as it is and make a tenth random.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

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
from mslm_data.kernels.draws import name_streams
from mslm_data.lexicon.store import Lexicon, open_lexicon
from mslm_data.mask.draws import ACTIONS, RANDOM_IDS
from mslm_data.mask.plan import MaskPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """How hidden tokens are replaced.

    Attributes:
        mask: Share of `[MASK]`, in `[0, 1]`.
        random: Share of random ids; what is left of 1 stays as it is.
        by: What shares one fate: each `token`, the tokens of a `word`, of a hidden `unit`, or of a `run` of hidden
            tokens (random ids are drawn for each token all the same).
        ids: Where random ids are drawn from: `words` is all that are not special, `vocabulary` is all, anything else
            is the file of a lexicon of single tokens with their frequencies.
    """

    mask: float = 1.0
    random: float = 0.0
    by: Literal["token", "word", "unit", "run"] = "token"
    ids: str = "words"


@lru_cache(maxsize=64)
def replacement_of(corruption: str, **options: str) -> Replacement:
    """Return the replacement that a name says: `mask`, or shares in percent of mask, random and kept: `80-10-10`.

    Raises:
        ValueError: Another name, or shares that do not sum to 100.
    """
    shares = (
        [100, 0, 0]
        if corruption == "mask"
        else [int(share) for share in re.findall(r"\d+", corruption)]
    )
    if (corruption != "mask" and not re.fullmatch(r"\d+-\d+-\d+", corruption)) or sum(
        shares
    ) != 100:
        raise ValueError(
            f"corruption: expected 'mask', or percent of [MASK], random and kept such as '80-10-10', got '{corruption}'"
        )
    return replace(Replacement(mask=shares[0] / 100, random=shares[1] / 100), **options)  # type: ignore[arg-type]


def corrupt(
    examples: Examples, plan: MaskPlan, replacement: Replacement, *, seed: int, epoch: int
) -> Ragged:
    """Return `input_ids` with the planned tokens replaced; what is not planned is unchanged.

    Args:
        examples: N rows of T tokens.
        plan: What to replace, made from the same rows.
        replacement: By what.
        seed: Of the plan, or another.
        epoch: Likewise.

    Raises:
        ValueError: A plan of other rows; no mask token; no id that is not special.
        VocabularyError: The lexicon of random ids is missing, damaged, not of single tokens, or of other tokens.
    """
    kinds, ids, offsets = plan.kinds.values, examples.input_ids.values, examples.input_ids.offsets
    if len(kinds) != len(ids) or len(plan.kinds) != len(examples):
        raise ValueError(
            f"plan: expected one of these {len(examples)} rows, got one of {len(plan.kinds)} rows"
        )
    if examples.ids.mask < 0:
        raise ValueError(
            "corrupt: expected a tokenizer with a mask token, got one without; a plan needs none"
        )
    out = np.empty_like(ids)
    if replacement.mask == 1:
        put_mask(kinds, ids, examples.ids.mask, out)
        return Ragged(out, offsets)
    special = np.empty(0, np.int64) if replacement.ids == "vocabulary" else _special(examples.ids)
    if len(special) >= examples.ids.size:
        raise ValueError(
            f"corrupt: expected ids that are not special, got {examples.ids.size} special ids only"
        )
    streams, actions = np.empty(len(examples), np.uint64), np.empty(len(ids), np.uint8)
    name_streams(examples.keys, seed, epoch, ACTIONS, streams)
    choose_actions(offsets, kinds, replacement.mask, replacement.random, streams, actions)
    if replacement.by != "token":
        spread_actions(offsets, kinds, _joins(examples, plan, replacement.by), actions)
    put_mask((actions == MASK).view(np.uint8), ids, examples.ids.mask, out)
    name_streams(examples.keys, seed, epoch, RANDOM_IDS, streams)
    if replacement.ids in ("words", "vocabulary"):
        put_random(offsets, actions, examples.ids.size, special, streams, out)
    else:
        lexicon = open_lexicon(Path(replacement.ids))
        put_unigram(
            offsets, actions, *_unigrams(lexicon, replacement.ids, examples.ids.size), streams, out
        )
    return Ragged(out, offsets)


def _joins(examples: Examples, plan: MaskPlan, by: str) -> Array:
    """Return where a token shares the fate of the one before it, if both are hidden: uint8 `[T]`."""
    if by == "run":
        return np.ones(len(plan.kinds.values), np.uint8)
    if by == "word":
        words = examples.word_ids.values
        joins = np.zeros(len(words), np.uint8)
        joins[1:] = words[1:] == words[:-1]
        return joins
    if plan.joined is None:
        raise ValueError(
            "plan: expected one that knows its units, got one without; plan with the same strategy"
        )
    return plan.joined.values


@lru_cache(maxsize=16)
def _special(ids: TokenIds) -> npt.NDArray[np.int64]:
    """Return the ids that are never drawn, rising, each once."""
    known = {id_ for id_ in (*ids.special, ids.mask, ids.pad, ids.unk) if 0 <= id_ < ids.size}
    return np.array(sorted(known), np.int64)


@lru_cache(maxsize=4)
def _unigrams(lexicon: Lexicon, path: str, size: int) -> tuple[Array, Array]:
    """Return the ids of a lexicon of single tokens, int32 `[E]`, and the sums of their counts up to each, int64."""
    if lexicon.about["size"] != size:
        raise VocabularyError(
            f"{path}: expected a lexicon of {size} ids, got one of {lexicon.about['size']}"
        )
    counts = lexicon.scores
    whole = (
        np.all(lexicon.tokens.lengths == 1)
        and np.all(counts >= 0)
        and np.all(counts == np.floor(counts))
    )
    if not whole or not 1 <= counts.sum() < 2**53:
        raise VocabularyError(
            f"{path}: expected single tokens with the number of times that each occurs"
        )
    return lexicon.tokens.values, np.cumsum(lexicon.scores.astype(np.int64))
