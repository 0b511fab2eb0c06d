"""Types of options that several strategies have."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

from mslm_data.mask.rate import Limit, Rate

Shares: TypeAlias = Annotated[
    str,
    Meta(
        description="`mask`, `sentinels`, or the percentages of `[MASK]`, random ids and unchanged "
        "tokens, such as `80-10-10`; see `Corruption`."
    ),
]
TokenChance: TypeAlias = Annotated[Rate, Meta(description="Probability of each token.")]
RoundedUp: TypeAlias = Annotated[
    Rate, Meta(description="Budget, as a share of the row's non-special tokens. Rounded up.")
]
RoundedAtRandom: TypeAlias = Annotated[
    Rate, Meta(description="Share of the row's non-special tokens to mask. Rounded at random.")
]
RoundedDown: TypeAlias = Annotated[
    Rate, Meta(description="Share of the row's non-special tokens to mask. Rounded down.")
]
OfAllTokens: TypeAlias = Annotated[
    Rate,
    Meta(
        description="Share of the row's tokens to mask. Special tokens are counted but never "
        "masked."
    ),
]
MaxMasked: TypeAlias = Annotated[
    Limit, Meta(description="Maximum number of masked tokens in a row, or 0 for no limit.")
]
