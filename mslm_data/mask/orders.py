"""Orders: choose the candidates of each row to mask, until its budget is spent.

| order | key | taken |
|---|---|---|
| `uniform` | | in random order |
| `with_replacement` | | in random order, as many as draws with replacement would find |
| `weighted` | an exponential variable divided by the score | by ascending key |
| `highest`, `lowest` | the score, negated for `highest` | by ascending key |
| `first` | | from the start of the row |
| `bernoulli` | | each with a probability, without a budget |
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import numpy as np
from msgspec import Meta

from mslm_data.data.ragged import Array
from mslm_data.kernels.take import (
    CUT,
    SKIP,
    STOP,
    choose_each,
    count_distinct,
    draw_keys,
    fill_ranked,
    fill_uniform,
)
from mslm_data.mask.ingredient import Ingredient
from mslm_data.mask.rate import Rate, Share
from mslm_data.mask.rng import REPEAT, RowRng
from mslm_data.mask.score import Score

OVERRUNS = {"cut": CUT, "skip": SKIP, "stop": STOP}
"""Value of `Budget.overrun` -> constant of the kernels."""


class Order(Ingredient, frozen=True):
    """The order in which units are masked until the budget is spent.

    Raises:
        ValueError: The order needs a score and has none, or has a score and does not use it; or
            `hints` is set for a random order, which has no top.
    """

    by: Annotated[
        Literal[
            "uniform", "weighted", "highest", "lowest", "first", "bernoulli", "with_replacement"
        ],
        Meta(
            description="`uniform` draws units with equal probability; `weighted` draws in "
            "proportion to scores; `highest` and `lowest` sort by score; `first` starts at the "
            "beginning of the row. `bernoulli` has no budget: each unit is masked independently "
            "with probability `rate`, times its score if there is one. `with_replacement` may draw "
            "a unit twice, which masks it once."
        ),
    ] = "uniform"
    score: Annotated[
        Score | None,
        Meta(
            description="Score of each unit. Units with a score of 0 or less are masked by "
            "`lowest` only."
        ),
    ] = None
    chance: Annotated[
        Rate,
        Meta(
            description="Probability that a unit is masked when its turn comes. The others stay "
            "visible, though the budget is spent on them."
        ),
    ] = 1.0
    hints: Annotated[
        Share,
        Meta(
            description="Share of the row that forms the top of an order without randomness. "
            "`hints * rate` of the row is drawn uniformly from the top and stays visible, though "
            "the budget is spent on it."
        ),
    ] = 0.0

    def __post_init__(self) -> None:
        scored = ("weighted", "highest", "lowest")
        if self.score is None and self.by in scored:
            raise ValueError(f"order: expected a score for '{self.by}', got none")
        if self.score is not None and self.by not in (*scored, "bernoulli"):
            expected = "'weighted', 'highest', 'lowest' or 'bernoulli'"
            raise ValueError(f"order: expected {expected} with a score, got '{self.by}'")
        if self.hints and self.by not in ("highest", "lowest", "first"):
            expected = "'highest', 'lowest' or 'first'"
            raise ValueError(f"order: expected {expected} with hints, got '{self.by}'")

    def take(self, candidates: Candidates, budget: Array, rng: RowRng) -> Array:
        """Return the amount taken of each candidate, `[C]`, in the unit of the budget.

        Args:
            candidates: C candidates of N rows.
            budget: int64 `[N]`, reduced in place by the amount taken.
            rng: Random numbers of the pick.
        """
        offsets, eligible, score, costs, overrun = candidates
        taken = np.zeros_like(costs)

        if self.by == "with_replacement":
            count_distinct(offsets, eligible, budget, rng.streams(REPEAT))
        if self.by in ("uniform", "with_replacement"):
            fill_uniform(offsets, eligible, costs, budget, overrun, rng.streams(), taken)
            return taken

        keys = np.zeros(len(eligible))
        if score is not None:
            if self.by != "lowest":
                eligible = eligible & (score > 0)
            if self.by == "weighted":
                draw_keys(offsets, score, rng.streams(), keys)
            else:
                keys = score if self.by == "lowest" else -score
        fill_ranked(offsets, eligible, keys, costs, budget, overrun, taken)
        return taken

    def choose(self, candidates: Candidates, chances: Array, rng: RowRng) -> Array:
        """Choose candidates by `bernoulli`: return 1 for the chosen ones, uint8 `[C]`.

        Args:
            candidates: C candidates of N rows.
            chances: float64 `[N]`, the probability of each row's candidates.
            rng: Random numbers of the pick.
        """
        offsets, eligible, score, _, _ = candidates
        weights = eligible if score is None else eligible * score
        chosen = np.empty(len(eligible), np.uint8)
        choose_each(offsets, weights, chances, rng.streams(), chosen)
        return chosen


class Candidates(NamedTuple):
    """The C units or tokens of N rows from which a pick chooses.

    Attributes:
        offsets: int64 `[N + 1]`, offsets of the candidates.
        eligible: uint8 `[C]`, 1 for eligible candidates.
        score: float64 `[C]`, or None if the order uses no score.
        costs: uint8 or int32 `[C]`, the cost of each candidate.
        overrun: CUT, SKIP or STOP, the action for a candidate that exceeds the remaining budget.
    """

    offsets: Array
    eligible: Array
    score: Array | None
    costs: Array
    overrun: int
