"""Orders: choose the candidates of each row to mask, until its budget is spent.

An order is a function `take(candidates, budget, rng)`. Orders differ in three points: whether they
are random, whether they use scores, and whether they spend a budget or mask each candidate with a
probability. Kernels are in `kernels/choose.py` if each candidate costs 1, and in `kernels/fill.py`
if it costs its number of tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple

import numpy as np
from msgspec import Meta

from mslm_data.data.ragged import Array
from mslm_data.kernels.choose import choose_again, choose_bernoulli, choose_each, choose_uniform
from mslm_data.kernels.fill import CUT, SKIP, STOP, fill_ranked, fill_uniform, fill_weighted
from mslm_data.mask.rng import RowRng
from mslm_data.mask.score import Score
from mslm_data.registry import Options

OrderName = Literal[
    "uniform", "weighted", "highest", "lowest", "first", "bernoulli", "with_replacement"
]

OVERRUNS = {"cut": CUT, "skip": SKIP, "stop": STOP}
"""Value of `Budget.overrun` -> constant of the kernels."""


class Order(Options, frozen=True):
    """The order in which units are masked until the budget is spent.

    Raises:
        ValueError: The order needs a score and has none, or has a score and does not use it.
    """

    by: Annotated[
        OrderName,
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

    def __post_init__(self) -> None:
        scored = ("weighted", "highest", "lowest")
        if self.score is None and self.by in scored:
            raise ValueError(f"order: expected a score for '{self.by}', got none")
        if self.score is not None and self.by not in (*scored, "bernoulli"):
            expected = "'weighted', 'highest', 'lowest' or 'bernoulli'"
            raise ValueError(f"order: expected {expected} with a score, got '{self.by}'")

    @property
    def spends(self) -> bool:
        """Whether the order spends a budget. `bernoulli` has a probability per unit instead."""
        return self.by != "bernoulli"

    @property
    def has_top(self) -> bool:
        """Whether the order is deterministic, so that its first units are the top."""
        return self.by in ("highest", "lowest", "first")

    @property
    def may_cut(self) -> bool:
        """Whether units can cost their number of tokens, and be cut at the end of the budget."""
        return self.by not in ("bernoulli", "with_replacement")

    def take(self, candidates: Candidates, budget: Array, rng: RowRng) -> Array:
        """Return the amount taken of each candidate, `[C]`, in the unit of the budget.

        Args:
            candidates: C candidates of N rows.
            budget: int64 `[N]`, reduced in place by the amount taken. For `bernoulli`, the
                probability of each row's candidates instead: float64 `[N]`, or `[]` for all rows.
            rng: Random numbers of the pick.
        """
        return _TAKE[self.by](candidates, budget, rng)


class Candidates(NamedTuple):
    """The C units or tokens of N rows from which a pick chooses.

    Attributes:
        offsets: int64 `[N + 1]`, offsets of the candidates.
        eligible: uint8 `[C]`, 1 for eligible candidates.
        score: float64 `[C]`, or None if the order uses no score.
        costs: int64 `[C]`, the cost of each candidate, or None if each costs 1.
        overrun: CUT, SKIP or STOP, the action for a candidate that exceeds the remaining budget.
    """

    offsets: Array
    eligible: Array
    score: Array | None
    costs: Array | None
    overrun: int

    def units_taken(self) -> Array:
        """Allocate the output of kernels that take candidates whole: uint8 zeros `[C]`."""
        return np.zeros(len(self.eligible), np.uint8)

    def filled(self) -> tuple[Array, Array]:
        """Return costs, and zeros for the output of kernels that may cut units, int64 `[C]`."""
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
    """Draw candidates with replacement. A candidate drawn twice is taken once."""
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
    """Take candidates from the start of the row."""
    return _take_by_rank(
        candidates, candidates.eligible, np.zeros(len(candidates.eligible)), budget
    )


def take_lowest(candidates: Candidates, budget: Array, _draws: RowRng) -> Array:
    """Take candidates by ascending score. Ties are taken from the start of the row."""
    assert candidates.score is not None  # noqa: S101 - checked by `Order`
    return _take_by_rank(candidates, candidates.eligible, candidates.score, budget)


def take_highest(candidates: Candidates, budget: Array, _draws: RowRng) -> Array:
    """Take candidates with a positive score by descending score. Ties as in `take_lowest`."""
    score = candidates.score
    assert score is not None  # noqa: S101 - checked by `Order`
    return _take_by_rank(candidates, candidates.eligible & (score > 0), -score, budget)


def _take_by_rank(candidates: Candidates, eligible: Array, ranks: Array, budget: Array) -> Array:
    # The kernel fills by ascending rank, so `take_highest` negates scores.
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
"""Value of `Order.by` -> function."""
