"""Entity-level and base-level masking, alone and together (Abaho et al. 2024, section 3).

Our choices where the paper is silent: counts are exact ceilings, also of single tokens, and shares
are of all the row's tokens except special ones. `[UNK]`, a useless target, is masked in mentions
only.

The default rates are not the paper's; docs/evidence.md has the reasons. `joint_paper` has the
paper's.
"""

from __future__ import annotations

from typing import Annotated, Literal

from mslm_data.mask.budget import Budget
from mslm_data.mask.corruption import Corruption
from mslm_data.mask.orders import Order
from mslm_data.mask.pick import Eligible, Pick
from mslm_data.mask.rate import Rate
from mslm_data.mask.strategy import Recipe
from mslm_data.registry import Help

Mentions = Annotated[Rate, Help("Share of a row's mentions to mask, rounded up to whole mentions.")]
Tokens = Annotated[
    Rate,
    Help(
        "Share of a row's tokens, without special ones, to mask besides the mentions. The number "
        "is rounded up, and limited by the tokens left."
    ),
]
Count = Annotated[
    Literal["fixed", "bernoulli"],
    Help(
        "`fixed` masks the same share of each row; `bernoulli` masks each remaining token with "
        "probability `blm`."
    ),
]
Pool = Literal["all", "generic_only"]
Apart = Annotated[
    Pool, Help("Tokens for BLM: `all` that ELM left, or those outside mentions (`generic_only`).")
]
Shares = Annotated[str, Help("`mask` as in the paper, `80-10-10` as in BERT; see `Corruption`.")]


def joint(
    elm: Mentions = 0.5,
    blm: Tokens = 0.15,
    count: Count = "fixed",
    pool: Apart = "all",
    corruption: Shares = "mask",
) -> Recipe:
    """Mask whole mentions (ELM), then single tokens of the rest (BLM)."""
    mentions = Pick("mentions", Budget(elm), Eligible(unknown=True), kind="entity")
    tokens = Pick(
        "tokens",
        Budget(blm, counts="tokens"),
        Eligible("any" if pool == "all" else "generic"),
        Order("uniform" if count == "fixed" else "bernoulli"),
    )
    return Recipe((mentions, tokens), Corruption(corruption))


def joint_paper(
    elm: Mentions = 1.0,
    blm: Tokens = 0.075,
    count: Count = "fixed",
    pool: Apart = "all",
    corruption: Shares = "mask",
) -> Recipe:
    """Mask as `joint` does, at the headline rates of the paper.

    All mentions are masked, so a model that reads only masked rows never sees one.
    """
    return joint(elm, blm, count, pool, corruption)


def elm(
    elm: Mentions = 0.5,
    corruption: Shares = "mask",
) -> Recipe:
    """Mask whole mentions only: `joint` with a `blm` of 0."""
    mentions = Pick("mentions", Budget(elm), Eligible(unknown=True), kind="entity")
    return Recipe((mentions,), Corruption(corruption))


def blm(
    blm: Annotated[Rate, Help("Share of a row's tokens, without special ones, rounded up.")] = 0.15,
    count: Count = "fixed",
    pool: Annotated[
        Pool, Help("`all` tokens, or those outside mentions (`generic_only`).")
    ] = "all",
    corruption: Shares = "mask",
) -> Recipe:
    """Mask single tokens only, within mentions or not: `joint` with an `elm` of 0.

    The pick of mentions stays, with a rate of 0, so that tokens use the same random numbers as in
    `joint`.
    """
    return joint(0.0, blm, count, pool, corruption)


def joint_released(
    elm: Annotated[Rate, Help("Share of a row's units.")] = 1.0,
    blm: Annotated[Rate, Help("Probability of each token that is left.")] = 0.075,
    corruption: Shares = "mask",
) -> Recipe:
    """Mask as the paper's released script does, which differs from the paper.

    From mykelismyname/MSLM at c9cde41, described in words, with no line of it copied:

    * The number of units is rounded down, in floats: of one mention, a rate of 0.25 masks none
      (`custom_mask.py:180-184`).
    * Units are pieces of mentions, as its labels `O B I` have no type (`:176`); see
      `units.released_pieces`. Below a rate of 1, pieces of one mention are masked apart
      (`:193-209`).
    * BLM masks each token that is left independently, in mentions too, but not `[UNK]`, with no
      minimum (`:129`).

    The script draws once, before training. Plan with `epoch=0` always for its static mask. Its
    weights count the training and validation splits together.
    """
    pieces = Pick(
        "released pieces", Budget(elm, rounding="down"), Eligible(unknown=True), kind="entity"
    )
    tokens = Pick("tokens", Budget(blm, counts="tokens"), order=Order("bernoulli"))
    return Recipe((pieces, tokens), Corruption(corruption))
