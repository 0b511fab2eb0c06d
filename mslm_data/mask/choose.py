"""The stage that nearly every system of masking is made of: choose units of each row, up to a budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array
from mslm_data.kernels.choose import choose_again, choose_bernoulli, choose_each, choose_uniform
from mslm_data.kernels.fill import CUT, OVER, SKIP, STOP, fill_ranked, fill_uniform, fill_weighted
from mslm_data.kernels.hide import hide_tokens, hide_units, hide_weighted
from mslm_data.kernels.tokens import count_at_least, open_pool
from mslm_data.mask.budget import Rounding, budgets, quotas
from mslm_data.mask.draws import GATE, Draws
from mslm_data.mask.plan import Draft, MaskKind
from mslm_data.mask.rate import Rate, check_share, follows_step, rate_at
from mslm_data.mask.score import Score
from mslm_data.mask.units import UNITS, Units, mentions

Hide = Literal["tokens", "words", "chunks", "mentions", "released pieces"]
How = Literal["uniform", "weighted", "highest", "lowest", "first", "each", "again"]
_OVERRUNS = {"cut": CUT, "skip": SKIP, "over": OVER, "stop": STOP}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choose:
    """Hide units of each row; reads as a sentence: `{hide = "words", rate = 0.15, of = "tokens", how = "uniform"}`.

    Only units none of whose tokens is special or taken already can be hidden.

    Attributes:
        hide: The units: single tokens, words, what stands between white space, whole mentions, or the pieces that the
            paper's released code takes for mentions.
        rate: How many to hide, as a share; see `of`.
        of: What the rate is a share of, and what the budget counts: the row's `units`, hidden or not; its `tokens`,
            special ones aside; or `all tokens`, those included (but none of them is hidden).
        rounding: What makes a whole number of it; see `budget.Rounding`.
        least: The budget is this at least, where the row has a token that is not special.
        most: The budget is this at most; None is no limit.
        how: `uniform`, or `weighted` by the score, without replacement; the `highest` or `lowest` score first; the
            `first` units of the row; `each` unit on its own, with chance `rate` times its score, and no budget;
            `again` with replacement.
        overrun: What becomes of a unit of more tokens than are left of the budget: `cut` to them, `skip` it and try
            the next, take all of it and go `over`, or `stop`.
        among: Whether units may lie in mentions: `any`, only `generic` ones that touch none, or only `mentions`.
        longest: Units of more tokens are never hidden; None is no limit.
        unknown: Whether `[UNK]`, which is a useless target, may be hidden.
        score: See `how`; where there is one, units of a score of 0 or less are never hidden but by `lowest`.
        gate: Chance of each row that the stage runs for it.
        kind: Why they are predicted: `entity` or `base`.

    Raises:
        ValueError: A rate or chance that is not in `[0, 1]`, or a way to choose that wants a score without one.
    """

    hide: Hide = "tokens"
    rate: Rate
    of: Literal["units", "tokens", "all tokens"] = "units"
    rounding: Rounding = "up"
    least: int = 0
    most: int | None = None
    how: How = "uniform"
    overrun: Literal["cut", "skip", "over", "stop"] = "skip"
    among: Literal["any", "generic", "mentions"] = "any"
    longest: int | None = None
    unknown: bool = False
    score: Score | None = None
    gate: float = 1.0
    kind: Literal["base", "entity"] = "base"

    def __post_init__(self) -> None:
        if isinstance(self.rate, float | int):
            check_share("rate", self.rate)
        check_share("gate", self.gate)
        if self.score is None and self.how in ("weighted", "highest", "lowest"):
            raise ValueError(f"how: expected a score for '{self.how}', got none")
        if self.score is not None and self.how in ("uniform", "first", "again"):
            raise ValueError(
                f"how: expected 'weighted', 'highest', 'lowest' or 'each' for a score, got '{self.how}'"
            )

    @property
    def by_step(self) -> bool:
        """Whether planning must be told the step."""
        return follows_step(self.rate)

    def units(self, examples: Examples, draws: Draws) -> Units | None:  # noqa: ARG002 - for those that draw them
        """Return what can be hidden whole; None for single tokens."""
        return None if self.hide == "tokens" else UNITS[self.hide](examples)

    def mark(self, examples: Examples, draws: Draws, draft: Draft) -> None:
        """See `Stage`."""
        units = self.units(examples, draws)
        kind = MaskKind[self.kind.upper()].value
        if self._is_plain(units, draft) and isinstance(
            rate := rate_at(self.rate, draws), float | int
        ):
            self._hide(examples, units, rate, draws, kind, draft)
            return
        offsets = examples.input_ids.offsets if units is None else units.starts.offsets
        pool, real = self._pool(examples, units, draft)
        score = None if self.score is None else self.score.of(examples, units)
        quota = (
            np.zeros(len(examples), np.int64)
            if self.how == "each"
            else self._quota(examples, units, real, draws)
        )
        if units is None and self.how in ("uniform", "each", "again"):
            self._choose(offsets, pool, score, quota, draws, kind, draft.kinds)
        elif (
            units
            and score is not None
            and self.how == "weighted"
            and self.of == "units"
            and draft.joined is None
        ):
            where = (examples.input_ids.offsets, offsets, units.starts.values, units.ends.values)
            hide_weighted(*where, pool, score, quota, draws.streams(), kind, draft.kinds)
        else:
            taken = self._fill(units, offsets, pool, score, quota, draws)
            if units is None:
                np.copyto(draft.kinds, np.uint8(kind), where=taken > 0)
            else:
                units.take(examples.input_ids.offsets, taken, kind, draft)
        draft.owed += quota

    def _is_plain(self, units: Units | None, draft: Draft) -> bool:
        """Return whether one kernel does it, if the rate is one for all rows: budgets follow from sizes alone."""
        if (
            self.how != "uniform"
            or self.among != "any"
            or self.gate < 1
            or self.rounding == "random"
        ):
            return False
        if units is None:
            return self.of != "all tokens"
        all_open = draft.untouched and self.unknown and self.longest is None
        return self.of == "units" and all_open and not self.least and draft.joined is None

    def _hide(
        self,
        examples: Examples,
        units: Units | None,
        rate: float,
        draws: Draws,
        kind: int,
        draft: Draft,
    ) -> None:
        """Hide what can be had, in one pass over the rows."""
        ids, sizes = (
            examples.input_ids,
            examples.input_ids.lengths if units is None else units.starts.lengths,
        )
        table = budgets(rate, int(sizes.max(initial=0)), self.rounding, self.least, self.most)
        if units is None:
            words, unk = examples.word_ids.values, -1 if self.unknown else examples.ids.unk
            hide_tokens(
                ids.offsets,
                words,
                ids.values,
                unk,
                table,
                draws.streams(),
                kind,
                draft.kinds,
                draft.owed,
            )
        else:
            where = (ids.offsets, units.starts.offsets, units.starts.values, units.ends.values)
            hide_units(*where, table, draws.streams(), kind, draft.kinds)

    def _pool(self, examples: Examples, units: Units | None, draft: Draft) -> tuple[Array, Array]:
        """Return which units can be had, uint8 `[U]`, or tokens, `[T]`, and each row's tokens that are not special."""
        ids, offsets = examples.input_ids.values, examples.input_ids.offsets
        real = np.empty(len(examples), np.int64)
        if (
            units is not None
            and draft.untouched
            and self.unknown
            and self.among == "any"
            and self.longest is None
        ):
            if self.of == "tokens" or self.least:
                count_at_least(offsets, examples.word_ids.values, 0, real)
            return np.ones(len(units), np.uint8), real
        pool, unk = np.empty(len(ids), np.uint8), -1 if self.unknown else examples.ids.unk
        open_pool(offsets, examples.word_ids.values, ids, unk, draft.kinds, pool, real)
        if self.among != "any":
            inside, terms = np.zeros(len(ids), np.uint8), mentions(examples)
            terms.paint(offsets, terms.lengths, 1, inside)
            pool &= inside if self.among == "mentions" else 1 - inside
        if units is not None:
            pool = units.within(offsets, pool)
            if self.longest is not None:
                pool &= units.lengths <= self.longest
        return pool, real

    def _quota(self, examples: Examples, units: Units | None, real: Array, draws: Draws) -> Array:
        """Return the budget of each row, `[N]`."""
        sizes = examples.input_ids.lengths if self.of == "all tokens" else real
        if self.of == "units" and units is not None:
            sizes = units.starts.lengths
        quota = quotas(rate_at(self.rate, draws), sizes, self.rounding, draws)
        if self.most is not None:
            np.minimum(quota, self.most, out=quota)
        if self.least:
            quota[real > 0] = np.maximum(quota[real > 0], self.least)
        if self.gate < 1:
            quota[draws.uniforms(GATE) >= self.gate] = 0
        return quota

    def _choose(
        self,
        offsets: Array,
        pool: Array,
        score: Array | None,
        quota: Array,
        draws: Draws,
        mark: int,
        out: Array,
    ) -> None:
        """Write `mark` to what is chosen of a pool, each counting as one; what is left of the budget stays in `quota`.

        A score is for `each` alone.
        """
        rate = rate_at(self.rate, draws)
        if self.how == "uniform":
            choose_uniform(offsets, pool, quota, draws.streams(), mark, out)
        elif self.how == "again":
            choose_again(offsets, pool, quota, draws.streams(), mark, out)
        elif score is None and isinstance(rate, float | int) and self.gate == 1:
            choose_bernoulli(offsets, pool, rate, draws.streams(), mark, out)
        else:
            weights = pool if score is None else pool * score
            choose_each(
                offsets, weights * self._chances(rate, offsets, draws), draws.streams(), mark, out
            )

    def _chances(self, rate: float | Array, offsets: Array, draws: Draws) -> float | Array:
        """Return the chance of each entry of the rows, by the rate and the gate, float64 `[E]`; or one of all."""
        if isinstance(rate, float | int) and self.gate == 1:
            return float(rate)
        rates = np.broadcast_to(rate, len(offsets) - 1).astype(np.float64)
        if self.gate < 1:
            rates[draws.uniforms(GATE) >= self.gate] = 0
        return np.repeat(rates, np.diff(offsets))

    def _fill(
        self,
        units: Units | None,
        offsets: Array,
        pool: Array,
        score: Array | None,
        quota: Array,
        draws: Draws,
    ) -> Array:
        """Return how many tokens are taken of each unit, int64 `[U]`; what is left of the budget stays in `quota`."""
        taken, overrun = np.zeros(len(pool), np.int64), _OVERRUNS[self.overrun]
        by_token = units is not None and self.of != "units" and self.how not in ("each", "again")
        lengths = units.lengths if by_token and units is not None else np.ones(len(pool), np.int64)
        if score is not None and self.how == "weighted":
            fill_weighted(offsets, pool, score, lengths, quota, overrun, draws.streams(), taken)
        elif score is not None and self.how == "highest":
            fill_ranked(offsets, pool & (score > 0), -score, lengths, quota, overrun, taken)
        elif self.how in ("lowest", "first"):
            ranks = np.zeros(len(pool)) if score is None else score
            fill_ranked(offsets, pool, ranks, lengths, quota, overrun, taken)
        elif self.how == "uniform" and by_token:
            fill_uniform(offsets, pool, lengths, quota, overrun, draws.streams(), taken)
        else:
            chosen = np.zeros(len(pool), np.uint8)
            self._choose(offsets, pool, score, quota, draws, 1, chosen)
            taken += chosen
        return taken if units is None or by_token else taken * units.lengths
