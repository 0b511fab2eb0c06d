"""Orders: choose which of a row's candidates to mask, until its budget is spent.

An order is a function `take(candidates, budget, rng)`. Orders differ in three points: whether they
are random, whether they use scores, and whether they get a budget to spend or a probability for
each candidate. Their kernels are in `kernels/choose.py`, where each candidate costs one, and in
`kernels/fill.py`, where it costs its number of tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import numpy as np

from mslm_data.data.ragged import Array
from mslm_data.kernels.choose import choose_again, choose_bernoulli, choose_each, choose_uniform
from mslm_data.kernels.fill import CUT, SKIP, STOP, fill_ranked, fill_uniform, fill_weighted
from mslm_data.mask.rng import RowRng
from mslm_data.mask.score import Score
from mslm_data.registry import Help

OrderName = Literal[
    "uniform", "weighted", "highest", "lowest", "first", "bernoulli", "with_replacement"
]

OVERRUNS = {"cut": CUT, "skip": SKIP, "stop": STOP}
"""Value of `Budget.overrun` -> the constant of the kernels."""


@dataclass(frozen=True, slots=True)
class Order:
    """The order in which units are masked until the budget is spent.

    Raises:
        ValueError: The order needs a score and has none, or has one and does not use it.
    """

    by: Annotated[
        OrderName,
        Help(
            "`uniform` draws units at random, each equally likely; `weighted` draws them in "
            "proportion to their scores; `highest` and `lowest` sort by score; `first` goes from "
            "the row's start. `bernoulli` has no budget: each unit is masked independently with "
            "probability `rate`, times its score if it has one. `with_replacement` draws with "
            "replacement, so a unit drawn twice is masked once."
        ),
    ] = "uniform"
    score: Annotated[
        Score | None,
        Help("The score of each unit. Only `lowest` masks units with a score of 0 or less."),
    ] = None

    def __post_init__(self) -> None:
        scored = ("weighted", "highest", "lowest")
        if self.score is None and self.by in scored:
            raise ValueError(f"order: expected a score for '{self.by}', got none")
        if self.score is not None and self.by not in (*scored, "bernoulli"):
            expected = "'weighted', 'highest', 'lowest' or 'bernoulli'"
            raise ValueError(f"order: expected {expected} with a score, got '{self.by}'")

    @property
    def spends(self) -> bool:
        """Whether it spends a budget; `bernoulli` has only a probability for each unit."""
        return self.by != "bernoulli"

    @property
    def has_top(self) -> bool:
        """Whether the order is deterministic, so that its first units are the top."""
        return self.by in ("highest", "lowest", "first")

    @property
    def may_cut(self) -> bool:
        """Whether a unit can cost its number of tokens, and be cut at the end of the budget."""
        return self.by not in ("bernoulli", "with_replacement")

    def take(self, candidates: Candidates, budget: Array, rng: RowRng) -> Array:
        """Return how much of each candidate is taken, `[C]`, in the unit of the budget.

        Args:
            candidates: The candidates of N rows.
            budget: int64 `[N]`; reduced by what is taken. For `bernoulli`, the probability of each
                row's candidates: float64 `[N]`, or one number for all rows, `[]`.
            rng: Draws for the pick.
        """
        return _TAKE[self.by](candidates, budget, rng)


class Candidates(NamedTuple):
    """The C units or tokens of N rows that a pick chooses from.

    Attributes:
        offsets: int64 `[N + 1]` of the candidates.
        eligible: uint8 `[C]`, 1 where a candidate can be taken.
        score: float64 `[C]`; None if the order uses no score.
        costs: int64 `[C]`, the cost of each candidate; None if each costs one.
        overrun: CUT, SKIP or STOP: what to do with a candidate that costs more than the budget
            has left.
    """

    offsets: Array
    eligible: Array
    score: Array | None
    costs: Array | None
    overrun: int

    def units_taken(self) -> Array:
        """Return the output array of kernels that take candidates whole: uint8 zeros `[C]`."""
        return np.zeros(len(self.eligible), np.uint8)

    def filled(self) -> tuple[Array, Array]:
        """Return costs, and the output array of kernels that may cut one: int64 `[C]` both."""
        size = len(self.eligible)
        costs = np.ones(size, np.int64) if self.costs is None else self.costs
        return costs, np.zeros(size, np.int64)


def take_uniform(candidates: Candidates, budget: Array, rng: RowRng) -> Array:
    """Draw candidates uniformly, without replacement."""
    offsets, eligible, _, costs, overrun = candidates
    if costs is None:
        chosen = candidates.units_taken()
        choose_uniform(offsets, eligible, budget, rng.streams(), 1, chosen)
        return chosen

    _, taken = candidates.filled()
    fill_uniform(offsets, eligible, costs, budget, overrun, rng.streams(), taken)
    return taken


def take_bernoulli(candidates: Candidates, chances: Array, rng: RowRng) -> Array:
    """Take each candidate independently, with its row's probability times its score."""
    offsets, eligible, score, _, _ = candidates
    chosen = candidates.units_taken()
    if score is None and chances.ndim == 0:
        choose_bernoulli(offsets, eligible, float(chances), rng.streams(), 1, chosen)
        return chosen

    weights = eligible if score is None else eligible * score
    per_candidate = chances if chances.ndim == 0 else np.repeat(chances, np.diff(offsets))
    choose_each(offsets, weights * per_candidate, rng.streams(), 1, chosen)
    return chosen


def take_with_replacement(candidates: Candidates, budget: Array, rng: RowRng) -> Array:
    """Draw candidates with replacement; a candidate drawn twice is taken once."""
    chosen = candidates.units_taken()
    choose_again(candidates.offsets, candidates.eligible, budget, rng.streams(), 1, chosen)
    return chosen


def take_by_weight(candidates: Candidates, budget: Array, rng: RowRng) -> Array:
    """Draw candidates in proportion to their scores, without replacement."""
    offsets, eligible, score, _, overrun = candidates
    assert score is not None  # noqa: S101 - checked by `Order`
    costs, taken = candidates.filled()
    fill_weighted(offsets, eligible, score, costs, budget, overrun, rng.streams(), taken)
    return taken


def take_first(candidates: Candidates, budget: Array, _draws: RowRng) -> Array:
    """Take candidates from the row's start."""
    return _take_by_rank(
        candidates, candidates.eligible, np.zeros(len(candidates.eligible)), budget
    )


def take_lowest(candidates: Candidates, budget: Array, _draws: RowRng) -> Array:
    """Take candidates in order of rising score; ties from the row's start."""
    assert candidates.score is not None  # noqa: S101 - checked by `Order`
    return _take_by_rank(candidates, candidates.eligible, candidates.score, budget)


def take_highest(candidates: Candidates, budget: Array, _draws: RowRng) -> Array:
    """Take candidates with a positive score in falling order; ties from the row's start."""
    score = candidates.score
    assert score is not None  # noqa: S101 - checked by `Order`
    return _take_by_rank(candidates, candidates.eligible & (score > 0), -score, budget)


def _take_by_rank(candidates: Candidates, eligible: Array, ranks: Array, budget: Array) -> Array:
    costs, taken = candidates.filled()
    fill_ranked(candidates.offsets, eligible, ranks, costs, budget, candidates.overrun, taken)
    return taken


_TAKE: dict[OrderName, Callable[[Candidates, Array, RowRng], Array]] = {
    "uniform": take_uniform,
    "weighted": take_by_weight,
    "highest": take_highest,
    "lowest": take_lowest,
    "first": take_first,
    "bernoulli": take_bernoulli,
    "with_replacement": take_with_replacement,
}
