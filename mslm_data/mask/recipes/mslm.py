"""Entity-level masking (ELM) and base-level masking (BLM), alone and together.

Reference: Abaho et al. 2024, section 3. Where the paper is silent, counts are exact ceilings, rates
are shares of all non-special tokens of a row, and `[UNK]`, a useless target, is masked only inside
mentions.

The default rates are not those of the paper: docs/evidence.md gives the reasons, `joint_paper` the
paper's rates.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from mslm_data.mask.budget import Budget
from mslm_data.mask.corruption import Corruption
from mslm_data.mask.orders import Order
from mslm_data.mask.pick import Eligible, Pick
from mslm_data.mask.rate import Rate
from mslm_data.mask.recipes.options import Shares
from mslm_data.mask.strategy import Recipe

Mentions = Annotated[
    Rate, Meta(description="Share of a row's mentions to mask. Rounded up to whole mentions.")
]
Tokens = Annotated[
    Rate,
    Meta(
        description="Share of a row's non-special tokens to mask besides the mentions. Rounded "
        "up. If fewer tokens are left, all of them are masked."
    ),
]
Count = Annotated[
    Literal["fixed", "bernoulli"],
    Meta(
        description="`fixed` masks the same share of each row. `bernoulli` masks each "
        "remaining token independently with probability `blm`."
    ),
]
Pool = Literal["all", "generic_only"]
Apart = Annotated[
    Pool,
    Meta(
        description="Tokens for BLM: `all` tokens left by ELM, or only tokens outside mentions "
        "(`generic_only`)."
    ),
]


def joint(
    elm: Mentions = 0.5,
    blm: Tokens = 0.15,
    count: Count = "fixed",
    pool: Apart = "all",
    corruption: Shares = "mask",
) -> Recipe:
    """Mask whole mentions (ELM), then single tokens of the rest (BLM).

    Reference: Abaho et al. 2024, section 3. Mentions and tokens are drawn uniformly without
    replacement. The default rates are not the paper's; for those, see `joint-paper`.
    """
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

    Reference: Abaho et al. 2024, section 3. At `elm` 1 every mention is masked, so a model that
    reads only masked rows never sees a mention.
    """
    return joint(elm, blm, count, pool, corruption)


def elm(
    elm: Mentions = 0.5,
    corruption: Shares = "mask",
) -> Recipe:
    """Mask whole mentions only: `joint` with a `blm` of 0.

    Reference: Abaho et al. 2024, section 3. Rows without mentions have no target.
    """
    return joint(elm, 0.0, corruption=corruption)


def blm(
    blm: Annotated[
        Rate, Meta(description="Share of a row's non-special tokens to mask. Rounded up.")
    ] = 0.15,
    count: Count = "fixed",
    pool: Annotated[
        Pool, Meta(description="`all` tokens, or only tokens outside mentions (`generic_only`).")
    ] = "all",
    corruption: Shares = "mask",
) -> Recipe:
    """Mask single tokens only, inside and outside mentions: `joint` with an `elm` of 0.

    Reference: Abaho et al. 2024, section 3. The tokens are those of `joint` at the same seed if no
    mention is masked: the pick of mentions is kept at rate 0, so the pick of tokens has the same
    random numbers.
    """
    return joint(0.0, blm, count, pool, corruption)


def joint_released(
    elm: Annotated[Rate, Meta(description="Share of a row's units to mask. Rounded down.")] = 1.0,
    blm: Annotated[Rate, Meta(description="Probability of each token left by ELM.")] = 0.075,
    corruption: Shares = "mask",
) -> Recipe:
    """Mask as the paper's released script does, which differs from the paper.

    Reference: mykelismyname/MSLM at c9cde41, `custom_mask.py`, reimplemented from its behaviour.
    Differences from `joint`:

    * The number of masked units is rounded down, in floating point: at a rate of 0.25, a single
      mention is never masked (lines 180 to 184).
    * Units are pieces of mentions, because the script's labels `O B I` have no type (line 176; see
      `units.released_pieces`). At rates below 1, a mention can be masked in part (lines 193 to
      209).
    * BLM masks each remaining token independently, also inside mentions, but never `[UNK]`. There
      is no minimum (line 129).

    The script draws its masks once, before training: for such static masks, always plan with
    `epoch=0`. Its loss weights count the training and validation splits together.
    """
    pieces = Pick(
        "released pieces", Budget(elm, rounding="down"), Eligible(unknown=True), kind="entity"
    )
    tokens = Pick("tokens", Budget(blm, counts="tokens"), order=Order("bernoulli"))
    return Recipe((pieces, tokens), Corruption(corruption))
