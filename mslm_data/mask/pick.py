"""Picks: one choice of units of each row, up to a budget.

Nearly every masking system is a short list of picks. A pick answers four questions: which units are
masked whole, which of them are eligible, how many (the budget), and in which order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Protocol

import numpy as np

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array
from mslm_data.kernels.grams import unite_words
from mslm_data.lexicon.artefacts import LEXICON
from mslm_data.lexicon.trie import open_words
from mslm_data.mask import fused
from mslm_data.mask.artefacts import artefact
from mslm_data.mask.budget import Budget
from mslm_data.mask.eligible import count_masked, free_tokens, real_tokens
from mslm_data.mask.orders import OVERRUNS, Candidates, Order
from mslm_data.mask.plan import MaskKind, PlanBuilder
from mslm_data.mask.rate import check_limit, follows_training
from mslm_data.mask.rng import BRANCH, RowRng
from mslm_data.mask.toml import USUAL_PICK
from mslm_data.mask.units import UNITS, UnitName, Units, mentions, runs
from mslm_data.registry import Help


class AnyPick(Protocol):
    """The protocol of picks: `Pick`, and picks with an algorithm of their own."""

    @property
    def needs(self) -> frozenset[str]:
        """The columns that it reads; see `Strategy.needs`."""
        ...

    @property
    def follows_training(self) -> bool:
        """Whether a rate depends on the training step or the tokens so far."""
        ...

    def mask(self, examples: Examples, rng: RowRng, builder: PlanBuilder) -> None:
        """Mask units of each row.

        Args:
            examples: N rows of T tokens.
            rng: Draws for this pick.
            builder: Updated with the kinds of masked tokens and the unspent budget. Tokens that
                are masked already do not change.
        """
        ...


@dataclass(frozen=True, slots=True)
class Listed:
    """Units from a lexicon: the occurrences of its n-grams, and each word outside of them.

    If one n-gram contains another, the larger is the unit. If n-grams overlap, a random choice of
    them become units, and the words of the others are units by themselves. With
    `eligible.where = "generic"` no n-gram overlaps a mention.
    """

    lexicon: Annotated[
        str, Help("File of the lexicon; the order of its entries does not matter.")
    ] = artefact(LEXICON, "pmi.arrow")

    def find(self, examples: Examples, rng: RowRng, *, generic: bool) -> Units:
        """Return the units of each row.

        Raises:
            VocabularyError: The lexicon is missing, damaged, or of another tokenizer.
        """
        starts, ends, _ = open_words(Path(self.lexicon)).matches(examples)
        offsets = examples.input_ids.offsets
        word_ids = examples.word_ids.values

        pool = np.ones(len(word_ids), np.uint8)
        if generic:
            terms = mentions(examples)
            terms.paint(offsets, terms.lengths, 0, pool)

        numbers = np.empty(len(word_ids), np.int32)
        streams = rng.streams(BRANCH)
        unite_words(
            offsets, word_ids, starts.offsets, starts.values, ends.values, pool, streams, numbers
        )
        return runs(examples, numbers)


@dataclass(frozen=True, slots=True)
class Eligible:
    """Which units a pick may mask. Special and already masked tokens are never eligible.

    Raises:
        ValueError: A negative limit.
    """

    where: Annotated[
        Literal["any", "generic", "mentions"],
        Help(
            "`any` unit; only `generic` units, which touch no mention; or only units within "
            "`mentions`."
        ),
    ] = "any"
    longest: Annotated[
        int | None, Help("Maximum length of a unit, in tokens. Default: no limit.")
    ] = None
    unknown: Annotated[
        bool, Help("Whether units with `[UNK]`, a useless target, are eligible.")
    ] = False

    def __post_init__(self) -> None:
        check_limit("longest", self.longest)

    @property
    def excludes_nothing(self) -> bool:
        """Whether only special and already masked tokens are excluded."""
        return self.where == "any" and self.longest is None and self.unknown


@dataclass(frozen=True, slots=True)
class Pick:
    """Mask units of each row, up to a budget.

    `Pick("words", Budget(0.15, counts="tokens"))` masks whole words up to 15 % of a row's tokens.

    Raises:
        ValueError: A budget in units with `total`, which counts tokens; or a budget in tokens with
            order `with_replacement`, in which every unit costs one.
    """

    tag: ClassVar[str] = USUAL_PICK

    units: Annotated[
        UnitName | Listed,
        Help(
            "Tokens that are masked together: single `tokens`, `words`, `chunks` between white "
            "space, `mentions`, the `released pieces` of the paper's code (each sub-word of a "
            "mention's first word, the last with the rest of the mention), or the n-grams of a "
            'lexicon, as in `units = {lexicon = "pmi.arrow"}`.'
        ),
    ]
    budget: Annotated[Budget, Help("How many units or tokens are masked.")]
    eligible: Annotated[Eligible, Help("Which units can be masked.")] = field(
        default_factory=Eligible
    )
    order: Annotated[Order, Help("The order in which units are masked.")] = field(
        default_factory=Order
    )
    kind: Annotated[
        Literal["base", "entity"],
        Help("Loss weight of the masked tokens: that of BLM (`base`) or of ELM (`entity`)."),
    ] = "base"

    def __post_init__(self) -> None:
        if self.budget.total and self.units != "tokens" and self.budget.counts == "units":
            raise ValueError("budget: expected one of tokens with 'total', got one of units")
        costs_tokens = self.units != "tokens" and self.budget.counts != "units"
        if self.order.by == "with_replacement" and costs_tokens:
            raise ValueError(
                "budget: expected one of units with 'with_replacement', got one of tokens"
            )

    @property
    def masks_nothing(self) -> bool:
        """Whether the budget is always 0, as in `joint` with `elm=0`."""
        return self.budget.rate == 0 and not self.budget.min_masked

    @property
    def needs(self) -> frozenset[str]:
        if self.masks_nothing:
            return frozenset()
        if isinstance(self.units, Listed):
            needs = frozenset({"word_ids"})
        else:
            needs = UNITS[self.units].needs
        if self.eligible.where != "any":
            needs |= {"mentions"}
        if self.order.score is not None:
            needs |= self.order.score.needs
        return needs

    @property
    def follows_training(self) -> bool:
        return follows_training(self.budget.rate)

    def mask(self, examples: Examples, rng: RowRng, builder: PlanBuilder) -> None:
        if self.masks_nothing:
            return

        # The most common picks need no list of eligible units: one kernel does all steps.
        units = self._units(examples, rng)
        if fused.mask_uniform(self, examples, units, rng, builder):
            return

        eligible, real = self._find_eligible(examples, units, builder)
        score = None
        if self.order.score is not None:
            single_words = self.units in ("tokens", "words")
            score = self.order.score.compute(examples, units, single_words=single_words)

        budget: Array
        if self.order.spends:
            budget = self.budget.quota(self._sizes(examples, units, real), real, rng)
            if self.budget.total:
                np.maximum(budget - count_masked(examples, builder), 0, out=budget)
        else:
            budget = self.budget.chances(len(examples), rng)

        if fused.mask_weighted_units(self, examples, units, eligible, score, budget, rng, builder):
            return

        # Everything else: the order takes candidates until the budget is spent.
        offsets = examples.input_ids.offsets
        costs = units.lengths if units is not None and self._costs_tokens else None
        candidates = Candidates(
            offsets=offsets if units is None else units.starts.offsets,
            eligible=eligible,
            score=score,
            costs=costs,
            overrun=OVERRUNS[self.budget.overrun],
        )
        taken = self.order.take(candidates, budget, rng)

        if units is None:
            # Eligible tokens have kind 0, so adding sets it: 9 times as fast as `copyto`.
            builder.kinds += (taken != 0) * np.uint8(self.mask_kind)
        else:
            tokens = taken * units.lengths if costs is None else taken
            units.take(offsets, tokens, self.mask_kind, builder)
        if self.order.spends:
            builder.unspent += budget

    @property
    def mask_kind(self) -> int:
        """The `MaskKind` of the tokens that it masks."""
        return MaskKind[self.kind.upper()].value

    @property
    def _costs_tokens(self) -> bool:
        """Whether a unit costs its number of tokens. Otherwise it costs one."""
        return self.budget.counts != "units" and self.order.may_cut

    def _units(self, examples: Examples, rng: RowRng) -> Units | None:
        """Return the units of each row; None for single tokens."""
        if isinstance(self.units, Listed):
            return self.units.find(examples, rng, generic=self.eligible.where == "generic")
        find = UNITS[self.units].find
        return None if find is None else find(examples)

    def _find_eligible(
        self, examples: Examples, units: Units | None, builder: PlanBuilder
    ) -> tuple[Array, Array]:
        """Return the eligible units, uint8 `[U]`, and the number of ordinary tokens, int64 `[N]`.

        The number of ordinary tokens is left uninitialised if the budget does not need it.
        """
        conditions = self.eligible
        if units is not None and builder.untouched and conditions.excludes_nothing:
            counts_real = self.budget.counts == "tokens" or self.budget.min_masked
            real = real_tokens(examples) if counts_real else np.empty(len(examples), np.int64)
            return np.ones(len(units), np.uint8), real

        offsets = examples.input_ids.offsets
        free, real = free_tokens(examples, builder, unknown=conditions.unknown)
        if conditions.where != "any":
            inside = np.zeros(len(free), np.uint8)
            terms = mentions(examples)
            terms.paint(offsets, terms.lengths, 1, inside)
            free &= inside if conditions.where == "mentions" else 1 - inside
        if units is None:
            return free, real

        eligible = units.within(offsets, free)
        if conditions.longest is not None:
            eligible &= units.lengths <= conditions.longest
        return eligible, real

    def _sizes(self, examples: Examples, units: Units | None, real: Array) -> Array:
        """Return the size of each row that the rate is multiplied by, int64 `[N]`."""
        if self.budget.counts == "all tokens":
            return examples.input_ids.lengths
        if self.budget.counts == "units" and units is not None:
            return units.starts.lengths
        return real


def run(picks: Sequence[AnyPick], examples: Examples, rng: RowRng, builder: PlanBuilder) -> None:
    """Run picks one after the other; pick n draws from the streams of path number n."""
    for number, pick in enumerate(picks):
        pick.mask(examples, rng.for_pick(number), builder)
        builder.untouched = False
