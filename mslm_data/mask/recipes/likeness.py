"""Difference-Masking: words similar to the anchor words of a domain are masked more often.

`mslm-data vocab anchors` finds the anchors, `mslm-data vocab scores anchors` computes the
similarities.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from mslm_data.mask.budget import Budget
from mslm_data.mask.corruption import Corruption
from mslm_data.mask.orders import Order
from mslm_data.mask.pick import Eligible, Pick
from mslm_data.mask.rate import Rate, Share
from mslm_data.mask.recipes.options import Shares
from mslm_data.mask.score import Score
from mslm_data.mask.strategy import Recipe

UNLIKE = -1.0
"""The lowest cosine: the similarity of words that are not in the lexicon."""


def difference(
    lexicon: Annotated[
        str, Meta(description="File of a lexicon of words with their similarities.")
    ] = "difference.arrow",
    rate: Annotated[
        Rate, Meta(description="Share of the row's words to mask. Rounded at random.")
    ] = 0.15,
    transform: Annotated[
        Literal["none", "swish", "rank"],
        Meta(
            description="Function from similarity to weight: `none`; `swish`, `s / (1 + exp(-s))`; "
            "or `rank`, from 1 for the least similar to n for the most similar of the row's n "
            "words. The released code applies swish and then ranks."
        ),
    ] = "none",
    alpha: Annotated[
        Share,
        Meta(
            description="Share of each weight to keep. The rest is spread evenly over all words of "
            "the row. The authors tried 0.1, 0.3, 0.5 and 0.7."
        ),
    ] = 1.0,
    corruption: Shares = "80-10-10",
) -> Recipe:
    """Mask words, preferably those similar to anchors of the domain (Difference-Masking).

    Reference: Wilf et al. 2023. The weight of a word is its highest cosine to an anchor, divided by
    the sum over the row. Words are drawn by weight without replacement. The probability of a word
    to be masked is therefore flatter than its weight. Stop words have weights like other words.

    Where the paper is silent:

    * The rate for text is not given. 0.15 is a share of the row's words, rounded at random, so that
      short rows have their share.
    * Words with a cosine of 0 or less, and words that are not in the lexicon, have weight 0.
    * Pooled embeddings have cosines in a narrow range (0.59 to 0.98 in the authors' example), so
      words are masked almost uniformly. `transform` widens the range.
    """
    score = Score(lexicon=lexicon, transform=transform, missing=UNLIKE, alpha=alpha)
    words = Pick("words", Budget(rate, rounding="random"), order=Order("weighted", score))
    return Recipe((words,), Corruption(corruption))


def difference_patches(
    rate: Annotated[
        Share, Meta(description="Share of the row's units to mask. Rounded down.")
    ] = 0.25,
    alpha: Annotated[
        Share, Meta(description="Maximum share of flagged units among the masked units.")
    ] = 0.1,
    corruption: Shares = "mask",
) -> Recipe:
    """Mask patches of a video, few of them on persons (Difference-Masking on images).

    Reference: the code of Wilf et al. 2023 for TVQA and Social-IQ. A video is seven frames of 18 x
    30 patches in groups of 4. A patch is flagged if it overlaps the box of a person's face or body.
    A quarter of the patches is masked: up to `rate * alpha` of all patches are flagged ones, drawn
    uniformly, and the others are drawn uniformly from the patches that are not flagged. If too few
    patches are flagged, more of the others are masked. Both numbers are rounded down here. The
    released code uses one fixed seed for all videos.

    Each token of a row is a patch, and mentions are the flagged patches. Make rows from arrays by
    `mslm_data.examples(lengths, spans=..., keys=...)`; no tokenizer is needed. Flagged patches are
    of kind ENTITY, others BASE.
    """
    # 0.3 * 0.9 is 0.26999999999999996 in floats, which would mask 26 of 100 patches instead of 27.
    flagged_budget = Budget(round(rate * alpha, 12), counts="tokens", rounding="down")
    flagged = Pick("tokens", flagged_budget, Eligible("mentions", unknown=True), kind="entity")
    # `total` subtracts the masked flagged patches, so other patches fill the budget.
    all_budget = Budget(rate, counts="tokens", rounding="down", total=True)
    others = Pick("tokens", all_budget, Eligible("generic", unknown=True))
    return Recipe((flagged, others), Corruption(corruption))
