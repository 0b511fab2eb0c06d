"""Spans at random places: SPAN of the MSLM paper, and SpanBERT."""

from __future__ import annotations

from typing import Annotated

from mslm_data.mask.corruption import Corruption
from mslm_data.mask.rate import Rate, Share
from mslm_data.mask.span_picks import GrowSpans, PlaceSpans
from mslm_data.mask.strategy import Recipe
from mslm_data.registry import Help

SpanTokens = Annotated[Rate, Help("Share of the row's tokens, special ones aside.")]
Chance = Annotated[Share, Help("Parameter of the geometric law, in `(0, 1)`.")]
Longest = Annotated[int, Help("Length at which the law ends, 1 or more words.")]
Shares = Annotated[str, Help("`80-10-10` as in the paper; see `Corruption`.")]
Unigrams = Annotated[
    str,
    Help(
        "File of a lexicon of single tokens with their counts. Default: all ids are equally likely."
    ),
]


def span(
    rate: Annotated[Rate, Help("Share of the row's tokens, special ones aside.")] = 0.15,
    shortest: Annotated[int, Help("Minimum of the drawn length, 1 or more.")] = 2,
    longest: Annotated[int, Help("Maximum of the drawn length.")] = 4,
    corruption: Annotated[str, Help("`mask` as in the paper; see `Corruption`.")] = "mask",
) -> Recipe:
    """Mask spans of 2 to 4 tokens at random places: SPAN of the MSLM paper, Algorithm 1.

    From Abaho et al. 2024, appendix E.1. The budget is `ceil(rate * tokens)`. The row's tokens are
    visited in random order, each as the first of a span whose length is drawn, then cut to the rest
    of the budget and at the row's end. A span that would overlap one taken before is left out. So
    about a sixth of the spans have one token at a rate of 0.15, although 2 to 4 are drawn. There is
    one pass, so at high rates the budget may not be reached (`unspent`): in BC2GM at 0.5 it was in
    every row, at 0.75 half a percent of it was missing.

    Decided where the paper is silent or cannot be meant: lines 11 to 13 recompute a span's end as
    it was, and are taken to cut it at the row's end. A span as long as the rest of the budget may
    be taken (line 7, against the text's "less than"). Spans may touch, and may begin and end within
    words. A span that would hold `[UNK]` is left out.
    """
    spans = PlaceSpans(rate=rate, shortest=shortest, longest=longest)
    return Recipe((spans,), Corruption(corruption))


def span_released(
    rate: Annotated[
        Rate, Help("Share of the row's tokens that are neither special nor `[UNK]`.")
    ] = 0.15,
    corruption: Annotated[str, Help("`mask` as in the code; see `Corruption`.")] = "mask",
) -> Recipe:
    """Mask spans of 1 to 5 tokens that begin at words: SPAN as in the MSLM paper's code.

    From mykelismyname/MSLM at c9cde41, `custom_mask.py:224-260`, described in words. It is `span`
    with lengths of 1 to 5, with first tokens that are not a `##` piece, and with a budget of the
    tokens that are neither special nor `[UNK]`. A span at the row's end is cut.

    Left out: with `[UNK]` in a row the code cuts at the wrong place, so that spans get negative
    lengths and more than the budget is masked, and it masks `[UNK]` within a span. Here a span that
    would hold one is left out. Words are those of the shards; where a word has punctuation inside,
    the code also begins at the pieces after it.
    """
    spans = PlaceSpans(rate=rate, shortest=1, longest=5, released=True)
    return Recipe((spans,), Corruption(corruption))


def spanbert(
    rate: SpanTokens = 0.15,
    chance: Chance = 0.2,
    longest: Longest = 10,
    corruption: Shares = "80-10-10",
    unigrams: Unigrams = "",
) -> Recipe:
    """Mask spans of 1 to 10 whole words, 3.8 of them on average, as SpanBERT does.

    From Joshi et al. 2020 and `masking.py` of facebookresearch/SpanBERT, described in words. The
    budget is `ceil(rate * tokens)`. At each turn a token that is not masked yet is drawn. The span
    begins with its word and goes on to the right over as many words as a geometric law of 0.2,
    ending at 10, says. Spans may grow over and beside each other. The last is cut, within a word if
    need be, so that the budget is always spent to the token. `[UNK]` is masked like any other.

    Tokens of one run, that is of spans that touch or overlap, share one fate (`--replacement-method
    span`, as in the released model; the code's default is a fate for each token). The code draws
    random ids from the tokens of the corpus, as frequent as they are there: `unigrams` does that.
    Without it all ids that are not special are equally likely. The objective at span boundaries
    belongs to the model, not to the mask.
    """
    spans = GrowSpans(rate=rate, chance=chance, longest=longest)
    return Recipe((spans,), Corruption(corruption, by="run", unigrams=unigrams))


def spanbert_ner(
    rate: SpanTokens = 0.15,
    chance: Chance = 0.2,
    longest: Longest = 10,
    corruption: Shares = "80-10-10",
    unigrams: Unigrams = "",
) -> Recipe:
    """Mask mentions and spans of words in random turns, as SpanBERT's NER variant does.

    From Joshi et al. 2020. It is `spanbert`, but each turn decides with probability 1/2 whether a
    span of words is next, or one of the row's mentions, masked before or not
    (`NERSpanMaskingScheme`, `ner_masking_prob` 0.5). A mention is cut where the budget ends. Its
    tokens are of kind ENTITY and those of spans BASE, whichever took them first. In rows without a
    mention, spans take all. The code joins mentions that touch into one; here they are two.
    """
    spans = GrowSpans(rate=rate, chance=chance, longest=longest, mentions=True)
    return Recipe((spans,), Corruption(corruption, by="run", unigrams=unigrams))
