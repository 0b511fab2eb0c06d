"""Mentions first: EntityBERT and its successors, salient spans, LIM, ERNIE.

The mentions are those of the shards, whoever marked them: a corpus, MedCAT, a table of terms, or a
chunker of noun phrases.
"""

from __future__ import annotations

from typing import Annotated, Literal

from mslm_data.mask.budget import Budget
from mslm_data.mask.combined_picks import OneOf, WithoutMentions
from mslm_data.mask.corruption import Corruption
from mslm_data.mask.orders import Order
from mslm_data.mask.pick import Eligible, Listed, Pick
from mslm_data.mask.rate import Limit, Rate, Share
from mslm_data.mask.score import Score
from mslm_data.mask.strategy import Recipe
from mslm_data.registry import Help


def entitybert(
    entities: Annotated[Rate, Help("Share of a row's mentions to mask.")] = 0.4,
    words: Annotated[Rate, Help("Share of a row's words to mask afterwards.")] = 0.12,
    corruption: Annotated[str, Help("`80-10-10` as in the paper; see `Corruption`.")] = "80-10-10",
) -> Recipe:
    """Mask 40 % of a row's mentions, then 12 % of its words among what is left (EntityBERT).

    Lin et al. 2021 mark events and times in notes and mask a share of them together with other
    words. The shares and 80/10/10 are recalled from the paper, not re-read; there is no code.
    Decided here: both shares are of the row. The 12 % are of all its words, but taken from those
    that are not masked yet, within mentions or not. The paper has blocks of text where rows are
    sentences here, so numbers are rounded at random, and over a corpus the shares are exact.
    """
    mentions_pick = Pick(
        "mentions", Budget(entities, rounding="random"), Eligible(unknown=True), kind="entity"
    )
    words_pick = Pick("words", Budget(words, rounding="random"))
    return Recipe((mentions_pick, words_pick), Corruption(corruption))


def entitybert_difference(
    rate: Annotated[Rate, Help("Share of the row's tokens, special ones aside.")] = 0.15,
    corruption: Annotated[str, Help("`80-10-10` as in the code; see `Corruption`.")] = "80-10-10",
) -> Recipe:
    """Mask the first tokens of a row's mentions: Difference-Masking's stand-in for EntityBERT.

    The baseline of Wilf et al. 2023 (`data_with_entity.py` of abwilf/Difference-Masking) is not
    EntityBERT. Of the n tokens of a row, special ones aside, it masks the first `int(0.15 * n)`
    tokens of tagged words, without a draw. Where nothing is tagged it masks that many tokens at
    random, and where too little is tagged it masks fewer.

    "First" is there the order of a Python set of strings, which changes from run to run, over the
    first occurrence of each string. Here it is the order in the row, over all mentions. The random
    draw is there of places 0 to n - 1 although the tokens stand at 1 to n, so `<s>` may be masked
    and the last token never is. Here the draw is of the tokens.
    """
    budget = Budget(rate, rounding="down")
    in_mentions = Pick("tokens", budget, Eligible("mentions", unknown=True), Order("first"))
    anywhere = Pick("tokens", budget, Eligible(unknown=True))
    return Recipe(
        (in_mentions, WithoutMentions(pick=anywhere)),
        Corruption(corruption, random_ids="vocabulary"),
    )


def salient(
    longest: Annotated[
        Limit,
        Help("Maximum length of a mention, in tokens; REALM has 10. Default: no limit."),
    ] = None,
    corruption: Annotated[str, Help("`mask` as in REALM; see `Corruption`.")] = "mask",
) -> Recipe:
    """Mask one whole mention of each row, and nothing in rows without one (salient spans).

    REALM (Guu et al. 2020; google-research/language) chooses one named entity or date among all of
    a passage, and the sentence that it stands in becomes the query. A sentence is seen as often as
    it has entities, and never without one. Here the row is the unit: each row with a mention has
    one masked in every epoch. Rows without one stay as they are, so leave them out where they cost
    time. A mention that is too long is not skipped with its sentence, but stands back for the
    others of its row (`longest`). Cole et al. 2023 add times, and let T5 write the span.
    """
    one = Budget(0.0, min_masked=1, max_masked=1)
    mention = Pick("mentions", one, Eligible(longest=longest or None, unknown=True), kind="entity")
    return Recipe((mention,), Corruption(corruption))


def lim(
    chance: Annotated[
        Share, Help("Probability that only tokens of phrases are masked in a row.")
    ] = 0.75,
    rate: Annotated[Rate, Help("Share of the row's tokens, special ones included.")] = 0.15,
    max_masked: Annotated[Limit, Help("Maximum number of masked tokens; 0 for no limit.")] = 20,
    scores: Annotated[
        str,
        Help(
            "Folder of a score column that is above 0 on tokens of phrases, if they are not the "
            'mentions; "" for none.'
        ),
    ] = "",
    corruption: Annotated[str, Help("`80-10-10` as in the paper; see `Corruption`.")] = "80-10-10",
) -> Recipe:
    """Mask tokens of phrases only in three rows of four, and only other tokens in the fourth (LIM).

    Linguistically informed masking (Althammer et al. 2021, patents): in
    `create_pretraining_data_lim.py` of sophiaalthammer/patent-lim a draw for each sequence decides
    which tokens can be masked, those of noun chunks or the others; the rest is BERT's masking, see
    `bert`. Where there are fewer than are due, fewer are masked: in a row without phrases nothing
    is masked three times of four. The released code takes all tokens where the chance is 0.5 or
    less, which is `bert`; here the chance means what it says. The paper's runs have 0.75 and 1.
    """
    budget = Budget(
        rate, counts="all tokens", rounding="nearest", min_masked=1, max_masked=max_masked or None
    )

    def pick(
        where: Literal["mentions", "generic"], transform: Literal["flag", "unflagged"]
    ) -> Pick:
        if not scores:
            return Pick("tokens", budget, Eligible(where, unknown=True))
        score = Score(column=scores, transform=transform)
        return Pick("tokens", budget, Eligible(unknown=True), Order("weighted", score))

    ways = ((pick("mentions", "flag"),), (pick("generic", "unflagged"),))
    return Recipe(
        (OneOf(chances=(chance, 1 - chance), ways=ways),),
        Corruption(corruption, random_ids="vocabulary"),
    )


def ernie(
    rate: Annotated[Rate, Help("Chance of each unit, or of each token.")] = 0.15,
    tokens: Annotated[Share, Help("Share of rows in which single tokens are masked.")] = 0.5,
    lexicon: Annotated[
        str,
        Help(
            'File of a lexicon of phrases; "" for none. `Listed` says which of overlapping phrases '
            "are units."
        ),
    ] = "",
    corruption: Annotated[str, Help("`80-10-10` as in the code; see `Corruption`.")] = "80-10-10",
) -> Recipe:
    """Mask each mention, phrase and word independently, or in other rows single tokens (ERNIE 1.0).

    Sun et al. 2019, as the released code does it (PaddlePaddle/ERNIE, `ERNIE/batching.py` and
    `reader/pretraining.py`), described in words. A row comes cut into units, each masked with
    probability 0.15, without a minimum or a maximum. Of a unit's tokens each has its own fate of
    80/10/10, and random ids are drawn from the whole vocabulary, special ones included.

    Differences: the code draws for each file, by a share in its list of files, whether units or
    single tokens ("characters") are masked. Here each row draws, anew in each epoch; as the share
    is not published, it is a half. Its files come cut into words, phrases and entities by tools
    that are not released. Here the entities are the mentions, phrases are those of a lexicon if
    there is one, and words are the rest. `[UNK]` is masked within mentions only, and the id 0 is
    drawn too. There is no budget.
    """
    bernoulli = Order("bernoulli")
    entities = Pick("mentions", Budget(rate), Eligible(unknown=True), bernoulli, kind="entity")
    rest = Pick(
        Listed(lexicon) if lexicon else "words", Budget(rate), Eligible("generic"), bernoulli
    )
    single = Pick("tokens", Budget(rate), order=bernoulli)
    return Recipe(
        (OneOf(chances=(1 - tokens, tokens), ways=((entities, rest), (single,))),),
        Corruption(corruption, random_ids="vocabulary"),
    )
