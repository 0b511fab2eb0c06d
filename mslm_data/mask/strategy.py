"""Strategies: choose the tokens to predict, then corrupt the input.

A strategy is a `Recipe` of picks and a corruption, a `Mixture` with a strategy per row, or a
`Curriculum` with one strategy after the other. In all of them, a row's mask is a pure function of
its key, the seed, the time in training and the strategy, and special tokens are never masked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta, to_builtins

from mslm_data.data.examples import Examples, check_examples
from mslm_data.data.ragged import Ragged
from mslm_data.draw import macros, notebook_html
from mslm_data.draw.sample import sample
from mslm_data.errors import CallError, MslmDataError, place_of
from mslm_data.io.toml import dump
from mslm_data.mask.corruption import Corruption, corrupt
from mslm_data.mask.ingredient import combined_needs
from mslm_data.mask.listed_picks import InOrder, Occurrences
from mslm_data.mask.pick import Pick, run
from mslm_data.mask.plan import MaskPlan, Objective, PlanBuilder
from mslm_data.mask.rng import WAY, RowRng, check_count
from mslm_data.mask.sentinels import sentinels_in_place
from mslm_data.mask.span_picks import ComposeSpans, GrowSpans, PlaceSpans


@dataclass(frozen=True, slots=True)
class Origin:
    """The name and options of a strategy made by name, for reports and variants.

    Attributes:
        name: Registered name with version, such as `joint.v1`.
        options: All options, with defaults.
    """

    name: str
    options: Mapping[str, Any]


class Strategy(ABC):
    """Base class of strategies: chooses the tokens to predict, then corrupts the input.

    Attributes:
        origin: Name and options, or None if the strategy was not made by name.
    """

    __slots__ = ()

    origin: Origin | None

    @property
    @abstractmethod
    def needs(self) -> frozenset[str]:
        """The columns that the strategy reads: a subset of `word_ids`, `mentions` and `scores`.

        `scores` is a score column with the keys of the rows. Rows without a needed column raise no
        error, but have too few tokens masked.
        """

    @property
    @abstractmethod
    def follows_training(self) -> bool:
        """Whether masks depend on the training step or the number of tokens seen."""

    @property
    def objectives(self) -> frozenset[Objective]:
        """The objectives of its plans: several only for a curriculum. Default: `MASKED`."""
        return frozenset({Objective.MASKED})

    @abstractmethod
    def plan_with(self, examples: Examples, rng: RowRng) -> MaskPlan:
        """Make the plan with the rows' random numbers. Called by `plan`."""

    @abstractmethod
    def corrupt_with(self, examples: Examples, plan: MaskPlan, rng: RowRng) -> Ragged:
        """Replace the planned tokens. Called by `corrupt`."""

    def plan(
        self,
        examples: Examples,
        *,
        seed: int = 0,
        epoch: int = 0,
        step: int | None = None,
        tokens: int | None = None,
    ) -> MaskPlan:
        """Choose the tokens to predict, as a pure function of row, seed, epoch and strategy.

        Args:
            examples: N rows, in any order.
            seed: In `[0, 2**63)`. Default: 0.
            epoch: In `[0, 2**63)`. Pass 0 in every epoch for static masks. Default: 0.
            step: Training step, for rates and curricula that depend on it. Default: None.
            tokens: Number of tokens seen in training, likewise. Default: None.

        Raises:
            TypeError: `examples` is not `Examples` but, for example, a whole split.
            ValueError: A number is out of range, a rate needs `step` or `tokens`, or the strategy
                is the user's own and made an error.
            VocabularyError: A lexicon or score column is missing, damaged, or made for other
                shards.
        """
        check_examples("examples", examples)
        check_count("seed", seed)
        check_count("epoch", epoch)
        if step is not None:
            check_count("step", step)
        if tokens is not None and tokens < 0:
            raise ValueError(f"tokens: expected 0 or more, got {tokens}")
        rng = RowRng(keys=examples.keys, seed=seed, epoch=epoch, step=step, tokens=tokens)
        with _named_errors(self):
            return self.plan_with(examples, rng)

    def corrupt(
        self, examples: Examples, plan: MaskPlan, *, seed: int = 0, epoch: int = 0
    ) -> Ragged:
        """Return the ids with the planned tokens replaced.

        Args:
            examples: The rows of the plan.
            plan: The result of `plan`, or your own plan.
            seed: Seed of the random ids. A mixture needs the seed of the plan. Default: 0.
            epoch: Epoch of the random ids. A mixture needs the epoch of the plan. Default: 0.

        Raises:
            ValueError: Seed or epoch is out of range, the plan belongs to other rows, or the
                tokenizer has no mask token.
        """
        check_count("seed", seed)
        check_count("epoch", epoch)
        rng = RowRng(keys=examples.keys, seed=seed, epoch=epoch)
        with _named_errors(self):
            return self.corrupt_with(examples, plan, rng)

    def seen(self, examples: Examples, plan: MaskPlan, *, seed: int = 0, epoch: int = 0) -> Ragged:
        """Return the ids that the model sees, each at the place of its token, to draw rows.

        Args:
            examples: The rows of the plan.
            plan: The result of `plan`.
            seed: See `corrupt`. Default: 0.
            epoch: See `corrupt`. Default: 0.

        Returns:
            int32, with the offsets of the rows. As `corrupt`, but with sentinels the tokens of a
            run after its first are -1.

        Raises:
            ValueError: See `corrupt`.
        """
        if plan.objective == Objective.SENTINELS:
            return sentinels_in_place(examples, plan.kinds.values)
        return self.corrupt(examples, plan, seed=seed, epoch=epoch)

    @abstractmethod
    def table(self) -> dict[str, Any]:
        """Return the strategy as the table `[mask]` of a TOML file."""

    def __repr__(self) -> str:
        """Return the strategy as a TOML file."""
        return dump({"mask": self.table()})

    def _repr_html_(self) -> str:
        """Return its masks of a sample sentence as HTML, in one epoch and over many."""
        name = "a strategy of your own"
        options: list[tuple[str, Any]] = []
        if self.origin is not None:
            name = self.origin.name
            options = [(option, repr(value)) for option, value in self.origin.options.items()]
        parts = macros("parts.html")
        rows = macros("rows.html")
        table = parts.table(("option", "value"), options) if options else ""

        try:
            one_epoch = sample().side_by_side({"one epoch": self}, seed=0)
            many_epochs = sample().heat(self, seed=0)
        except (ValueError, MslmDataError) as error:
            # The sample has no lexicon or score column, and no training step.
            return notebook_html(parts.title(name), parts.soft(str(error)), table)
        return notebook_html(
            parts.title(name), rows.legend(), one_epoch, rows.ramp(), many_epochs, table
        )


_COLUMNS = {"word_ids", "mentions", "scores"}
"""Columns that a strategy may need."""


@contextmanager
def _named_errors(strategy: Strategy) -> Iterator[None]:
    """Check what a strategy of the user's own needs, and add its name to errors of its code.

    Raises:
        CallError: It needs unknown columns, or its code made an error, which is the cause.
    """
    kind = type(strategy)
    if kind.__module__.startswith("mslm_data."):
        yield
        return

    place = f"strategy '{kind.__module__}:{kind.__qualname__}'"
    if unknown := strategy.needs - _COLUMNS:
        raise CallError(
            f"{place}: needs: expected some of {', '.join(sorted(_COLUMNS))}, got "
            f"{', '.join(sorted(unknown))}"
        )
    try:
        yield
    except CallError as error:  # as `MaskPlan.from_kinds` raises it
        raise CallError(f"{place}: {error}") from error
    except MslmDataError:
        raise
    except Exception as error:
        # The user's code may raise anything, and its message may contain text of the rows.
        raise CallError(f"{place}: {type(error).__name__} in {place_of(error)}") from error


ShippedPick = Pick | PlaceSpans | GrowSpans | ComposeSpans | InOrder | Occurrences
"""All picks. A table names one by `use`."""


@dataclass(frozen=True, slots=True, repr=False)
class Recipe(Strategy):
    """Mask with a list of picks, each on the tokens not masked by earlier picks.

    Raises:
        ValueError: There are no picks; a value of a pick is wrong; or the corruption replaces whole
            units (`by = "unit"`) and a pick masks tokens outside units.
    """

    picks: Annotated[
        tuple[ShippedPick, ...], Meta(description="Picks, in order of execution. At least one.")
    ]
    corruption: Annotated[Corruption, Meta(description="How masked tokens are replaced.")] = field(
        default_factory=Corruption
    )
    origin: Origin | None = field(default=None, init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "picks", tuple(self.picks))
        try:
            # Picks that were made by direct calls are not checked yet.
            msgspec.convert(to_builtins(self.picks), tuple[ShippedPick, ...])
        except msgspec.ValidationError as error:
            raise ValueError(f"picks: {error}") from None
        if not self.picks:
            raise ValueError("picks: expected one or more, got none")
        for pick in self.picks:
            if self.corruption.by == "unit" and isinstance(
                pick, PlaceSpans | GrowSpans | ComposeSpans
            ):
                raise ValueError(
                    "corruption: by = 'unit' needs picks of units, but "
                    f"'{pick.__struct_config__.tag}' masks no units; use by = 'run' or 'word'"
                )

    @property
    def needs(self) -> frozenset[str]:
        return combined_needs(self.picks) | self.corruption.needs

    @property
    def follows_training(self) -> bool:
        return any(pick.follows_training for pick in self.picks)

    @property
    def objectives(self) -> frozenset[Objective]:
        return frozenset({self._objective})

    @property
    def _objective(self) -> Objective:
        return Objective.SENTINELS if self.corruption.is_sentinels else Objective.MASKED

    def table(self) -> dict[str, Any]:
        return {
            "corruption": to_builtins(self.corruption),
            "picks": to_builtins(self.picks),
        }

    def plan_with(self, examples: Examples, rng: RowRng) -> MaskPlan:
        builder = PlanBuilder.empty(examples, with_units=self.corruption.by == "unit")
        run(self.picks, examples, rng, builder)
        return replace(builder.plan(examples), objective=self._objective)

    def corrupt_with(self, examples: Examples, plan: MaskPlan, rng: RowRng) -> Ragged:
        # The plan does not depend on the corruption, so any seed and epoch will do here.
        return corrupt(examples, plan, self.corruption, seed=rng.seed, epoch=rng.epoch)


@dataclass(frozen=True, slots=True, repr=False)
class Mixture(Strategy):
    """Mask each row with one of several strategies, drawn in each epoch.

    A row gets the same mask as from its strategy alone. Each nested mixture draws from its own
    stream.

    Raises:
        ValueError: There is no strategy, the numbers of strategies and chances differ, a chance is
            negative, the chances sum to more than 1, a part is a curriculum or `causal`, or some
            parts have sentinels and others have not.
    """

    parts: Annotated[tuple[Strategy, ...], Meta(description="The strategies.")]
    chances: Annotated[
        tuple[float, ...],
        Meta(
            description="Probability of each strategy. If they sum to less than 1, the remaining "
            "rows are not masked."
        ),
    ]
    origin: Origin | None = field(default=None, init=False, compare=False)

    def __post_init__(self) -> None:
        if not (all(chance >= 0 for chance in self.chances) and sum(self.chances) <= 1 + 1e-9):
            raise ValueError(
                "chances: expected numbers in [0, 1] with a sum of at most 1, got a sum of "
                f"{sum(self.chances):g}"
            )
        _check_parts(self.parts)
        for part in self.parts:
            if Objective.CAUSAL in part.objectives:
                name = "a part" if part.origin is None else f"'{part.origin.name}'"
                raise ValueError(
                    f"parts: {name} does not mask; a batch has one objective, so put it in a "
                    "curriculum, before or after the masked strategies"
                )
        if len({part.objectives for part in self.parts}) > 1:
            raise ValueError(
                "parts: expected corruption = 'sentinels' for all of them or for none, because a "
                "batch has one objective"
            )
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

    @property
    def objectives(self) -> frozenset[Objective]:
        return self.parts[0].objectives

    def table(self) -> dict[str, Any]:
        return {
            "use": "mixture",
            "chances": list(self.chances),
            "parts": [part.table() for part in self.parts],
        }

    def ways(self, rng: RowRng) -> npt.NDArray[np.int64]:
        """Draw the index of each row's strategy, `[N]`; the number of strategies for none."""
        drawn = rng.for_mixture().uniforms(WAY)
        return np.searchsorted(np.cumsum(self.chances), drawn, side="right")

    def plan_with(self, examples: Examples, rng: RowRng) -> MaskPlan:
        # Every strategy plans all rows. Each row then keeps the plan of its own strategy.
        plans = [part.plan_with(examples, rng.for_way(way)) for way, part in enumerate(self.parts)]

        with_units = any(plan.continues_unit is not None for plan in plans)
        builder = PlanBuilder.empty(examples, with_units=with_units)
        ways = self.ways(rng)
        for way, plan in enumerate(plans):
            builder.take_rows(plan, ways == way)
        return replace(builder.plan(examples), objective=plans[0].objective)

    def corrupt_with(self, examples: Examples, plan: MaskPlan, rng: RowRng) -> Ragged:
        if self.objectives == {Objective.SENTINELS}:  # which draw nothing
            return self.parts[0].corrupt_with(examples, plan, rng)

        # The strategy of each row is drawn again, so seed and epoch must be those of the plan.
        ids = examples.input_ids
        token_ways = np.repeat(self.ways(rng), ids.lengths)

        out = ids.values.copy()
        for way, part in enumerate(self.parts):
            corrupted = part.corrupt_with(examples, plan, rng.for_way(way))
            np.copyto(out, corrupted.values, where=token_ways == way)
        return Ragged(out, ids.offsets)


@dataclass(frozen=True, slots=True, repr=False)
class Curriculum(Strategy):
    """Mask with one strategy after the other, each for some epochs, steps or tokens.

    The last one lasts to the end. A batch belongs to one part: the one of its first step or token.

    Raises:
        ValueError: There is no strategy; not one of `epochs`, `steps` and `tokens` has a number for
            each strategy but the last; a number is below 1; or a part is a curriculum.
    """

    parts: Annotated[tuple[Strategy, ...], Meta(description="The strategies.")]
    epochs: Annotated[
        tuple[int, ...],
        Meta(
            description="Number of epochs of each strategy, 1 or more. The last strategy has none."
        ),
    ] = ()
    steps: Annotated[
        tuple[int, ...], Meta(description="Number of training steps of each, instead of epochs.")
    ] = ()
    tokens: Annotated[
        tuple[int, ...],
        Meta(description="Number of tokens of each, seen by all ranks, instead of epochs."),
    ] = ()
    origin: Origin | None = field(default=None, init=False, compare=False)

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError("parts: expected one strategy or more, got none")
        _check_parts(self.parts)

        given = [self.epochs, self.steps, self.tokens]
        numbers = max(given, key=len)
        is_one = sum(map(bool, given)) <= 1
        if not is_one or len(numbers) != len(self.parts) - 1 or min(numbers, default=1) < 1:
            raise ValueError(
                "epochs, steps, tokens: expected one of them, with 1 or more for each strategy but "
                f"the last, got {list(map(list, given))} for {len(self.parts)}"
            )

    @property
    def needs(self) -> frozenset[str]:
        return combined_needs(self.parts)

    @property
    def follows_training(self) -> bool:
        follows = bool(self.steps or self.tokens)
        return follows or any(part.follows_training for part in self.parts)

    @property
    def objectives(self) -> frozenset[Objective]:
        return frozenset().union(*(part.objectives for part in self.parts))

    def table(self) -> dict[str, Any]:
        names = ("epochs", "steps", "tokens")
        numbers = {name: list(getattr(self, name)) for name in names if getattr(self, name)}
        return {"use": "curriculum", **numbers, "parts": [part.table() for part in self.parts]}

    def part_at(self, rng: RowRng) -> int:
        """Return the number of the part at a time in training.

        Raises:
            ValueError: Parts last for steps or tokens, and the number was not passed to `plan`.
        """
        unit = "epoch"
        if self.steps:
            unit = "step"
        elif self.tokens:
            unit = "tokens"
        ends = np.cumsum(self.steps or self.tokens or self.epochs)
        return int(np.searchsorted(ends, rng.at(unit), side="right"))

    def plan_with(self, examples: Examples, rng: RowRng) -> MaskPlan:
        number = self.part_at(rng)
        return replace(self.parts[number].plan_with(examples, rng), part=number)

    def corrupt_with(self, examples: Examples, plan: MaskPlan, rng: RowRng) -> Ragged:
        return self.parts[plan.part].corrupt_with(examples, plan, rng)


def _check_parts(parts: tuple[Strategy, ...]) -> None:
    """Check that no part is a curriculum, so that a plan belongs to one part.

    Raises:
        ValueError: A part is a curriculum.
    """
    if any(isinstance(part, Curriculum) for part in parts):
        raise ValueError(
            "parts: expected no curriculum within another strategy; list its parts in one "
            "curriculum, with mixtures as parts"
        )
