"""Difference-Masking: what is like the words that set a domain apart is masked more often.

`mslm-data vocab anchors` finds these words, `mslm-data vocab scores anchors` how like them each
word is.
"""

from __future__ import annotations

from typing import Annotated, Literal

from mslm_data.mask.budget import Budget
from mslm_data.mask.corruption import Corruption
from mslm_data.mask.orders import Order
from mslm_data.mask.pick import Eligible, Pick
from mslm_data.mask.rate import Rate, Share
from mslm_data.mask.score import Score
from mslm_data.mask.strategy import Recipe
from mslm_data.registry import Help

UNLIKE = -1.0
"""The least cosine: the likeness of a word that is not in the lexicon."""


def difference(
    lexicon: Annotated[
        str, Help("File of a lexicon of words with their likeness.")
    ] = "difference.arrow",
    rate: Annotated[Rate, Help("Share of the row's words.")] = 0.15,
    transform: Annotated[
        Literal["none", "swish", "rank"],
        Help(
            "How a likeness becomes a weight: `none`; `swish`, `s / (1 + exp(-s))`; or `rank`, "
            "from 1 for the least like to n for the most like of the row's n words. The released "
            "code applies swish and then ranks."
        ),
    ] = "none",
    alpha: Annotated[
        Share,
        Help(
            "Part of each word's share of the row's weight that is kept. The rest is spread "
            "evenly, over words without a likeness too. The authors tried 0.1, 0.3, 0.5 and 0.7."
        ),
    ] = 1.0,
    corruption: Annotated[str, Help("`80-10-10` as in the paper; see `Corruption`.")] = "80-10-10",
) -> Recipe:
    """Mask words, the likelier the more they are like anchors of the domain (Difference-Masking).

    As in Wilf et al. 2023, a word's weight is its highest cosine to an anchor over the row's sum,
    and words are drawn by weight without replacement. So a word's chance to be masked is not in
    proportion to its weight, but flatter. Stop words have weights like others.

    Decided here, as the paper's rate for text was not to be seen: 0.15 is a share of the row's
    words, rounded at random, so that short rows have their share too. A cosine of 0 or less, and a
    word that is not in the lexicon, has a weight of 0. Poolers give cosines that hardly differ
    (0.59 to 0.98 in the authors' own example), so that words are masked almost evenly; `transform`
    is for that.
    """
    score = Score(lexicon=lexicon, transform=transform, missing=UNLIKE, alpha=alpha)
    words = Pick("words", Budget(rate, rounding="random"), order=Order("weighted", score))
    return Recipe((words,), Corruption(corruption))


def difference_released(
    lexicon: Annotated[
        str, Help("File of a lexicon of words with their likeness.")
    ] = "difference.arrow",
    rate: Annotated[Rate, Help("Share of the row's tokens, special ones aside.")] = 0.15,
    alpha: Annotated[
        Share,
        Help(
            "Part of each token's share of the row's weight that is kept. The rest is spread "
            "evenly over tokens (`get_masked_indices_alpha`)."
        ),
    ] = 1.0,
    corruption: Annotated[str, Help("`80-10-10` as in the code; see `Corruption`.")] = "80-10-10",
) -> Recipe:
    """Mask single tokens by the rank of their word's likeness (Difference-Masking's code).

    From `data_before_submission.py` of abwilf/Difference-Masking, described in words. Kept:

    * Tokens are masked, not words, so that words are masked in part.
    * Likenesses only rank the row's m words: each token of the word most like weighs m, of the word
      least like 1.
    * `int(0.15 * n)` of the row's n tokens, special ones aside, are drawn by weight without
      replacement.

    Not kept, as slips of the code:

    * A word that occurs twice can be masked only where it occurs last, and is drawn with twice the
      chance there, where two draws of one place count as two. Here each occurrence is a word of its
      own.
    * Words are there what stands between blanks, commas and all, and each is tokenised alone, so
      that its places may not be those of the row. Here they are the shards' words.
    * Rows of more tokens than the model takes stop the run.

    Equal likenesses are ranked there as the sort leaves them; here the first is the higher. Words
    that are not in the lexicon rank last.
    """
    score = Score(lexicon=lexicon, transform="rank", missing=UNLIKE, alpha=alpha)
    budget = Budget(rate, rounding="down")
    tokens = Pick("tokens", budget, Eligible(unknown=True), Order("weighted", score))
    return Recipe((tokens,), Corruption(corruption, random_ids="vocabulary"))


def difference_patches(
    rate: Annotated[Share, Help("Share of the row's units that is masked.")] = 0.25,
    alpha: Annotated[Share, Help("Part of that share which flagged units may have.")] = 0.1,
    corruption: Annotated[str, Help("`mask`; see `Corruption`.")] = "mask",
) -> Recipe:
    """Mask patches of a video, a few of them where persons are (Difference-Masking on images).

    In the released code for TVQA and Social-IQ a video is seven frames of 18 x 30 patches in groups
    of 4, and a patch is flagged where the box of a person's face or body covers it. Of all patches
    a quarter is masked: up to `rate * alpha` of them flagged ones, drawn uniformly, and the rest
    from all others, drawn uniformly. Where fewer are flagged the others fill up. Both numbers are
    rounded down here; the release draws with one fixed seed for all videos.

    Rows are of any units: each token is a patch, and mentions are the flagged stretches. Make them
    from arrays by `mslm_data.examples(lengths, spans=..., keys=...)`; no tokenizer is needed.
    Flagged patches are of kind ENTITY, others BASE.
    """
    flagged_budget = Budget(round(rate * alpha, 12), counts="tokens", rounding="down")
    flagged = Pick("tokens", flagged_budget, Eligible("mentions", unknown=True), kind="entity")
    # The budget of the others counts the flagged ones that are masked already, so they fill up.
    all_budget = Budget(rate, counts="tokens", rounding="down", total=True)
    others = Pick("tokens", all_budget, Eligible("generic", unknown=True))
    return Recipe((flagged, others), Corruption(corruption))
