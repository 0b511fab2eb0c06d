"""Entity-level and base-level masking, and both together: the masking of Abaho et al. 2024, section 3.

The decisions where the paper is silent: counts are exact ceilings, also for single tokens, and of all the row's tokens
that are not special; what `[MASK]` would teach nothing about, `[UNK]`, is hidden in mentions only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mslm_data.mask.choose import Choose
from mslm_data.mask.rate import Rate
from mslm_data.mask.stages import Stage, Staged

Count = Literal["fixed", "bernoulli"]
Pool = Literal["all", "generic_only"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint(Staged):
    """Hide whole mentions (ELM), then single tokens of the rest (BLM).

    Attributes:
        elm: Share of a row's mentions that are hidden whole, in `[0, 1]`; the number is rounded up.
        blm: Share of a row's tokens, specials aside, that are hidden besides; rounded up, or all that are left.
        count: `bernoulli` hides each token left with chance `blm` instead.
        pool: `generic_only` keeps BLM off the mentions that ELM did not choose.
        corruption: `mask` as in the paper, or `80-10-10` as in BERT.

    Raises:
        ValueError: A rate that is not in `[0, 1]`.
    """

    elm: Rate = 1.0
    blm: Rate = 0.075
    count: Count = "fixed"
    pool: Pool = "all"
    corruption: str = "mask"

    def stages(self) -> Sequence[Stage | None]:
        """Return ELM, then BLM on what it left."""
        return (
            Choose(hide="mentions", rate=self.elm, unknown=True, kind="entity")
            if self.elm
            else None,
            Choose(
                hide="tokens",
                rate=self.blm,
                of="tokens",
                how="uniform" if self.count == "fixed" else "each",
                among="any" if self.pool == "all" else "generic",
            )
            if self.blm
            else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Elm(Staged):
    """Hide whole mentions only: `joint` with `blm` 0.

    Attributes:
        elm: See `Joint`.
        corruption: See `Joint`.
    """

    elm: Rate = 1.0
    corruption: str = "mask"

    def stages(self) -> Sequence[Stage | None]:
        """Return ELM alone."""
        return Joint(elm=self.elm, blm=0).stages()


@dataclass(frozen=True, slots=True, kw_only=True)
class Blm(Staged):
    """Hide single tokens only, in mentions or not: `joint` with `elm` 0.

    Attributes:
        blm: See `Joint`; so the others.
        count: `fixed` or `bernoulli`.
        pool: `all` or `generic_only`.
        corruption: See `Joint`.
    """

    blm: Rate = 0.15
    count: Count = "fixed"
    pool: Pool = "all"
    corruption: str = "mask"

    def stages(self) -> Sequence[Stage | None]:
        """Return BLM alone, with the draws that it has in `joint`."""
        return Joint(elm=0, blm=self.blm, count=self.count, pool=self.pool).stages()


@dataclass(frozen=True, slots=True, kw_only=True)
class JointReleased(Staged):
    """Hide what the paper's released script hides, which is not what the paper says.

    From mykelismyname/MSLM at c9cde41, described in words, no line of it copied:

    * the number of units is rounded down, in floats: one mention at rate 0.25 is none (`custom_mask.py:180-184`);
    * a unit is not a mention, since its labels `O B I` have no type: see `released_pieces` (`:176`);
    * so pieces of one mention are hidden apart below rate 1 (`:193-209`);
    * BLM is a coin for each token that is left, with no minimum, pieces of mentions among them, `[UNK]` not (`:129`).

    The script draws once, before training: plan with `epoch=0` always for its static mask.

    Attributes:
        elm: Share of a row's units, in `[0, 1]`.
        blm: Chance of each token that is left.
        corruption: See `Joint`.
    """

    elm: Rate = 1.0
    blm: Rate = 0.075
    corruption: str = "mask"

    def stages(self) -> Sequence[Stage | None]:
        """Return ELM over pieces, then BLM by coins."""
        return (
            Choose(
                hide="released pieces", rate=self.elm, rounding="down", unknown=True, kind="entity"
            ),
            Choose(hide="tokens", rate=self.blm, of="tokens", how="each"),
        )
