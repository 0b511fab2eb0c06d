"""Strategies of one's own: any stages, several strategies mixed by row, or one after the other by epoch.

In a file they read as sentences:

    [mask]
    use = "stages"
    corruption = "80-10-10"
    of = [
        { hide = "mentions", rate = 0.4, of = "units", kind = "entity" },
        { hide = "words", rate = 0.12, of = "units" },
    ]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged
from mslm_data.mask import STRATEGIES, Strategy
from mslm_data.mask.choose import Choose
from mslm_data.mask.corruption import Replacement, replacement_of
from mslm_data.mask.draws import BRANCH, Draws, check_count
from mslm_data.mask.plan import MaskPlan
from mslm_data.mask.stages import Stage, Staged

MIXTURE = 0xFFFF
"""The stage whose draws say which way a row goes: far from any that hides something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages(Staged):
    """Hide what the given stages say, each from what those before it left.

    Attributes:
        of: The stages; see `Choose`.
        corruption: `mask`, or percent of `[MASK]`, random and kept, such as `80-10-10`.
        by: What shares one fate; see `Replacement`.
        ids: Where random ids come from; see `Replacement`.
    """

    of: tuple[Choose, ...]
    corruption: str = "mask"
    by: Literal["token", "word", "unit", "run"] = "token"
    ids: str = "words"

    def stages(self) -> Sequence[Stage]:
        """Return them."""
        return self.of

    def replacement(self) -> Replacement:
        """See `Staged`."""
        return replacement_of(self.corruption, by=self.by, ids=self.ids)

    @property
    def by_step(self) -> bool:
        """See `Staged`."""
        return any(stage.by_step for stage in self.of)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """Hide as one of several strategies does, drawn anew for each row in each epoch.

    A row's mask is just what the strategy that it falls to would have given it.

    Attributes:
        of: Tables of `chance`, `use` and the options of the strategy used. With what is left of 1, nothing is hidden.

    Raises:
        ValueError: A table without a chance or a strategy, or chances that sum to more than 1.
        PipelineError: A strategy that refuses its options.
    """

    of: tuple[Mapping[str, Any], ...]

    def __post_init__(self) -> None:
        chances = [_number(table, "chance") for table in self.of]
        if min(chances, default=0.0) < 0 or sum(chances) > 1 + 1e-9:
            raise ValueError(
                f"of: expected chances in [0, 1] that sum to 1 at most, got {sum(chances):g}"
            )
        self.parts  # noqa: B018 - made once to see that they can be

    @property
    def parts(self) -> tuple[Strategy, ...]:
        """The strategies."""
        return tuple(_part(table, "chance") for table in self.of)

    @property
    def by_step(self) -> bool:
        """See `Staged`."""
        return any(part.by_step for part in self.parts)

    def ways(self, examples: Examples, seed: int, epoch: int) -> npt.NDArray[np.int64]:
        """Return which strategy each row falls to, `[N]`; past the last for none."""
        sums = np.array(list(accumulate(float(table["chance"]) for table in self.of)))
        drawn = Draws(keys=examples.keys, seed=seed, epoch=epoch, stage=MIXTURE).uniforms(BRANCH)
        return np.searchsorted(sums, drawn, side="right")

    def plan(
        self, examples: Examples, *, seed: int = 0, epoch: int = 0, step: int | None = None
    ) -> MaskPlan:
        """See `Staged.plan`."""
        check_count("seed", seed)
        check_count("epoch", epoch)
        ways, offsets = self.ways(examples, seed, epoch), examples.input_ids.offsets
        plans = [part.plan(examples, seed=seed, epoch=epoch, step=step) for part in self.parts]
        kinds = _pick(ways, [plan.kinds.values for plan in plans], examples)
        owed = np.zeros(len(examples), np.int64)
        for way, plan in enumerate(plans):
            owed[ways == way] = 0 if plan.owed is None else plan.owed[ways == way]
        zeros = np.zeros_like(kinds)
        joined = None
        if any(plan.joined is not None for plan in plans):
            joined = _pick(
                ways,
                [zeros if plan.joined is None else plan.joined.values for plan in plans],
                examples,
            )
        return MaskPlan(
            Ragged(kinds, offsets), owed, None if joined is None else Ragged(joined, offsets)
        )

    def corrupt(
        self, examples: Examples, plan: MaskPlan, *, seed: int = 0, epoch: int = 0
    ) -> Ragged:
        """See `Staged.corrupt`; seed and epoch must be those of the plan.

        Raises:
            ValueError: A strategy among them that changes lengths.
        """
        check_count("seed", seed)
        check_count("epoch", epoch)
        parts = self.parts
        hidden = [part.corrupt(examples, plan, seed=seed, epoch=epoch) for part in parts]
        if any(part.targets(examples, plan) is not None for part in parts):
            raise ValueError("mixture: expected strategies that keep the rows' lengths")
        ids = examples.input_ids.values
        out = _pick(
            self.ways(examples, seed, epoch), [rows.values for rows in hidden], examples, ids
        )
        return Ragged(out, examples.input_ids.offsets)

    def targets(self, examples: Examples, plan: MaskPlan) -> Ragged | None:  # noqa: ARG002 - there are none
        """See `Staged`."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Curriculum:
    """Hide as one strategy after the other does, each for some epochs, the last for ever.

    Attributes:
        of: Tables of `epochs`, `use` and the options of the strategy used; the last needs no epochs.

    Raises:
        ValueError: No table, one without a strategy, or one but the last without epochs.
        PipelineError: A strategy that refuses its options.
    """

    of: tuple[Mapping[str, Any], ...]

    def __post_init__(self) -> None:
        if not self.of:
            raise ValueError("of: expected one strategy at least, got none")
        if any(_number(table, "epochs") < 1 for table in self.of[:-1]):
            raise ValueError("of: expected epochs of 1 or more")
        self.parts  # noqa: B018 - made once to see that they can be

    @property
    def parts(self) -> tuple[Strategy, ...]:
        """The strategies."""
        return tuple(_part(table, "epochs") for table in self.of)

    @property
    def by_step(self) -> bool:
        """See `Staged`."""
        return any(part.by_step for part in self.parts)

    def at(self, epoch: int) -> Strategy:
        """Return the strategy of an epoch."""
        check_count("epoch", epoch)
        for end, part in zip(
            accumulate(int(table["epochs"]) for table in self.of[:-1]), self.parts, strict=False
        ):
            if epoch < end:
                return part
        return self.parts[-1]

    def plan(
        self, examples: Examples, *, seed: int = 0, epoch: int = 0, step: int | None = None
    ) -> MaskPlan:
        """See `Staged.plan`."""
        return self.at(epoch).plan(examples, seed=seed, epoch=epoch, step=step)

    def corrupt(
        self, examples: Examples, plan: MaskPlan, *, seed: int = 0, epoch: int = 0
    ) -> Ragged:
        """See `Staged.corrupt`; the epoch must be that of the plan."""
        return self.at(epoch).corrupt(examples, plan, seed=seed, epoch=epoch)

    def targets(self, examples: Examples, plan: MaskPlan) -> Ragged | None:
        """See `Staged`; of the last strategy, as all of them keep lengths or none does."""
        return self.parts[-1].targets(examples, plan)


def _number(table: Mapping[str, Any], name: str) -> float:
    value = table.get(name)
    if not isinstance(value, int | float):
        raise ValueError(f"of: expected a number '{name}' in each table, got {value!r}")
    return value


def _part(table: Mapping[str, Any], besides: str) -> Strategy:
    """Make the strategy of a table."""
    if not isinstance(table.get("use"), str):
        raise ValueError("of: expected the name of a strategy as 'use' in each table")
    options = {name: value for name, value in table.items() if name not in ("use", besides)}
    made: Strategy = STRATEGIES.make(table["use"], options)
    return made


def _pick(
    ways: npt.NDArray[np.int64],
    columns: Sequence[npt.NDArray[Any]],
    examples: Examples,
    rest: npt.NDArray[Any] | None = None,
) -> npt.NDArray[Any]:
    """Put a column of tokens together from the rows that fell to each."""
    of_tokens = np.repeat(ways, examples.input_ids.lengths)
    out = np.zeros(len(of_tokens), np.uint8) if rest is None else rest.copy()
    for way, column in enumerate(columns):
        np.copyto(out, column, where=of_tokens == way)
    return out
