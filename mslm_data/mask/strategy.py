"""Strategies: what decides which tokens are predicted and why.

A strategy is a `Recipe` of picks and a corruption, a `Mixture` of strategies by row, or a
`Curriculum` of strategies by epoch. All keep the same laws: a row's mask is a pure function of its
key, the seed, the epoch and the strategy, and special tokens are never masked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from mslm_data.data.examples import Examples, check_examples
from mslm_data.data.ragged import Ragged
from mslm_data.draw import shown
from mslm_data.draw.parts import table, text
from mslm_data.draw.sample import sample
from mslm_data.draw.sentences import HIDDEN, OFTEN
from mslm_data.errors import MslmDataError
from mslm_data.mask.combined_picks import check_chances, combined_needs, simple_picks, which_way
from mslm_data.mask.corruption import Corruption, corrupt
from mslm_data.mask.listed_picks import Scattered
from mslm_data.mask.pick import AnyPick, run
from mslm_data.mask.plan import MaskPlan, PlanBuilder
from mslm_data.mask.rng import MAX_PICKS, RowRng, check_count
from mslm_data.mask.span_picks import GrowSpans, PlaceSpans
from mslm_data.mask.toml import dump, table_of
from mslm_data.registry import Help


@dataclass(frozen=True, slots=True)
class Origin:
    """How a strategy was made, for reports and for making it again with other options.

    Attributes:
        name: Its registered name, such as `joint.v1`.
        options: Its options, defaults included.
    """

    name: str
    options: Mapping[str, Any]


class Strategy(ABC):
    """Decides which tokens are predicted and why, then what the model sees in their place.

    Attributes:
        origin: How it was made, or None for one that a caller put together from picks.
    """

    __slots__ = ()

    origin: Origin | None

    @property
    @abstractmethod
    def needs(self) -> frozenset[str]:
        """The columns that rows must bring so that the strategy masks what it says.

        A set of `word_ids` (each row's words), `mentions`, and `scores` (a score column that has
        the rows' keys). Rows without these are planned without an error, but too little is masked.
        """

    @property
    @abstractmethod
    def follows_training(self) -> bool:
        """Whether a rate depends on how far training is, so that `plan` must be told.

        How far it is, is the number of its step, or of the tokens that were given before.
        """

    @abstractmethod
    def plan_with(self, examples: Examples, rng: RowRng) -> MaskPlan:
        """Plan with given draws; `plan` is for callers."""

    @abstractmethod
    def corrupt_with(self, examples: Examples, plan: MaskPlan, rng: RowRng) -> Ragged:
        """Corrupt with given draws; `corrupt` is for callers."""

    def plan(
        self,
        examples: Examples,
        *,
        seed: int = 0,
        epoch: int = 0,
        step: int | None = None,
        tokens: int | None = None,
    ) -> MaskPlan:
        """Decide which tokens are predicted, as a pure function of row, seed, epoch and strategy.

        Args:
            examples: N rows, any batch of them in any order.
            seed: In `[0, 2**63)`.
            epoch: Which pass over the data, in `[0, 2**63)`; always 0 gives a static mask.
            step: Which training step; read only by rates that follow the step.
            tokens: Tokens that training was given before; read only by rates that follow them.

        Raises:
            TypeError: Not rows, such as a whole split.
            ValueError: A number is out of range, or a rate follows the step or the tokens and none
                came.
            VocabularyError: A lexicon or score column is missing, damaged, or of other shards.
        """
        check_examples("examples", examples)
        check_count("seed", seed)
        check_count("epoch", epoch)
        if step is not None:
            check_count("step", step)
        if tokens is not None and tokens < 0:
            raise ValueError(f"tokens: expected 0 or more, got {tokens}")
        return self.plan_with(
            examples, RowRng(keys=examples.keys, seed=seed, epoch=epoch, step=step, tokens=tokens)
        )

    def corrupt(
        self, examples: Examples, plan: MaskPlan, *, seed: int = 0, epoch: int = 0
    ) -> Ragged:
        """Return the ids with the planned tokens replaced.

        Args:
            examples: The rows of the plan.
            plan: What `plan` returned, or a plan of the caller's own.
            seed: Of the plan, for mixtures; other strategies take any.
            epoch: Of the plan, for mixtures and curricula; other strategies take any.

        Raises:
            ValueError: Seed or epoch is out of range, the plan is of other rows, or the tokenizer
                has no mask token.
        """
        check_count("seed", seed)
        check_count("epoch", epoch)
        return self.corrupt_with(examples, plan, RowRng(keys=examples.keys, seed=seed, epoch=epoch))

    @abstractmethod
    def table(self) -> dict[str, Any]:
        """Return the table of a TOML file that gives this strategy."""

    def __repr__(self) -> str:
        """Return the TOML file that gives this strategy."""
        return dump(self.table(), "mask")

    def _repr_html_(self) -> str:
        """Return what it masks of a sentence, once and in many epochs, as notebooks show it."""
        name = "a strategy of your own"
        options: list[tuple[str, Any]] = []
        if self.origin is not None:
            name = self.origin.name
            options = [(option, repr(value)) for option, value in self.origin.options.items()]
        title = f"<p><b>{text(name)}</b></p>"

        try:
            once = sample().side_by_side({"one epoch": self}, seed=0)
            often = sample().heat(self, seed=0)
        except (ValueError, MslmDataError) as error:
            return shown(title, f'<p class="soft">{text(error)}</p>', _table_of_options(options))
        return shown(title, HIDDEN, once, OFTEN, often, _table_of_options(options))


@dataclass(frozen=True, slots=True, repr=False)
class Recipe(Strategy):
    """Mask what a list of picks says, each from what those before it left, and then corrupt it.

    Raises:
        ValueError: No pick, or more than `MAX_PICKS`; or one that does not say which tokens are a
            unit, with a corruption by units.
    """

    picks: Annotated[tuple[Any, ...], Help("One or more picks, in order.")]
    corruption: Annotated[Corruption, Help("What stands in the place of masked tokens.")] = field(
        default_factory=Corruption
    )
    origin: Origin | None = field(
        default=None, compare=False, kw_only=True, metadata={"option": False}
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "picks", tuple(self.picks))
        if not 1 <= len(self.picks) <= MAX_PICKS:
            raise ValueError(f"picks: expected 1 to {MAX_PICKS}, got {len(self.picks)}")
        if self.corruption.by == "unit":
            _check_units(self.picks)

    @property
    def needs(self) -> frozenset[str]:
        return combined_needs(self.picks) | self.corruption.needs

    @property
    def follows_training(self) -> bool:
        return any(pick.follows_training for pick in self.picks)

    def table(self) -> dict[str, Any]:
        return {
            "corruption": table_of(self.corruption),
            "picks": [table_of(pick) for pick in self.picks],
        }

    def plan_with(self, examples: Examples, rng: RowRng) -> MaskPlan:
        builder = PlanBuilder.empty(examples, with_units=self.corruption.by == "unit")
        run(self.picks, examples, rng, builder)
        return builder.plan(examples)

    def corrupt_with(self, examples: Examples, plan: MaskPlan, rng: RowRng) -> Ragged:
        # A plan does not depend on the corruption.
        return corrupt(examples, plan, self.corruption, seed=rng.seed, epoch=rng.epoch)


@dataclass(frozen=True, slots=True, repr=False)
class Mixture(Strategy):
    """Mask as one of several strategies does, drawn anew for each row in each epoch.

    A row's mask is the one that the strategy it falls to would give it alone. A mixture within a
    mixture draws its choices from a stream that the ways taken so far name.

    Raises:
        ValueError: No strategy, not one chance for each, a negative chance, or chances that exceed
            1 together.
    """

    parts: Annotated[tuple[Strategy, ...], Help("The strategies.")]
    chances: Annotated[
        tuple[float, ...], Help("The chance of each. With what is left of 1, nothing is masked.")
    ]
    origin: Origin | None = field(
        default=None, compare=False, kw_only=True, metadata={"option": False}
    )

    def __post_init__(self) -> None:
        check_chances(self.chances)
        if not self.parts or len(self.parts) != len(self.chances):
            raise ValueError(
                f"parts: expected one or more, with a chance each, got {len(self.parts)} and "
                f"{len(self.chances)} chances"
            )

    @property
    def needs(self) -> frozenset[str]:
        return combined_needs(self.parts)

    @property
    def follows_training(self) -> bool:
        return any(part.follows_training for part in self.parts)

    def table(self) -> dict[str, Any]:
        return {
            "use": "mixture",
            "chances": list(self.chances),
            "parts": [part.table() for part in self.parts],
        }

    def ways(self, rng: RowRng) -> npt.NDArray[np.int64]:
        """Return which strategy each row falls to, `[N]`; past the last for none."""
        return which_way(self.chances, rng.for_mixture())

    def plan_with(self, examples: Examples, rng: RowRng) -> MaskPlan:
        plans = [part.plan_with(examples, rng.for_way(way)) for way, part in enumerate(self.parts)]

        with_units = any(plan.continues_unit is not None for plan in plans)
        builder = PlanBuilder.empty(examples, with_units=with_units)
        ways = self.ways(rng)
        for way, plan in enumerate(plans):
            builder.take_rows(
                _to_builder(plan, with_units=with_units), ways == way, examples.input_ids.lengths
            )
        return builder.plan(examples)

    def corrupt_with(self, examples: Examples, plan: MaskPlan, rng: RowRng) -> Ragged:
        # The ways are drawn anew, so seed and epoch must be those of the plan.
        ids = examples.input_ids
        way_of_token = np.repeat(self.ways(rng), ids.lengths)

        out = ids.values.copy()
        for way, part in enumerate(self.parts):
            masked = part.corrupt_with(examples, plan, rng.for_way(way))
            np.copyto(out, masked.values, where=way_of_token == way)
        return Ragged(out, ids.offsets)


@dataclass(frozen=True, slots=True, repr=False)
class Curriculum(Strategy):
    """Mask as one strategy after the other does, each for some epochs, the last for ever.

    Raises:
        ValueError: No strategy, not one number for each but the last, or a number below 1.
    """

    parts: Annotated[tuple[Strategy, ...], Help("The strategies.")]
    epochs: Annotated[
        tuple[int, ...], Help("How many epochs each strategy but the last takes, 1 or more.")
    ] = ()
    origin: Origin | None = field(
        default=None, compare=False, kw_only=True, metadata={"option": False}
    )

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError("parts: expected one strategy or more, got none")
        if len(self.epochs) != len(self.parts) - 1 or min(self.epochs, default=1) < 1:
            raise ValueError(
                "epochs: expected 1 or more for each strategy but the last, got "
                f"{list(self.epochs)} for {len(self.parts)}"
            )

    @property
    def needs(self) -> frozenset[str]:
        return combined_needs(self.parts)

    @property
    def follows_training(self) -> bool:
        return any(part.follows_training for part in self.parts)

    def table(self) -> dict[str, Any]:
        return {
            "use": "curriculum",
            "epochs": list(self.epochs),
            "parts": [part.table() for part in self.parts],
        }

    def at(self, epoch: int) -> Strategy:
        """Return the strategy of an epoch."""
        for end, part in zip(accumulate(self.epochs), self.parts, strict=False):
            if epoch < end:
                return part
        return self.parts[-1]

    def plan_with(self, examples: Examples, rng: RowRng) -> MaskPlan:
        return self.at(rng.epoch).plan_with(examples, rng)

    def corrupt_with(self, examples: Examples, plan: MaskPlan, rng: RowRng) -> Ragged:
        # The epoch must be that of the plan.
        return self.at(rng.epoch).corrupt_with(examples, plan, rng)


def _table_of_options(options: list[tuple[str, Any]]) -> str:
    """Return the options of a strategy as an HTML table; "" if it has none."""
    return table(("option", ""), options) if options else ""


def _check_units(picks: Sequence[AnyPick]) -> None:
    """Refuse picks that mask tokens without saying which of them are a unit.

    Raises:
        ValueError: There is one.
    """
    for pick in simple_picks(picks):
        if isinstance(pick, PlaceSpans | GrowSpans | Scattered):
            raise ValueError(
                f"corruption: expected a pick of units with by = 'unit', got '{pick.tag}', whose "
                "tokens belong to none; use by = 'run' or 'word'"
            )


def _to_builder(plan: MaskPlan, *, with_units: bool) -> PlanBuilder:
    """Return a plan as a builder that another can copy rows from."""
    kinds = plan.kinds.values
    unspent = np.zeros(len(plan.kinds), np.int64) if plan.unspent is None else plan.unspent
    continues_unit = None
    if with_units:
        continues_unit = np.zeros_like(kinds)
        if plan.continues_unit is not None:
            continues_unit = plan.continues_unit.values
    return PlanBuilder(kinds=kinds, unspent=unspent, continues_unit=continues_unit)
