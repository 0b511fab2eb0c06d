"""Picks: mask units of each row, up to a budget.

Nearly every masking system is a short list of picks. A pick has four parts: the units that are
masked as a whole, the units that are eligible, the budget, and the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, Protocol

import numpy as np
from msgspec import Meta, field

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array
from mslm_data.kernels.grams import unite_words
from mslm_data.lexicon.trie import open_words
from mslm_data.mask import fused
from mslm_data.mask.artefacts import LexiconFile
from mslm_data.mask.budget import Budget
from mslm_data.mask.eligible import count_masked, free_tokens, real_tokens
from mslm_data.mask.orders import OVERRUNS, Candidates, Order
from mslm_data.mask.plan import MaskKind, PlanBuilder
from mslm_data.mask.rate import Limit, follows_training
from mslm_data.mask.rng import BRANCH, RowRng
from mslm_data.mask.units import UNITS, UnitName, Units, mentions, runs
from mslm_data.registry import Options


class AnyPick(Protocol):
    """Protocol of picks: `Pick`, and picks with an algorithm of their own."""

    @property
    def needs(self) -> frozenset[str]:
        """The columns that the pick reads; see `Strategy.needs`."""
        ...

    @property
    def follows_training(self) -> bool:
        """Whether a rate depends on the training step or the number of tokens seen."""
        ...

    def mask(self, examples: Examples, rng: RowRng, builder: PlanBuilder) -> None:
        """Mask units of each row.

        Args:
            examples: N rows of T tokens.
            rng: Random numbers of this pick.
            builder: Written: the kinds of masked tokens and the unspent budget. Masked tokens do
                not change.
        """
        ...


class Listed(Options, frozen=True):
    """Units from a lexicon: the occurrences of its n-grams, and each word outside of them.

    An n-gram inside a larger one is no unit. Of overlapping n-grams, some are chosen at random as
    units; the words of the others are units by themselves. With `eligible.where = "generic"`, no
    n-gram overlaps a mention.
    """

    lexicon: Annotated[
        LexiconFile,
        Meta(description="File of the lexicon. The order of its entries does not matter."),
    ] = "pmi.arrow"

    def find(self, examples: Examples, rng: RowRng, *, generic: bool) -> Units:
        """Return the units of each row.

        Args:
            examples: N rows.
            rng: Random numbers of the pick, to choose among overlapping n-grams.
            generic: Whether to exclude n-grams that overlap a mention.

        Raises:
            VocabularyError: The lexicon is missing, damaged, or made with another tokenizer.
        """
        starts, ends, _ = open_words(Path(self.lexicon)).matches(examples)
        offsets = examples.input_ids.offsets
        word_ids = examples.word_ids.values

        # Tokens of mentions leave the pool before n-grams are chosen. An n-gram that overlaps a
        # mention must not displace its neighbours.
        pool = np.ones(len(word_ids), np.uint8)
        if generic:
            spans = mentions(examples)
            spans.paint(offsets, spans.lengths, 0, pool)

        numbers = np.empty(len(word_ids), np.int32)
        streams = rng.streams(BRANCH)
        unite_words(
            offsets, word_ids, starts.offsets, starts.values, ends.values, pool, streams, numbers
        )
        return runs(examples, numbers)


class Eligible(Options, frozen=True):
    """Conditions on the units of a pick. Special and masked tokens are never eligible.

    Raises:
        ValueError: `longest` is negative.
    """

    where: Annotated[
        Literal["any", "generic", "mentions"],
        Meta(
            description="`any` unit; `generic` units, which do not overlap a mention; or units "
            "inside `mentions`."
        ),
    ] = "any"
    longest: Annotated[
        Limit,
        Meta(
            description="Maximum length of a unit in tokens; not for single `tokens`. Default: no "
            "limit."
        ),
    ] = None
    unknown: Annotated[
        bool, Meta(description="Whether units with `[UNK]`, a useless target, are eligible.")
    ] = False

    @property
    def excludes_nothing(self) -> bool:
        """Whether all units without special or masked tokens are eligible."""
        return self.where == "any" and self.longest is None and self.unknown


class Pick(Options, frozen=True, tag_field="use", tag="units"):
    """Mask units of each row, up to a budget.

    `Pick("words", Budget(0.15, counts="tokens"))` masks whole words up to 15 % of a row's tokens.

    Raises:
        ValueError: A budget with `total` counts units, a budget for `with_replacement` counts
            tokens, or `eligible.longest` is set for single tokens.
    """

    units: Annotated[
        UnitName | Listed,
        Meta(
            description="Tokens to mask together: single `tokens`; `words`; `chunks` between white "
            "space; `mentions`; the `released pieces` of the paper's code (each sub-word of a "
            "mention's first word, the last one with the rest of the mention); or the n-grams of a "
            'lexicon, such as `units = {lexicon = "pmi.arrow"}`.'
        ),
    ]
    budget: Annotated[Budget, Meta(description="Number of units or tokens to mask.")]
    eligible: Annotated[Eligible, Meta(description="Conditions on the units.")] = field(
        default_factory=Eligible
    )
    order: Annotated[Order, Meta(description="Order in which units are masked.")] = field(
        default_factory=Order
    )
    kind: Annotated[
        Literal["base", "entity"],
        Meta(
            description="Kind of the masked tokens, which selects their loss weight: `base` (BLM) "
            "or `entity` (ELM)."
        ),
    ] = "base"

    def __post_init__(self) -> None:
        if self.budget.total and self.units != "tokens" and self.budget.counts == "units":
            raise ValueError("budget: 'total' needs counts = 'tokens', got 'units'")
        costs_tokens = self.units != "tokens" and self.budget.counts != "units"
        if self.order.by == "with_replacement" and costs_tokens:
            raise ValueError(
                "budget: order 'with_replacement' needs counts = 'units', got "
                f"'{self.budget.counts}'"
            )
        if self.units == "tokens" and self.eligible.longest is not None:
            raise ValueError("eligible: 'longest' needs units of several tokens, got 'tokens'")

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

        # Fast path of the most common picks: one kernel, without a list of eligible units.
        units = self._units(examples, rng)
        if fused.mask_uniform(self, examples, units, rng, builder):
            return

        # The general path: eligible units, their scores, and the budget of each row.
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

        # The order takes candidates until the budget is spent, and reduces the budget in place.
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
            # Eligible tokens have kind 0, so adding equals setting: 9 times as fast as `copyto`.
            builder.kinds += (taken != 0) * np.uint8(self.mask_kind)
        else:
            # Without costs, `taken` is 1 per whole unit; with costs, its number of tokens.
            tokens = taken * units.lengths if costs is None else taken
            units.take(offsets, tokens, self.mask_kind, builder)
        if self.order.spends:
            builder.unspent += budget

    @property
    def mask_kind(self) -> int:
        """The `MaskKind` of the tokens it masks."""
        return MaskKind[self.kind.upper()].value

    @property
    def _costs_tokens(self) -> bool:
        """Whether a unit costs its number of tokens. Otherwise it costs 1."""
        return self.budget.counts != "units" and self.order.may_cut

    def _units(self, examples: Examples, rng: RowRng) -> Units | None:
        """Return the units of each row, or None for single tokens."""
        if isinstance(self.units, Listed):
            return self.units.find(examples, rng, generic=self.eligible.where == "generic")
        find = UNITS[self.units].find
        return None if find is None else find(examples)

    def _find_eligible(
        self, examples: Examples, units: Units | None, builder: PlanBuilder
    ) -> tuple[Array, Array]:
        """Return the eligible units and the number of non-special tokens.

        Returns:
            uint8 `[U]`, and int64 `[N]`. The second array is uninitialised if the budget does not
                need it.
        """
        conditions = self.eligible
        # In the first pick, units hold no masked token, and no unit holds a special one.
        if units is not None and builder.untouched and conditions.excludes_nothing:
            counts_real = self.budget.counts == "tokens" or self.budget.min_masked
            real = real_tokens(examples) if counts_real else np.empty(len(examples), np.int64)
            return np.ones(len(units), np.uint8), real

        offsets = examples.input_ids.offsets
        free, real = free_tokens(examples, builder, unknown=conditions.unknown)
        if conditions.where != "any":
            inside = np.zeros(len(free), np.uint8)
            spans = mentions(examples)
            spans.paint(offsets, spans.lengths, 1, inside)
            free &= inside if conditions.where == "mentions" else 1 - inside
        if units is None:
            return free, real

        eligible = units.within(offsets, free)
        if conditions.longest is not None:
            eligible &= units.lengths <= conditions.longest
        return eligible, real

    def _sizes(self, examples: Examples, units: Units | None, real: Array) -> Array:
        """Return the base of the rate in each row, int64 `[N]`."""
        if self.budget.counts == "all tokens":
            return examples.input_ids.lengths
        if self.budget.counts == "units" and units is not None:
            return units.starts.lengths
        return real


def run(picks: Sequence[AnyPick], examples: Examples, rng: RowRng, builder: PlanBuilder) -> None:
    """Run picks one after the other. Pick n draws from the streams of path n."""
    for number, pick in enumerate(picks):
        pick.mask(examples, rng.for_pick(number), builder)
        builder.untouched = False
