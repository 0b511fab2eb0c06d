"""Mentions first: EntityBERT and its successors, salient spans, LIM, ERNIE.

Mentions are those of the shards, gold or weak: from the corpus, MedCAT, a table of terms, or a
chunker of noun phrases.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from mslm_data.mask.budget import Budget
from mslm_data.mask.corruption import Corruption
from mslm_data.mask.orders import Order
from mslm_data.mask.pick import Eligible, Listed, Pick
from mslm_data.mask.rate import Limit, Rate, Share
from mslm_data.mask.recipes.options import MaxMasked, OfAllTokens, RoundedDown, Shares
from mslm_data.mask.score import Score
from mslm_data.mask.strategy import Mixture, Recipe


def entitybert(
    entities: Annotated[
        Rate, Meta(description="Share of a row's mentions to mask. Rounded at random.")
    ] = 0.4,
    words: Annotated[
        Rate, Meta(description="Share of a row's words to mask afterwards. Rounded at random.")
    ] = 0.12,
    corruption: Shares = "80-10-10",
) -> Recipe:
    """Mask 40 % of a row's mentions, then 12 % of its words from the rest (EntityBERT).

    Reference: Lin et al. 2021, who mask a share of the events and times in clinical notes together
    with other words. The rates and 80-10-10 are recalled from the paper, not re-read. No code was
    released.

    Where the paper is silent:

    * Both rates are shares of the row. The 12 % count all words, but are drawn from words that are
      not masked yet, inside mentions or not.
    * The paper masks blocks of text; rows here are sentences. Numbers are rounded at random, so the
      rates are exact over a corpus.
    """
    mentions_pick = Pick(
        "mentions", Budget(entities, rounding="random"), Eligible(unknown=True), kind="entity"
    )
    words_pick = Pick("words", Budget(words, rounding="random"))
    return Recipe((mentions_pick, words_pick), Corruption(corruption))


def entitybert_difference(
    rate: RoundedDown = 0.15,
    corruption: Shares = "80-10-10",
) -> Recipe:
    """Mask the first tokens of a row's mentions: Difference-Masking's stand-in for EntityBERT.

    Reference: `data_with_entity.py` of abwilf/Difference-Masking, a baseline of Wilf et al. 2023
    that is not EntityBERT. Of n non-special tokens in a row, it masks the first `int(0.15 * n)`
    tokens of tagged words, without randomness. A row without tagged words has that number of random
    tokens masked. A row with too few tagged tokens has fewer masked.

    Differences from the code:

    * Order: the code iterates over a Python set of strings, whose order changes between runs, and
      masks the first occurrence of each string. Here it is the order of the row, over all mentions.
    * Random positions: the code draws from 0 to n - 1, but the tokens are at 1 to n. It may mask
      `<s>` and never masks the last token. Here all non-special tokens are drawn.
    """
    budget = Budget(rate, rounding="down")
    in_mentions = Pick("tokens", budget, Eligible("mentions", unknown=True), Order("first"))
    # `total`: in rows without mentions, this budget replaces the unspent one.
    anywhere_budget = Budget(rate, rounding="down", total=True)
    anywhere = Pick("tokens", anywhere_budget, Eligible("rows without mentions", unknown=True))
    return Recipe((in_mentions, anywhere), Corruption(corruption, random_ids="vocabulary"))


def salient(
    longest: Annotated[
        Limit,
        Meta(description="Maximum length of a mention in tokens, or 0 for no limit. REALM has 10."),
    ] = 0,
    corruption: Shares = "mask",
) -> Recipe:
    """Mask one whole mention of each row, and nothing in rows without one (salient spans).

    Reference: REALM (Guu et al. 2020; google-research/language), which draws one named entity or
    date of a passage and masks it in its sentence. There, a sentence is used as often as it has
    entities. Here each row with a mention has one mention masked in every epoch. Rows without
    mentions are unchanged; leave them out to save time.

    If a mention is longer than `longest`, another mention of the row is drawn; REALM skips the
    sentence. Cole et al. 2023 add times, and predict the span with T5.
    """
    budget = Budget(0.0, min_masked=1, max_masked=1)
    eligible = Eligible(longest=longest, unknown=True)
    mention = Pick("mentions", budget, eligible, kind="entity")
    return Recipe((mention,), Corruption(corruption))


def salient_t5(
    longest: Annotated[
        Limit, Meta(description="Maximum length of a mention in tokens, or 0 for no limit.")
    ] = 0,
    corruption: Shares = "sentinels",
) -> Recipe:
    """Mask one whole mention of each row by a sentinel, for T5 (salient span masking).

    Reference: Roberts et al. 2020, who train T5 on the salient spans of Guu et al. 2020. The mask
    is that of `salient`; the decoder writes the mention. Rows without mentions bear no loss; leave
    them out to save time.
    """
    return salient(longest, corruption)


def lim(
    chance: Annotated[
        Share,
        Meta(
            description="Probability that a row is masked inside phrases only. Other rows are "
            "masked outside phrases only."
        ),
    ] = 0.75,
    rate: OfAllTokens = 0.15,
    max_masked: MaxMasked = 20,
    scores: Annotated[
        str,
        Meta(
            description='Folder of a score column above 0 on tokens of phrases, or "" to use the '
            "mentions as phrases."
        ),
    ] = "",
    corruption: Shares = "80-10-10",
) -> Mixture:
    """Mask tokens of phrases only in three rows of four, and only other tokens in the fourth (LIM).

    Reference: linguistically informed masking of patents, Althammer et al. 2021;
    `create_pretraining_data_lim.py` of sophiaalthammer/patent-lim. For each row, a draw decides
    whether tokens of noun chunks or all other tokens are eligible. The rest is BERT's masking, see
    `bert`. If too few tokens are eligible, fewer are masked: a row without phrases has no mask with
    probability `chance`.

    The paper's runs have a `chance` of 0.75 and 1. At 0.5 or less, the released code makes all
    tokens eligible, which is `bert`; here the probability is taken literally.
    """
    budget = Budget(
        rate, counts="all tokens", rounding="nearest", min_masked=1, max_masked=max_masked
    )

    # The score flags tokens of phrases in place of the mentions.
    if scores:
        flagged = Order("weighted", Score(column=scores, transform="flag"))
        unflagged = Order("weighted", Score(column=scores, transform="unflagged"))
        inside = Pick("tokens", budget, Eligible(unknown=True), flagged)
        outside = Pick("tokens", budget, Eligible(unknown=True), unflagged)
    else:
        inside = Pick("tokens", budget, Eligible("mentions", unknown=True))
        outside = Pick("tokens", budget, Eligible("generic", unknown=True))

    replacement = Corruption(corruption, random_ids="vocabulary")
    parts = (Recipe((inside,), replacement), Recipe((outside,), replacement))
    return Mixture(parts, (chance, 1 - chance))


def ernie(
    rate: Annotated[Rate, Meta(description="Probability of each unit, or of each token.")] = 0.15,
    tokens: Annotated[
        Share, Meta(description="Probability that single tokens are masked in a row.")
    ] = 0.5,
    lexicon: Annotated[
        str,
        Meta(
            description='File of a lexicon of phrases, or "" for none. See `Listed` for '
            "overlapping phrases."
        ),
    ] = "",
    corruption: Shares = "80-10-10",
) -> Mixture:
    """Mask each mention, phrase and word independently, or in other rows single tokens (ERNIE 1.0).

    Reference: Sun et al. 2019; `ERNIE/batching.py` and `reader/pretraining.py` of
    PaddlePaddle/ERNIE, reimplemented from their behaviour. A row is divided into units, each
    masked with probability 0.15, without a minimum, maximum or budget. The tokens of a unit are
    corrupted independently by 80-10-10. Random ids are drawn from the whole vocabulary, with
    special ids.

    Differences from the code:

    * The code decides per file, by a ratio in its list of files, whether units or single tokens
      ("characters") are masked. Here each row draws in each epoch. The ratio is not published; the
      default is 0.5.
    * The code reads words, phrases and entities from tools that were not released. Here entities
      are the mentions, phrases are those of the lexicon, and all other words are units.
    * `[UNK]` is masked inside mentions only. Id 0 can be a random id.
    """
    bernoulli = Order("bernoulli")
    entities = Pick("mentions", Budget(rate), Eligible(unknown=True), bernoulli, kind="entity")
    others = Pick(
        Listed(lexicon) if lexicon else "words", Budget(rate), Eligible("generic"), bernoulli
    )
    single = Pick("tokens", Budget(rate), order=bernoulli)
    replacement = Corruption(corruption, random_ids="vocabulary")
    parts = (Recipe((entities, others), replacement), Recipe((single,), replacement))
    return Mixture(parts, (1 - tokens, tokens))
