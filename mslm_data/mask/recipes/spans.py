"""Spans at random positions: SPAN of the MSLM paper, SpanBERT and T5."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from mslm_data.mask.corruption import Corruption
from mslm_data.mask.rate import Rate
from mslm_data.mask.recipes.options import RoundedUp, Shares
from mslm_data.mask.span_picks import ComposeSpans, GrowSpans, PlaceSpans
from mslm_data.mask.strategy import Recipe

Chance = Annotated[
    float,
    Meta(gt=0, lt=1, description="Success probability of the geometric distribution of lengths."),
]
Longest = Annotated[int, Meta(ge=1, description="Maximum length of a span, in words.")]
Unigrams = Annotated[
    str,
    Meta(
        description="File of a lexicon of single tokens with their counts, from which random "
        "ids are drawn. Default: all ids are equally likely."
    ),
]


def span(
    rate: RoundedUp = 0.15,
    shortest: Annotated[int, Meta(ge=1, description="Minimum drawn length in tokens.")] = 2,
    longest: Annotated[int, Meta(ge=1, description="Maximum drawn length in tokens.")] = 4,
    corruption: Shares = "mask",
) -> Recipe:
    """Mask spans of 2 to 4 tokens at random positions: SPAN of the MSLM paper, Algorithm 1.

    Reference: Abaho et al. 2024, appendix E.1. The budget is `ceil(rate * tokens)`. The row's
    tokens are visited once, in random order. At each token a length is drawn, and the span that
    starts there is cut to the remaining budget and to the row's end. A span that overlaps an
    earlier one is skipped.

    Because spans are cut, about a sixth of them have one token at a rate of 0.15, although lengths
    of 2 to 4 are drawn. Because there is a single pass, high rates may not spend the budget
    (`unspent`). On BC2GM, every row spent it at 0.5; at 0.75, half a percent of it was unspent.

    Where the paper is silent or contradicts itself:

    * Lines 11 to 13 compute the same end again. They are read as a cut at the row's end.
    * A span as long as the remaining budget is allowed, as in line 7; the text says "less than".
    * Spans may touch, and may start or end inside a word.
    * A span with `[UNK]` is skipped.
    """
    spans = PlaceSpans(rate=rate, shortest=shortest, longest=longest)
    return Recipe((spans,), Corruption(corruption))


def spanbert(
    rate: RoundedUp = 0.15,
    chance: Chance = 0.2,
    longest: Longest = 10,
    corruption: Shares = "80-10-10",
    unigrams: Unigrams = "",
) -> Recipe:
    """Mask spans of 1 to 10 whole words, 3.8 of them on average, as SpanBERT does.

    Reference: Joshi et al. 2020; `masking.py` of facebookresearch/SpanBERT, reimplemented from its
    behaviour. The budget is `ceil(rate * tokens)`. Each turn draws a token that is not masked yet.
    The span starts with that token's word and extends to the right. Its length in words is drawn
    from a geometric distribution with parameter 0.2, truncated at 10. Spans may overlap and touch.
    The last span is cut, even inside a word, so the budget is always spent exactly. `[UNK]` is
    masked like any other token.

    All tokens of a run, that is of spans that overlap or touch, get the same action. This is
    `--replacement-method span`, which the released model used; the default of the code is one
    action per token.

    The code draws random ids in proportion to their frequency in the corpus: use `unigrams` for
    that. Default: all ids that are not special are equally likely. The span boundary objective
    belongs to the model, not to the mask.
    """
    spans = GrowSpans(rate=rate, chance=chance, longest=longest)
    return Recipe((spans,), Corruption(corruption, by="run", unigrams=unigrams))


def spanbert_ner(
    rate: RoundedUp = 0.15,
    chance: Chance = 0.2,
    longest: Longest = 10,
    corruption: Shares = "80-10-10",
    unigrams: Unigrams = "",
) -> Recipe:
    """Mask mentions and spans of words in random turns, as SpanBERT's NER variant does.

    Reference: Joshi et al. 2020; `NERSpanMaskingScheme` of facebookresearch/SpanBERT with a
    `ner_masking_prob` of 0.5. As `spanbert`, but each turn masks either a span of words or a random
    mention of the row, with probability 1/2 each. The mention may be masked already. A mention is
    cut at the end of the budget. In rows without mentions, all turns mask spans.

    Tokens are of kind ENTITY if a mention masked them first, and BASE if a span did. The code
    merges adjacent mentions into one; here they stay two.
    """
    spans = GrowSpans(rate=rate, chance=chance, longest=longest, mentions=True)
    return Recipe((spans,), Corruption(corruption, by="run", unigrams=unigrams))


def t5(
    rate: Annotated[
        Rate,
        Meta(description="Share of the row's non-special tokens to mask. Rounded to the nearest."),
    ] = 0.15,
    mean: Annotated[int, Meta(ge=1, description="Mean length of a span in tokens.")] = 3,
    corruption: Shares = "sentinels",
) -> Recipe:
    """Mask spans of 3 tokens on average, and replace each by a sentinel, as T5 does.

    Reference: Raffel et al. 2020, section 3.1.4; `random_spans_noise_mask` of
    google-research/text-to-text-transfer-transformer, and its copy in `run_t5_mlm_flax.py` of
    transformers. The numbers of masked tokens and of spans depend on the row's length alone. The
    first token is never masked and the last one always is; all such masks are equally likely. A row
    of 568 tokens has 85 masked tokens in 28 spans, so that the encoder reads 512 tokens and the
    decoder writes 114, the end of the text included in both.

    At least one token is masked, also at a rate of 0. At rates so high that the spans would touch,
    there are fewer of them; the script fails there. Spans may start or end inside a word. UL2
    (Tay et al. 2023) mixes several rates and means: list such parts in `mixture`.
    """
    return Recipe((ComposeSpans(rate=rate, mean=mean),), Corruption(corruption))
