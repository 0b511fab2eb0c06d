"""Picks made of other picks: a choice by row or epoch, or fewer of another pick's tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Meta
from msgspec.structs import replace

from mslm_data.data.examples import Examples
from mslm_data.kernels.choose import choose_each, choose_uniform
from mslm_data.mask.budget import quotas
from mslm_data.mask.eligible import real_tokens
from mslm_data.mask.listed_picks import InOrder, Occurrences
from mslm_data.mask.pick import AnyPick, Pick, run
from mslm_data.mask.plan import MaskKind, PlanBuilder
from mslm_data.mask.rate import Rate, Share, follows_training, rate_at
from mslm_data.mask.rng import BRANCH, RowRng
from mslm_data.mask.span_picks import GrowSpans, PlaceSpans
from mslm_data.registry import Options


class HasNeeds(Protocol):
    """A pick or a strategy."""

    @property
    def needs(self) -> frozenset[str]:
        """The columns that it reads; see `Strategy.needs`."""


def combined_needs(parts: Iterable[HasNeeds]) -> frozenset[str]:
    """Return the union of the columns that picks or strategies read."""
    return frozenset(need for part in parts for need in part.needs)


class OneOf(Options, frozen=True, kw_only=True, tag_field="use", tag="one-of"):
    """Draw one of several lists of picks for each row.

    Raises:
        ValueError: The numbers of chances and ways differ, a chance is negative, or the chances sum
            to more than 1.
    """

    chances: Annotated[
        tuple[float, ...],
        Meta(
            description="Probability of each way. If they sum to less than 1, the remaining rows "
            "are not masked."
        ),
    ]
    ways: Annotated[
        tuple[tuple[ShippedPick, ...], ...],
        Meta(description="The picks of each way, in order."),
    ]

    def __post_init__(self) -> None:
        check_chances(self.chances)
        if len(self.chances) != len(self.ways):
            raise ValueError(
                f"chances: expected one for each of {len(self.ways)} ways, got {len(self.chances)}"
            )

    @property
    def needs(self) -> frozenset[str]:
        return combined_needs(pick for way in self.ways for pick in way)

    @property
    def follows_training(self) -> bool:
        return any(pick.follows_training for way in self.ways for pick in way)

    def mask(self, examples: Examples, rng: RowRng, builder: PlanBuilder) -> None:
        way_of_row = choose_ways(self.chances, rng)

        # Each way masks all rows of a copy. Each row then keeps the masks of its own way.
        for way, picks in enumerate(self.ways):
            branch = builder.branch()
            run(picks, examples, rng.for_pick(way), branch)
            builder.take_rows(branch.plan(examples), way_of_row == way)


class ByEpoch(Options, frozen=True, kw_only=True, tag_field="use", tag="by-epoch"):
    """Use one list of picks after the other, each for some epochs, the last to the end.

    Raises:
        ValueError: `epochs` does not have one number per way but the last, or a number is negative.
    """

    epochs: Annotated[
        tuple[Annotated[int, Meta(ge=0)], ...],
        Meta(
            description="Number of epochs of each way. The last way has none, and lasts to the end."
        ),
    ]
    ways: Annotated[
        tuple[tuple[ShippedPick, ...], ...], Meta(description="The picks of each way, in order.")
    ]

    def __post_init__(self) -> None:
        if len(self.epochs) != len(self.ways) - 1:
            raise ValueError(
                f"epochs: expected one number for each of {len(self.ways)} ways but the last, got "
                f"{len(self.epochs)}"
            )

    @property
    def needs(self) -> frozenset[str]:
        return combined_needs(pick for way in self.ways for pick in way)

    @property
    def follows_training(self) -> bool:
        return any(pick.follows_training for way in self.ways for pick in way)

    def mask(self, examples: Examples, rng: RowRng, builder: PlanBuilder) -> None:
        way = int(np.searchsorted(np.cumsum(self.epochs), rng.epoch, side="right"))
        # An epoch uses a single way, so all ways can share the streams of way 0.
        run(self.ways[way], examples, rng.for_pick(0), builder)


class WithoutMentions(Options, frozen=True, kw_only=True, tag_field="use", tag="without-mentions"):
    """Run a pick only in rows without mentions."""

    pick: Annotated[
        Pick,
        Meta(
            description="The pick. In these rows, its unspent budget replaces that of earlier "
            "picks."
        ),
    ]

    @property
    def needs(self) -> frozenset[str]:
        return self.pick.needs | {"mentions"}

    @property
    def follows_training(self) -> bool:
        return self.pick.follows_training

    def mask(self, examples: Examples, rng: RowRng, builder: PlanBuilder) -> None:
        branch = builder.branch()
        self.pick.mask(examples, rng, branch)

        # `take_rows` adds unspent budgets, so those of earlier picks are removed first.
        rows = examples.span_starts.lengths == 0
        builder.unspent[rows] = 0
        builder.take_rows(branch.plan(examples), rows)


class Hints(Options, frozen=True, kw_only=True, tag_field="use", tag="hints"):
    """Run a pick of the highest scores, then unmask some of its top units.

    Raises:
        ValueError: `show` is outside `[0, 1]`, or the pick has a random order, which has no top.
    """

    pick: Annotated[Pick, Meta(description="The pick, with a rate r.")]
    show: Annotated[
        Share,
        Meta(
            description="Share of the row's tokens that form the top. `show * r` of the row's "
            "tokens are drawn uniformly from the top and unmasked."
        ),
    ]

    def __post_init__(self) -> None:
        if not self.pick.order.has_top:
            raise ValueError(
                f"pick: expected order 'highest', 'lowest' or 'first', got '{self.pick.order.by}'"
            )

    @property
    def needs(self) -> frozenset[str]:
        return self.pick.needs

    @property
    def follows_training(self) -> bool:
        return self.pick.follows_training

    def mask(self, examples: Examples, rng: RowRng, builder: PlanBuilder) -> None:
        # The top: run the pick with `show` as its rate, on a copy and without a gate.
        top = builder.branch()
        budget = replace(self.pick.budget, rate=self.show, gate=1.0)
        replace(self.pick, budget=budget).mask(examples, rng, top)
        top.kinds[builder.kinds > 0] = 0

        self.pick.mask(examples, rng, builder)

        # Draw `show * r` of the row's tokens from the top, and unmask them.
        rate = self.show * rate_at(self.pick.budget.rate, rng)
        counts = quotas(rate, real_tokens(examples), "down", rng)
        pool = (top.kinds > 0).astype(np.uint8)
        offsets = examples.input_ids.offsets
        choose_uniform(offsets, pool, counts, rng.streams(), MaskKind.NONE.value, builder.kinds)


class Bernoulli(Options, frozen=True, kw_only=True, tag_field="use", tag="bernoulli"):
    """Mask each token that another pick would mask, independently with a probability.

    Raises:
        ValueError: `rate` is outside `[0, 1]`.
    """

    pick: Annotated[Pick, Meta(description="The pick whose tokens are eligible.")]
    rate: Annotated[Rate, Meta(description="Probability of each of its tokens.")]

    @property
    def needs(self) -> frozenset[str]:
        return self.pick.needs

    @property
    def follows_training(self) -> bool:
        return self.pick.follows_training or follows_training(self.rate)

    def mask(self, examples: Examples, rng: RowRng, builder: PlanBuilder) -> None:
        # The nested pick has its own stream, so its choices do not correlate with these.
        nested = builder.branch()
        self.pick.mask(examples, rng.for_pick(0), nested)

        rates = np.broadcast_to(rate_at(self.rate, rng), len(examples))
        lengths = examples.input_ids.lengths
        chances = ((nested.kinds > 0) & (builder.kinds == 0)) * np.repeat(rates, lengths)
        offsets = examples.input_ids.offsets
        chosen = np.zeros_like(builder.kinds)
        choose_each(offsets, chances, rng.streams(), 1, chosen)
        np.copyto(builder.kinds, nested.kinds, where=chosen > 0)


ShippedPick = (
    Pick
    | PlaceSpans
    | GrowSpans
    | InOrder
    | Occurrences
    | OneOf
    | ByEpoch
    | WithoutMentions
    | Hints
    | Bernoulli
)
"""All picks. A table names one by `use`."""


def simple_picks(picks: Sequence[AnyPick]) -> Iterator[AnyPick]:
    """Yield picks, with combined picks replaced by the picks inside them."""
    for pick in picks:
        match pick:
            case OneOf() | ByEpoch():
                for way in pick.ways:
                    yield from simple_picks(way)
            case WithoutMentions() | Hints() | Bernoulli():
                yield from simple_picks([pick.pick])
            case _:
                yield pick


def choose_ways(chances: Sequence[float], rng: RowRng) -> npt.NDArray[np.int64]:
    """Draw the way of each row, int64 `[N]`; the number of ways for rows without one."""
    return np.searchsorted(np.cumsum(chances), rng.uniforms(BRANCH), side="right")


def check_chances(chances: Sequence[float]) -> None:
    """Check that chances are probabilities with a sum of at most 1.

    Raises:
        ValueError: A chance is negative or NaN, or the sum exceeds 1.
    """
    if not (all(chance >= 0 for chance in chances) and sum(chances) <= 1 + 1e-9):
        raise ValueError(
            f"chances: expected numbers in [0, 1] with a sum of at most 1, got a sum of "
            f"{sum(chances):g}"
        )
