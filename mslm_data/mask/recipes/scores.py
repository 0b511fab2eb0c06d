"""Tokens by numbers of a model or a table: Selective Masking, InforMask, keywords, and attention.

The numbers are made once, before training, by `mslm-data vocab scores`. For tokens where they stand
they are a score column; for words or ids wherever they stand they are a lexicon.

AttnMask and MST are about images. In both papers a teacher that follows the model in training gives
the attention, of its last block, for patches of an image. Here a frozen encoder gives it once for
the tokens of a row (`mslm-data vocab scores attention`), so this is an adaptation, not a
reproduction. Special tokens, which draw most attention in text, are left out before anything is
counted or ranked; stops and commas, which draw some, are not.
"""

from __future__ import annotations

from typing import Annotated, Literal

from mslm_data.mask.budget import Budget
from mslm_data.mask.combined_picks import Bernoulli, Hints
from mslm_data.mask.corruption import Corruption
from mslm_data.mask.orders import Order
from mslm_data.mask.pick import Eligible, Pick
from mslm_data.mask.rate import Limit, Rate, Schedule, Share
from mslm_data.mask.score import Score
from mslm_data.mask.strategy import Recipe
from mslm_data.registry import Help

_TENTH_TO_HALF = Schedule(shape="uniform", start=0.1, stop=0.5)

Attention = Annotated[str, Help("Folder of a score column of attention.")]
Tokens = Annotated[Rate, Help("Share of the row's tokens, special ones aside.")]
Gate = Annotated[Share, Help("Chance of each row to take part at all.")]
Shares = Annotated[str, Help("`mask` as in the paper; see `Corruption`.")]


def selective_task(
    scores: Annotated[
        str, Help("Folder of a score column, above 0 on the tokens that are masked.")
    ] = "confidence",
    corruption: Annotated[str, Help("`80-10-10` as in the code; see `Corruption`.")] = "80-10-10",
) -> Recipe:
    """Mask every token that a task model finds important (Selective Masking on task data).

    Gu et al. 2020: a token is important if, once it stands at the end of what was read of the row,
    the classifier is nearly as sure of the label as with the whole row. `mslm-data vocab scores
    confidence` scores tokens by that rule, above 0 for important ones. These are all masked,
    whatever their number, and the same ones in every epoch. The released code
    (thunlp/SelectiveMasking) leaves spaCy's stop words unmasked, and predicts at most 20 tokens of
    a row of 128; here both are up to the column.
    """
    order = Order("bernoulli", Score(column=scores, transform="flag"))
    tokens = Pick("tokens", Budget(1.0), Eligible(unknown=True), order)
    return Recipe((tokens,), Corruption(corruption, random_ids="vocabulary"))


def selective(
    scores: Annotated[
        str, Help("Folder of a score column, above 0 on eligible tokens.")
    ] = "logits",
    rate: Annotated[
        Rate,
        Help(
            "Share of the row's tokens, special ones aside; rounded down, but one token at least."
        ),
    ] = 0.15,
    max_masked: Annotated[
        Limit,
        Help(
            "Maximum number of masked tokens; the code has 40 for rows of 256. Default: no limit."
        ),
    ] = None,
    corruption: Annotated[str, Help("`80-10-10` as in the code; see `Corruption`.")] = "80-10-10",
) -> Recipe:
    """Mask the tokens of highest score above 0, up to 15 % of a row (Selective Masking, in-domain).

    Gu et al. 2020 train a token classifier on what `selective-task` finds, to carry it over to text
    without labels. Of the tokens that it takes for important, the `int(max(1, 0.15 * n))` with the
    highest logits are masked, n being the row's tokens (special ones aside here). They are the same
    in every epoch.

    `mslm-data vocab scores logits --value margin` is above 0 just on tokens that the classifier
    takes for important, and ranks them by how clearly. Without `--value` it ranks by the logit as
    the released code does, but then the important ones are those whose logit is above 0, which is
    not quite the same.
    """
    budget = Budget(rate, rounding="down", min_masked=1, max_masked=max_masked or None)
    order = Order("highest", Score(column=scores))
    tokens = Pick("tokens", budget, Eligible(unknown=True), order)
    return Recipe((tokens,), Corruption(corruption, random_ids="vocabulary"))


def informask(
    lexicon: Annotated[
        str, Help("File of a lexicon of single tokens with their rates; 1 and more is always.")
    ] = "informask.arrow",
    rate: Annotated[Rate, Help("Factor of all rates.")] = 1.0,
    corruption: Annotated[str, Help("`mask` as in the code; see `Corruption`.")] = "mask",
) -> Recipe:
    """Mask each token with the probability that a table has for its id (InforMask).

    Sadeq et al. 2022 give each id a rate that follows how much its tokens tell about those around
    them (PMI). They publish a table of 29,007 ids of bert-base-uncased, from 0.018 to 1, 0.25 in
    the plain mean. It has no licence, so it is not shipped: `mslm-data vocab scores table --by ids
    --out DIR/vocab/informask.arrow` reads a copy of yours. Ids that it does not have are never
    masked.

    The released code (NafisSadeq/InforMask) has all tokens as labels, masked or not. Here, as
    everywhere, only masked ones are predicted; a loss over all tokens can be had from the rows
    themselves.
    """
    order = Order("bernoulli", Score(lexicon=lexicon, by="token"))
    tokens = Pick("tokens", Budget(rate), Eligible(unknown=True), order)
    return Recipe((tokens,), Corruption(corruption))


def keywords(
    lexicon: Annotated[
        str, Help("File of a lexicon; a word that has an entry above 0 is a keyword.")
    ] = "keywords.arrow",
    rate: Annotated[Rate, Help("Chance of each keyword.")] = 1.0,
    corruption: Shares = "mask",
) -> Recipe:
    """Mask each keyword of a lexicon independently (Golchin et al. 2023).

    The paper finds keywords with KeyBERT and masks these alone. At which rate was not to be seen,
    so it is an option, and its default masks them all. `mslm-data vocab scores table --out
    DIR/vocab/keywords.arrow` makes a lexicon of any list of words; a keyword of several words is
    not found. `mslm-data vocab anchors` finds keywords by frequency.
    """
    order = Order("bernoulli", Score(lexicon=lexicon, transform="flag"))
    return Recipe((Pick("words", Budget(rate), order=order),), Corruption(corruption))


def attention_high(
    scores: Attention = "attention",
    rate: Tokens = _TENTH_TO_HALF,
    gate: Gate = 0.5,
    corruption: Shares = "mask",
) -> Recipe:
    """Mask what [CLS] attends to most, in half of the rows (AttnMask-High, adapted to text).

    Kakogeorgiou et al. 2022 (gkakogeorgiou/attmask) mask of n patches the `int(r * n)` of highest
    attention, r between 0.1 and 0.5. Every other image stays whole, so that 15 % are masked in the
    mean. There r is one number for a batch. Here a row's mask does not depend on its batch, so each
    row draws its own r in each epoch.
    """
    return Recipe((_by_attention(scores, rate, gate, "highest"),), Corruption(corruption))


def attention_hints(
    scores: Attention = "attention",
    rate: Tokens = _TENTH_TO_HALF,
    gate: Gate = 0.5,
    corruption: Shares = "mask",
    show: Annotated[
        Share,
        Help("Share of the row's tokens that are the top, and of the budget that is shown again."),
    ] = 0.1,
) -> Recipe:
    """Mask what `attention-high` masks, but for some of the top (AttnMask-Hints, adapted to text).

    After `attention-high`, `int(0.1 * r * n)` of the `int(0.1 * n)` tokens of highest attention are
    shown again, drawn uniformly. Rows of fewer than 20 tokens have no hint at any r up to 0.5, and
    none of fewer than 100 has one at 0.1. The released code fails on drawing none.
    """
    highest = _by_attention(scores, rate, gate, "highest")
    return Recipe((Hints(pick=highest, show=show),), Corruption(corruption))


def attention_low(
    scores: Attention = "attention",
    rate: Tokens = _TENTH_TO_HALF,
    gate: Gate = 0.5,
    corruption: Shares = "mask",
) -> Recipe:
    """Mask what [CLS] attends to least, in half of the rows (AttnMask-Low, adapted to text).

    It is the control of Kakogeorgiou et al. 2022 for `attention-high`, which says more.
    """
    return Recipe((_by_attention(scores, rate, gate, "lowest"),), Corruption(corruption))


def mst(
    scores: Attention = "attention",
    share: Annotated[
        Rate,
        Help(
            "Share of the row's tokens, without special ones, that can be masked: those of "
            "lowest attention, rounded down."
        ),
    ] = 0.5,
    rate: Annotated[Rate, Help("Chance of each of these.")] = 0.125,
    corruption: Shares = "mask",
) -> Recipe:
    """Mask some of the tokens that [CLS] attends to least, independently (MST, adapted to text).

    Li et al. 2021 mask patches of low attention, by chance, so as to leave what matters in the
    picture. The 1/8 is recalled from the paper, not re-read. Below which attention a patch is low
    was not to be seen. Half of the row's tokens is our choice, so say both where it matters.
    """
    lowest = _by_attention(scores, share, 1.0, "lowest")
    return Recipe((Bernoulli(pick=lowest, rate=rate),), Corruption(corruption))


def _by_attention(scores: str, rate: Rate, gate: float, by: Literal["highest", "lowest"]) -> Pick:
    budget = Budget(rate, counts="tokens", rounding="down", gate=gate)
    return Pick("tokens", budget, order=Order(by, Score(column=scores)))
