"""What masking decides: for each token, whether it is to be predicted and why."""

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


@dataclass(frozen=True, slots=True, eq=False)
class MaskPlan:
    """The tokens that a strategy hides, before anything is replaced.

    Attributes:
        kinds: uint8 `MaskKind`, one per token; the offsets are those of the examples' `input_ids`.
        owed: int64 `[N]`: what of each row's budget could not be spent, in what the budget counts (tokens, words,
            mentions); None for a plan of one's own making.
        joined: uint8, offsets as kinds: 1 where a token belongs to the same hidden unit as the token before it; None
            where nobody asks.
    """

    kinds: Ragged
    owed: npt.NDArray[np.int64] | None = None
    joined: Ragged | None = None

    def counts(self) -> tuple[int, int]:
        """Return the number of ENTITY tokens and of BASE tokens: N_ELM and N_BLM of Abaho et al. 2024, Eq. 2."""
        values = self.kinds.values
        return int(np.count_nonzero(values == MaskKind.ENTITY)), int(
            np.count_nonzero(values == MaskKind.BASE)
        )


@dataclass(slots=True, eq=False)
class Draft:
    """A plan in the making; each stage writes what it takes, and leaves what is taken.

    Attributes:
        kinds: uint8 `[T]`, NONE where a token is still to be had.
        owed: int64 `[N]`; a stage adds what it could not spend.
        joined: uint8 `[T]`, or None where it is not wanted; see `MaskPlan`.
        untouched: Whether no stage has run yet.
    """

    kinds: Array
    owed: Array
    joined: Array | None
    untouched: bool = True

    @classmethod
    def of(cls, examples: Examples, *, joined: bool) -> Draft:
        """Return an empty one."""
        tokens = len(examples.input_ids.values)
        return cls(
            np.zeros(tokens, np.uint8),
            np.zeros(len(examples), np.int64),
            np.zeros(tokens, np.uint8) if joined else None,
        )

    def copy(self) -> Draft:
        """Return one that can go another way, owing nothing yet."""
        joined = None if self.joined is None else self.joined.copy()
        return Draft(self.kinds.copy(), np.zeros_like(self.owed), joined, self.untouched)
