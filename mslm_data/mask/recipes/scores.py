"""Tokens by scores of a model or a table: Selective Masking, InforMask, keywords, and attention.

Scores are computed once, before training, by `mslm-data vocab scores`. A score column has one score
per token of a folder, a lexicon one score per word or id.

AttnMask and MST are adapted from images. In both papers, a teacher that follows the model during
training provides the attention of its last block over image patches. Here a frozen encoder provides
it once, over the tokens of a row (`mslm-data vocab scores attention`). Special tokens, which get
most attention in text, are excluded before counting or ranking. Punctuation, which gets some, is
not.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from mslm_data.mask.budget import Budget
from mslm_data.mask.corruption import Corruption
from mslm_data.mask.orders import Order
from mslm_data.mask.pick import Eligible, Pick
from mslm_data.mask.rate import Rate, Share, Uniform
from mslm_data.mask.recipes.options import MaxMasked, RoundedDown, Shares
from mslm_data.mask.score import Score
from mslm_data.mask.strategy import Recipe

_TENTH_TO_HALF = Uniform(start=0.1, stop=0.5)
"""The rate of AttnMask, drawn for each row and epoch."""

Attention = Annotated[str, Meta(description="Folder of a score column of attention.")]
Gate = Annotated[Share, Meta(description="Probability that a row is masked at all.")]


def selective_task(
    scores: Annotated[
        str, Meta(description="Folder of a score column, above 0 on the tokens to mask.")
    ] = "confidence",
    corruption: Shares = "80-10-10",
) -> Recipe:
    """Mask every token that a task model finds important (Selective Masking on task data).

    Reference: Gu et al. 2020; thunlp/SelectiveMasking. A row is read up to and including a token.
    The token is important if the classifier's confidence in the label is nearly as high as for the
    whole row. `mslm-data vocab scores confidence` scores important tokens above 0. All of these are
    masked, in every epoch.

    The released code never masks spaCy's stop words, and masks at most 20 tokens of a row of 128.
    Here the score column decides both.
    """
    order = Order("bernoulli", Score(column=scores, transform="flag"))
    tokens = Pick("tokens", Budget(1.0), Eligible(unknown=True), order)
    return Recipe((tokens,), Corruption(corruption, random_ids="vocabulary"))


def selective(
    scores: Annotated[
        str, Meta(description="Folder of a score column, above 0 on eligible tokens.")
    ] = "logits",
    rate: Annotated[
        Rate,
        Meta(
            description="Share of the row's non-special tokens to mask. Rounded down, but at least "
            "one token."
        ),
    ] = 0.15,
    max_masked: MaxMasked = 0,
    corruption: Shares = "80-10-10",
) -> Recipe:
    """Mask the tokens of highest score above 0, up to 15 % of a row (Selective Masking, in-domain).

    Reference: Gu et al. 2020; thunlp/SelectiveMasking. A token classifier is trained on the output
    of `selective-task` and applied to text without labels. Of n tokens in a row, the `int(max(1,
    0.15 * n))` tokens with the highest logits are masked if the classifier finds them important.
    Special tokens are not counted here. The mask is the same in every epoch. The code masks at most
    40 tokens of a row of 256.

    `mslm-data vocab scores logits --value margin` scores a token above 0 if and only if the
    classifier finds it important. Without `--value`, the score is the logit, as in the released
    code. Tokens with a logit above 0 then count as important, which is slightly different.
    """
    budget = Budget(rate, rounding="down", min_masked=1, max_masked=max_masked)
    order = Order("highest", Score(column=scores))
    tokens = Pick("tokens", budget, Eligible(unknown=True), order)
    return Recipe((tokens,), Corruption(corruption, random_ids="vocabulary"))


def informask(
    lexicon: Annotated[
        str,
        Meta(
            description="File of a lexicon of single tokens with their rates. A rate of 1 or more "
            "always masks."
        ),
    ] = "informask.arrow",
    rate: Annotated[Rate, Meta(description="Factor for all rates.")] = 1.0,
    corruption: Shares = "mask",
) -> Recipe:
    """Mask each token with the probability that a table has for its id (InforMask).

    Reference: Sadeq et al. 2022; NafisSadeq/InforMask. The rate of an id increases with the
    information of its tokens about their neighbours (PMI). The authors publish rates of 29,007 ids
    of bert-base-uncased, from 0.018 to 1, with an unweighted mean of 0.25. The table has
    no licence and is not shipped. `mslm-data vocab scores table --by ids --out
    DIR/vocab/informask.arrow` reads your copy. Ids without an entry are never masked.

    The released code computes the loss over all tokens, masked or not. Here, as in all strategies,
    only masked tokens are predicted.
    """
    order = Order("bernoulli", Score(lexicon=lexicon, by="token"))
    tokens = Pick("tokens", Budget(rate), Eligible(unknown=True), order)
    return Recipe((tokens,), Corruption(corruption))


def keywords(
    lexicon: Annotated[
        str, Meta(description="File of a lexicon. Words with a score above 0 are keywords.")
    ] = "keywords.arrow",
    rate: Annotated[Rate, Meta(description="Probability of each keyword.")] = 1.0,
    corruption: Shares = "mask",
) -> Recipe:
    """Mask each keyword of a lexicon independently (Golchin et al. 2023).

    Reference: Golchin et al. 2023, who find keywords with KeyBERT and mask nothing else. Their rate
    is not known; the default masks every keyword.

    `mslm-data vocab scores table --out DIR/vocab/keywords.arrow` makes a lexicon from a list of
    words, `mslm-data vocab anchors` finds keywords by frequency. Keywords of several words are
    never matched.
    """
    order = Order("bernoulli", Score(lexicon=lexicon, transform="flag"))
    return Recipe((Pick("words", Budget(rate), order=order),), Corruption(corruption))


def attention_high(
    scores: Attention = "attention",
    rate: RoundedDown = _TENTH_TO_HALF,
    gate: Gate = 0.5,
    corruption: Shares = "mask",
) -> Recipe:
    """Mask tokens with the highest attention, in half of the rows (AttnMask-High, adapted to text).

    Reference: Kakogeorgiou et al. 2022; gkakogeorgiou/attmask. Attention is that of `[CLS]`. Of n
    patches, the `int(r * n)` with the highest attention are masked, for r between 0.1 and 0.5.
    Every other image is unchanged, so 15 % are masked on average. There, r is drawn for each batch.
    Here a row's mask must not depend on its batch, so r is drawn for each row and epoch.
    """
    return _by_attention(Order("highest", Score(column=scores)), rate, corruption, gate)


def attention_hints(
    scores: Attention = "attention",
    rate: RoundedDown = _TENTH_TO_HALF,
    gate: Gate = 0.5,
    corruption: Shares = "mask",
    show: Annotated[
        Share,
        Meta(
            description="Share of the row's tokens that form the top, and share of the budget to "
            "unmask."
        ),
    ] = 0.1,
) -> Recipe:
    """Mask as `attention-high`, then unmask some of the top (AttnMask-Hints, adapted to text).

    Reference: Kakogeorgiou et al. 2022. After `attention-high`, `int(0.1 * r * n)` tokens are
    unmasked. They are drawn uniformly from the `int(0.1 * n)` tokens with the highest attention.
    For r up to 0.5, rows of fewer than 20 tokens have none unmasked; for r = 0.1, rows of fewer
    than 100. The released code fails in that case.
    """
    order = Order("highest", Score(column=scores), hints=show)
    return _by_attention(order, rate, corruption, gate)


def attention_low(
    scores: Attention = "attention",
    rate: RoundedDown = _TENTH_TO_HALF,
    gate: Gate = 0.5,
    corruption: Shares = "mask",
) -> Recipe:
    """Mask tokens with the lowest attention, in half of the rows (AttnMask-Low, adapted to text).

    Reference: Kakogeorgiou et al. 2022. The control of `attention-high`, with the same rates.
    """
    return _by_attention(Order("lowest", Score(column=scores)), rate, corruption, gate)


def mst(
    scores: Attention = "attention",
    share: Annotated[
        Rate,
        Meta(
            description="Share of the row's non-special tokens that are eligible, those with the "
            "lowest attention. Rounded down."
        ),
    ] = 0.5,
    rate: Annotated[Rate, Meta(description="Probability of each eligible token.")] = 0.125,
    corruption: Shares = "mask",
) -> Recipe:
    """Mask tokens with the lowest attention independently (MST, adapted to text).

    Reference: Li et al. 2021, who mask patches of low attention at random, to keep the important
    parts of an image. Attention is that of `[CLS]`. The 1/8 is recalled from the paper, not
    re-read. The threshold for low attention is not known; half of the row's tokens is our choice.
    Report both values with results.
    """
    order = Order("lowest", Score(column=scores), chance=rate)
    return _by_attention(order, share, corruption)


def _by_attention(order: Order, rate: Rate, corruption: str, gate: float = 1.0) -> Recipe:
    budget = Budget(rate, counts="tokens", rounding="down", gate=gate)
    return Recipe((Pick("tokens", budget, order=order),), Corruption(corruption))
