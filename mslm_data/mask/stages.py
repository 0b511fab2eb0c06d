"""A strategy is stages that choose tokens, each from what those before it left, and then one corruption.

A stage is `Choose`, one of its kin for spans and listed n-grams, or `OneOf` several ways; a new system of masking is a
new list of stages. Stage n draws from sub-streams of its own in each row, so a row's mask is the row's own.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged
from mslm_data.mask.corruption import Replacement, corrupt, replacement_of
from mslm_data.mask.draws import BRANCH, Draws, check_count
from mslm_data.mask.plan import Draft, MaskPlan
from mslm_data.mask.rate import check_limit, check_share, follows_step


class Stage(Protocol):
    """One step of a plan."""

    def mark(self, examples: Examples, draws: Draws, draft: Draft) -> None:
        """Hide what this stage takes.

        Args:
            examples: N rows of T tokens.
            draws: This stage's own.
            draft: Written: the kind of every token taken, and what is owed; what is taken already stays.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf:
    """Go one of several ways, drawn for each row.

    Attributes:
        chances: Of each way; they sum to 1 at most, and with the rest nothing is hidden.
        ways: The stages of each way, in order.
    """

    chances: Sequence[float]
    ways: Sequence[Sequence[Stage]]

    def mark(self, examples: Examples, draws: Draws, draft: Draft) -> None:
        """See `Stage`."""
        branch = self.branches(draws)
        lengths = examples.input_ids.lengths
        before = draft.copy()
        for way, stages in enumerate(self.ways):
            own = before.copy()
            run(stages, examples, draws, own, first=(draws.stage + 1) * 256 + 16 * way)
            rows = branch == way
            tokens = np.repeat(rows, lengths)
            np.copyto(draft.kinds, own.kinds, where=tokens)
            draft.owed += np.where(rows, own.owed, 0)
            if draft.joined is not None and own.joined is not None:
                np.copyto(draft.joined, own.joined, where=tokens)

    def branches(self, draws: Draws) -> npt.NDArray[np.int64]:
        """Return the way that each row goes, `[N]`; past the last where nothing is hidden."""
        return np.searchsorted(np.cumsum(self.chances), draws.uniforms(BRANCH), side="right")


def run(
    stages: Sequence[Stage | None],
    examples: Examples,
    draws: Draws,
    draft: Draft,
    *,
    first: int = 0,
) -> None:
    """Run stages in order, numbered from `first`; None holds the place of one that has nothing to do."""
    for number, stage in enumerate(stages):
        if stage is not None:
            stage.mark(examples, draws.of_stage(first + number), draft)
            draft.untouched = False


class Staged(ABC):
    """What every strategy is: options that name stages and a corruption.

    Options of type `Rate`, `Share` and `Limit` are checked to be such, `corruption` to be one.
    """

    __slots__ = ()

    corruption: str

    @abstractmethod
    def stages(self) -> Sequence[Stage | None]:
        """Return the stages, in order; None holds the place of one that has nothing to do."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if field.type == "Share" or (field.type == "Rate" and isinstance(value, float | int)):
                check_share(field.name, value)
            elif field.type == "Limit":
                check_limit(field.name, value)
        self.replacement()

    def replacement(self) -> Replacement:
        """Return what stands in the place of hidden tokens."""
        return replacement_of(self.corruption)

    @property
    def by_step(self) -> bool:
        """Whether a rate follows the step, so that `plan` must be told it."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return any(follows_step(getattr(self, field.name)) for field in fields)

    def plan(
        self, examples: Examples, *, seed: int = 0, epoch: int = 0, step: int | None = None
    ) -> MaskPlan:
        """Decide which tokens are to be predicted; a pure function of each row, its key, seed, epoch and options.

        Args:
            examples: N rows, any batch of them in any order.
            seed: In `[0, 2**63)`.
            epoch: Which pass over the data, in `[0, 2**63)`; always 0 is a static mask.
            step: Which step of training; only a rate that follows the step looks at it.

        Raises:
            ValueError: Seed, epoch or step out of range, or no step where a rate follows it.
            VocabularyError: A lexicon or score column is missing, damaged or of other shards.
        """
        check_count("seed", seed)
        check_count("epoch", epoch)
        if step is not None:
            check_count("step", step)
        draft = Draft.of(examples, joined=self.replacement().by == "unit")
        run(
            self.stages(),
            examples,
            Draws(keys=examples.keys, seed=seed, epoch=epoch, step=step),
            draft,
        )
        offsets = examples.input_ids.offsets
        joined = None if draft.joined is None else Ragged(draft.joined, offsets)
        return MaskPlan(Ragged(draft.kinds, offsets), draft.owed, joined)

    def corrupt(
        self, examples: Examples, plan: MaskPlan, *, seed: int = 0, epoch: int = 0
    ) -> Ragged:
        """Return the ids with the planned tokens replaced; the plan does not depend on how.

        Raises:
            ValueError: Seed or epoch out of range, a plan of other rows, or a tokenizer without a mask token.
        """
        check_count("seed", seed)
        check_count("epoch", epoch)
        return corrupt(examples, plan, self.replacement(), seed=seed, epoch=epoch)

    def targets(self, examples: Examples, plan: MaskPlan) -> Ragged | None:  # noqa: ARG002 - for those that have some
        """Return what is to be written, where that is a sequence of its own; None where hidden tokens are predicted."""
        return None
