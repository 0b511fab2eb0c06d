"""Masking plans: the kind of each token, before any token is replaced."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, Ragged
from mslm_data.errors import CallError


class MaskKind(IntEnum):
    """The kind of a masked token, which selects its weight in the loss.

    `NONE` is not masked, `BASE` is masked by BLM and `ENTITY` by ELM.
    """

    NONE = 0
    BASE = 1
    ENTITY = 2


class Objective(IntEnum):
    """The objective of training: the input of the model, and the tokens that it predicts.

    `MASKED`: the row with masked tokens replaced; it predicts these. `CAUSAL`: the row itself; it
    predicts each token from those before it. `SENTINELS`: the row with a sentinel for each masked
    run; a decoder predicts the runs. A batch says its objective, because models shift the labels of
    `CAUSAL` by one place, and not those of the others.
    """

    MASKED = 0
    CAUSAL = 1
    SENTINELS = 2


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MaskPlan:
    """The kind of each token in some rows. No token is replaced yet.

    Attributes:
        kinds: uint8 `MaskKind` of each token, with the offsets of the examples' `input_ids`.
        unspent: int64 `[N]`, the unspent budget of each row, in the unit of the budget (tokens,
            words or mentions). None for plans made by `from_kinds`.
        continues_unit: uint8 with the offsets of `kinds`: 1 if a token belongs to the same masked
            unit as the previous token. None unless the corruption replaces whole units.
        rates: float32 `[N]`, the masking probability of each row in masked diffusion, by which the
            row's loss is divided. 1 for rows of a mixture that other strategies mask. None without
            masked diffusion.
        part: Number of the part of a curriculum that made the plan. 0 for other strategies.
        objective: What the model sees of the rows.
    """

    kinds: Ragged
    unspent: npt.NDArray[np.int64] | None = None
    continues_unit: Ragged | None = None
    rates: npt.NDArray[np.float32] | None = None
    part: int = 0
    objective: Objective = Objective.MASKED

    @classmethod
    def from_kinds(
        cls, examples: Examples, kinds: Array, *, rates: Array | None = None
    ) -> MaskPlan:
        """Make a plan from the kind of each token, for your own strategy.

        Args:
            examples: N rows of T tokens.
            kinds: Integers `[T]`, the `MaskKind` of each token, row after row.
            rates: `[N]`, the rate by which each row's loss is divided. Default: no rates.

        Raises:
            CallError: The shape of `kinds` is not `[T]`, or that of `rates` not `[N]`; `kinds` has
                other numbers than `MaskKind`; or a special token is masked.
        """
        tokens = len(examples.input_ids.values)
        if kinds.shape != (tokens,):
            raise CallError(
                f"kinds: expected one for each of {tokens:,} tokens, got an array of shape "
                f"{kinds.shape}"
            )
        if not np.issubdtype(kinds.dtype, np.integer):
            raise CallError(f"kinds: expected integers, got an array of {kinds.dtype}")
        if tokens and not MaskKind.NONE <= kinds.min() <= kinds.max() <= MaskKind.ENTITY:
            raise CallError(
                "kinds: expected MaskKind.NONE (0), BASE (1) or ENTITY (2), got numbers from "
                f"{kinds.min()} to {kinds.max()}"
            )
        if np.any(kinds[examples.word_ids.values < 0]):
            raise CallError(
                "kinds: expected MaskKind.NONE on special tokens, whose `word_ids` are negative"
            )
        if rates is not None and rates.shape != (len(examples),):
            raise CallError(
                f"rates: expected one for each of {len(examples):,} rows, got an array of shape "
                f"{rates.shape}"
            )
        return cls(
            kinds=Ragged(kinds.astype(np.uint8), examples.input_ids.offsets),
            rates=None if rates is None else rates.astype(np.float32),
        )

    def counts(self) -> tuple[int, int]:
        """Return N_ELM and N_BLM of Abaho et al. 2024, Eq. 2: the ENTITY and BASE tokens."""
        values = self.kinds.values
        n_elm = int(np.count_nonzero(values == MaskKind.ENTITY))
        n_blm = int(np.count_nonzero(values == MaskKind.BASE))
        return n_elm, n_blm

    def __repr__(self) -> str:
        n_elm, n_blm = self.counts()

        return (
            f"MaskPlan({len(self.kinds):,} rows, {len(self.kinds.values):,} tokens: {n_elm:,} "
            f"masked as ELM, {n_blm:,} as BLM)"
        )


@dataclass(slots=True, eq=False)
class PlanBuilder:
    """A plan in progress. Each pick fills in tokens, and no pick changes a masked token.

    Attributes:
        kinds: uint8 `[T]`, NONE for free tokens.
        unspent: int64 `[N]`, the sum of the picks' unspent budgets.
        continues_unit: uint8 `[T]`, or None if the corruption does not need it; see `MaskPlan`.
        rates: float32 `[N]`, or None without masked diffusion; see `MaskPlan`.
    """

    kinds: Array
    unspent: Array
    continues_unit: Array | None
    rates: Array | None = None

    @classmethod
    def empty(cls, examples: Examples, *, with_units: bool) -> PlanBuilder:
        """Return a builder without masked tokens; `with_units` allocates `continues_unit`."""
        tokens = len(examples.input_ids.values)
        return cls(
            kinds=np.zeros(tokens, np.uint8),
            unspent=np.zeros(len(examples), np.int64),
            continues_unit=np.zeros(tokens, np.uint8) if with_units else None,
        )

    def take_rows(self, plan: MaskPlan, rows: npt.NDArray[np.bool_]) -> None:
        """Copy the masks of some rows from a plan, and add its unspent budget there.

        Args:
            plan: A plan of the same examples.
            rows: bool `[N]`, the rows to copy.
        """
        tokens = np.repeat(rows, plan.kinds.lengths)
        np.copyto(self.kinds, plan.kinds.values, where=tokens)
        if plan.unspent is not None:
            self.unspent += np.where(rows, plan.unspent, 0)
        if self.continues_unit is not None and plan.continues_unit is not None:
            np.copyto(self.continues_unit, plan.continues_unit.values, where=tokens)
        if plan.rates is not None:
            # Rows of other strategies keep rate 1, which leaves their loss unchanged.
            if self.rates is None:
                self.rates = np.ones(len(rows), np.float32)
            np.copyto(self.rates, plan.rates, where=rows)

    def plan(self, examples: Examples) -> MaskPlan:
        """Return the finished plan."""
        offsets = examples.input_ids.offsets
        return MaskPlan(
            kinds=Ragged(self.kinds, offsets),
            unspent=self.unspent,
            continues_unit=None
            if self.continues_unit is None
            else Ragged(self.continues_unit, offsets),
            rates=self.rates,
        )
