"""Picks: mask units of each row, up to a budget.

Nearly every masking system is a short list of picks. A pick has four parts: the units that are
masked as a whole, the units that are eligible, the budget, and the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Meta, field

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array
from mslm_data.kernels.grams import unite_words
from mslm_data.kernels.take import choose_each, fill_uniform
from mslm_data.lexicon.trie import open_words
from mslm_data.mask.artefacts import LexiconFile
from mslm_data.mask.budget import Budget, quotas
from mslm_data.mask.ingredient import Ingredient, Reads
from mslm_data.mask.orders import OVERRUNS, Candidates, Order
from mslm_data.mask.plan import MaskKind, PlanBuilder
from mslm_data.mask.rate import Limit, rate_at
from mslm_data.mask.rng import BRANCH, KEEP, RowRng
from mslm_data.mask.units import (
    UNITS,
    UnitName,
    Units,
    count_masked,
    free_tokens,
    mentions,
    runs,
)


class AnyPick(Reads, Protocol):
    """Protocol of picks: `Pick`, and picks with an algorithm of their own."""

    def mask(self, examples: Examples, rng: RowRng, builder: PlanBuilder) -> None:
        """Mask units of each row.

        Args:
            examples: N rows of T tokens.
            rng: Random numbers of this pick.
            builder: Written: the kinds of masked tokens and the unspent budget. Masked tokens do
                not change.
        """
        ...


class Listed(Ingredient, frozen=True):
    """Units from a lexicon: the occurrences of its n-grams, and each word outside of them.

    An n-gram inside a larger one is no unit. Of overlapping n-grams, some are chosen at random as
    units; the words of the others are units by themselves. With `eligible.where = "generic"`, no
    n-gram overlaps a mention.
    """

    lexicon: Annotated[
        LexiconFile,
        Meta(description="File of the lexicon. The order of its entries does not matter."),
    ] = "pmi.arrow"

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"word_ids"})

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


class Eligible(Ingredient, frozen=True):
    """Conditions on the units of a pick. Special and masked tokens are never eligible."""

    where: Annotated[
        Literal["any", "generic", "mentions", "rows without mentions"],
        Meta(
            description="`any` unit; `generic` units, which do not overlap a mention; units inside "
            "`mentions`; or any unit of `rows without mentions`."
        ),
    ] = "any"
    longest: Annotated[
        Limit,
        Meta(
            description="Maximum length of a unit in tokens, or 0 for no limit; not for single "
            "`tokens`."
        ),
    ] = 0
    unknown: Annotated[
        bool, Meta(description="Whether units with `[UNK]`, a useless target, are eligible.")
    ] = False

    @property
    def needs(self) -> frozenset[str]:
        return frozenset() if self.where == "any" else frozenset({"mentions"})

    def find(
        self, examples: Examples, units: Units | None, builder: PlanBuilder
    ) -> tuple[Array, npt.NDArray[np.int64]]:
        """Return the eligible units, uint8 `[U]`, and the number of non-special tokens, `[N]`.

        Args:
            examples: N rows.
            units: Their units, or None for single tokens.
            builder: The plan so far.
        """
        offsets = examples.input_ids.offsets
        free, real = free_tokens(examples, builder, unknown=self.unknown)
        if self.where == "rows without mentions":
            allowed = examples.span_starts.lengths == 0
            free &= np.repeat(allowed, examples.input_ids.lengths)
        elif self.where != "any":
            inside = np.zeros(len(free), np.uint8)
            spans = mentions(examples)
            spans.paint(offsets, spans.lengths, 1, inside)
            free &= inside if self.where == "mentions" else 1 - inside
        if units is None:
            return free, real

        eligible = units.within(offsets, free)
        if self.longest:
            eligible &= units.lengths <= self.longest
        return eligible, real


class Pick(Ingredient, frozen=True, tag_field="use", tag="units"):
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
        if self.units == "tokens" and self.eligible.longest:
            raise ValueError("eligible: 'longest' needs units of several tokens, got 'tokens'")

    @property
    def changes_nothing(self) -> bool:
        """Whether the pick has no effect, as in `joint` with `elm=0`: its budget is always 0.

        With `total`, a budget of 0 has an effect: it clears the unspent budget of earlier picks.
        """
        budget = self.budget
        return budget.rate == 0 and not budget.min_masked and not budget.total

    @property
    def needs(self) -> frozenset[str]:
        if self.changes_nothing:
            return frozenset()
        own = frozenset() if isinstance(self.units, Listed) else UNITS[self.units].needs
        return own | super().needs

    @property
    def mask_kind(self) -> int:
        """The `MaskKind` of the tokens it masks."""
        return MaskKind[self.kind.upper()].value

    def mask(self, examples: Examples, rng: RowRng, builder: PlanBuilder) -> None:
        if self.changes_nothing:
            return

        units = self._find_units(examples, rng)
        eligible, real = self.eligible.find(examples, units, builder)
        score = None
        if self.order.score is not None:
            single_words = self.units in ("tokens", "words")
            score = self.order.score.compute(examples, units, single_words=single_words)

        # An eligible unit costs 1, so `eligible` has the costs too.
        is_independent = self.order.by == "bernoulli"
        costs = eligible
        if units is not None and self.budget.counts != "units" and not is_independent:
            costs = units.lengths
        candidates = Candidates(
            offsets=examples.input_ids.offsets if units is None else units.starts.offsets,
            eligible=eligible,
            score=score,
            costs=costs,
            overrun=OVERRUNS[self.budget.overrun],
        )

        sizes = self._sizes(examples, units, real)
        if is_independent:
            taken = self.order.choose(candidates, self.budget.chances(rng), rng)
        else:
            budget = self.budget.quota(sizes, real, rng)
            if self.budget.total:
                np.maximum(budget - count_masked(examples, builder), 0, out=budget)
                builder.unspent[:] = 0
            # The order takes candidates until the budget is spent, and reduces it in place.
            taken = self.order.take(candidates, budget, rng)
            builder.unspent += budget
        self._leave_visible(taken, candidates, sizes, rng)

        if units is None:
            # Eligible tokens have kind 0, so adding equals setting: 9 times as fast as `copyto`.
            builder.kinds += taken * np.uint8(self.mask_kind)
        else:
            tokens = taken * units.lengths if costs is eligible else taken
            units.take(examples.input_ids.offsets, tokens, self.mask_kind, builder)

    def _find_units(self, examples: Examples, rng: RowRng) -> Units | None:
        """Return the units of each row, or None for single tokens."""
        if isinstance(self.units, Listed):
            return self.units.find(examples, rng, generic=self.eligible.where == "generic")
        find = UNITS[self.units].find
        return None if find is None else find(examples)

    def _sizes(self, examples: Examples, units: Units | None, real: Array) -> Array:
        """Return the base of the rate in each row, int64 `[N]`."""
        if self.budget.counts == "all tokens":
            return examples.input_ids.lengths
        if self.budget.counts == "units" and units is not None:
            return units.starts.lengths
        return real

    def _leave_visible(
        self, taken: Array, candidates: Candidates, sizes: Array, rng: RowRng
    ) -> None:
        """Set `taken` to 0 for the units that stay visible by `Order.chance` and `Order.hints`."""
        order = self.order
        if order.chance != 1:
            kept = np.empty(len(taken), np.uint8)
            chances = np.full(len(rng.keys), rate_at(order.chance, rng), np.float64)
            is_taken = (taken != 0).astype(np.uint8)
            choose_each(candidates.offsets, is_taken, chances, rng.streams(KEEP), kept)
            taken *= kept

        if order.hints:
            # The top: what the order takes first.
            offsets, _, _, costs, overrun = candidates
            top = order.take(candidates, quotas(order.hints, sizes, "down", rng), rng)
            pool = ((top > 0) & (taken > 0)).astype(np.uint8)
            count = quotas(order.hints * rate_at(self.budget.rate, rng), sizes, "down", rng)
            visible = np.zeros_like(taken)
            fill_uniform(offsets, pool, costs, count, overrun, rng.streams(KEEP), visible)
            taken[visible > 0] = 0


def run(picks: Sequence[AnyPick], examples: Examples, rng: RowRng, builder: PlanBuilder) -> None:
    """Run picks one after the other. Pick n draws from the streams of path n."""
    for number, pick in enumerate(picks):
        pick.mask(examples, rng.for_pick(number), builder)
