"""Masking plans: for each token, whether it is to be predicted and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, Ragged


class MaskKind(IntEnum):
    """Why a token is predicted; also the index of its weight in the loss."""

    NONE = 0
    BASE = 1
    ENTITY = 2


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MaskPlan:
    """The tokens that a strategy hides, before anything is replaced.

    Attributes:
        kinds: uint8 `MaskKind` of each token; the offsets are those of the examples' `input_ids`.
        owed: int64 `[N]`: the part of each row's budget that could not be spent, in what the budget
            counts (tokens, words, mentions). None for a plan that a caller made.
        joined: uint8, offsets as `kinds`: 1 where a token belongs to the same hidden unit as the
            token before it. None where the corruption does not ask.
    """

    kinds: Ragged
    owed: npt.NDArray[np.int64] | None = None
    joined: Ragged | None = None

    @classmethod
    def of(cls, examples: Examples, kinds: Array) -> MaskPlan:
        """Make the plan of a strategy of your own.

        Args:
            examples: N rows of T tokens.
            kinds: `[T]`: the `MaskKind` of each token, all rows one after the other.

        Raises:
            ValueError: Not one kind for each token.
        """
        tokens = len(examples.input_ids.values)
        if kinds.shape != (tokens,):
            raise ValueError(
                f"kinds: expected one for each of {tokens:,} tokens, got an array of shape "
                f"{kinds.shape}"
            )
        return cls(kinds=Ragged(kinds.astype(np.uint8), examples.input_ids.offsets))

    def counts(self) -> tuple[int, int]:
        """Return N_ELM and N_BLM of Abaho et al. 2024, Eq. 2: ENTITY and BASE tokens."""
        values = self.kinds.values
        n_elm = int(np.count_nonzero(values == MaskKind.ENTITY))
        n_blm = int(np.count_nonzero(values == MaskKind.BASE))
        return n_elm, n_blm

    def __repr__(self) -> str:
        n_elm, n_blm = self.counts()

        return (
            f"MaskPlan({len(self.kinds):,} rows, {len(self.kinds.values):,} tokens: {n_elm:,} "
            f"hidden as ELM, {n_blm:,} as BLM)"
        )


@dataclass(slots=True, eq=False)
class Draft:
    """A plan in the making: each pick writes what it hides, and leaves what is hidden already.

    Attributes:
        kinds: uint8 `[T]`, NONE where a token is still free.
        owed: int64 `[N]`; a pick adds what it could not spend.
        joined: uint8 `[T]`, or None where the corruption does not ask; see `MaskPlan`.
        untouched: Whether no pick has run yet, so that every token is free.
    """

    kinds: Array
    owed: Array
    joined: Array | None
    untouched: bool = True

    @classmethod
    def of(cls, examples: Examples, *, joined: bool) -> Draft:
        """Return a draft that hides nothing."""
        tokens = len(examples.input_ids.values)
        return cls(
            kinds=np.zeros(tokens, np.uint8),
            owed=np.zeros(len(examples), np.int64),
            joined=np.zeros(tokens, np.uint8) if joined else None,
        )

    def branch(self) -> Draft:
        """Return a copy that another way can continue; it owes nothing yet."""
        return Draft(
            kinds=self.kinds.copy(),
            owed=np.zeros_like(self.owed),
            joined=None if self.joined is None else self.joined.copy(),
            untouched=self.untouched,
        )

    def trial(self) -> Draft:
        """Return a copy to find out what a pick would hide; `joined` is left out."""
        return Draft(
            kinds=self.kinds.copy(),
            owed=self.owed.copy(),
            joined=None,
            untouched=self.untouched,
        )

    def take_rows(self, other: Draft, rows: npt.NDArray[np.bool_], lengths: Array) -> None:
        """Take over what another draft hides in some rows, and add what it owes there.

        Args:
            other: A branch of this draft.
            rows: bool `[N]`.
            lengths: int64 `[N]`, tokens of each row.
        """
        tokens = np.repeat(rows, lengths)
        np.copyto(self.kinds, other.kinds, where=tokens)
        self.owed += np.where(rows, other.owed, 0)
        if self.joined is not None and other.joined is not None:
            np.copyto(self.joined, other.joined, where=tokens)

    def plan(self, examples: Examples) -> MaskPlan:
        """Return the finished plan of these examples."""
        offsets = examples.input_ids.offsets
        return MaskPlan(
            kinds=Ragged(self.kinds, offsets),
            owed=self.owed,
            joined=None if self.joined is None else Ragged(self.joined, offsets),
        )
