"""Single tokens at random: BERT, Hugging Face, DGA, RoBERTa, Wettig, ModernBERT, ELECTRA; or none.

They differ in the number of masked tokens, in the ids drawn as random replacements, and in whether
`[UNK]` can be masked.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from mslm_data.mask.budget import Budget
from mslm_data.mask.corruption import Corruption
from mslm_data.mask.orders import Order
from mslm_data.mask.pick import Eligible, Pick
from mslm_data.mask.rate import Limit, Rate, highest_rate
from mslm_data.mask.recipes.options import (
    MaxMasked,
    OfAllTokens,
    RoundedAtRandom,
    Shares,
    TokenChance,
)
from mslm_data.mask.strategy import Recipe


def bert(
    rate: OfAllTokens = 0.15,
    max_masked: MaxMasked = 20,
    corruption: Shares = "80-10-10",
) -> Recipe:
    """Mask single tokens, a fixed number of each row, as BERT does (Devlin et al. 2019).

    Reference: `create_pretraining_data.py` of google-research/bert. A row has `min(max_masked,
    max(1, round(rate * tokens)))` masked tokens:

    * `round` rounds half to even. The limit of 20 is for rows of 128 tokens.
    * Special tokens are counted but never masked, so short rows have more than `rate` of their
      other tokens masked. With 134 other tokens or more, the limit of 20 lowers the share below
      `rate`.
    * `[UNK]` is masked like any other token.
    * Random ids are drawn from the whole vocabulary, with special and unused ids.

    BERT draws ten masks per row before training (`dupe_factor`). Plan with `epoch % 10` to repeat
    ten masks.
    """
    budget = Budget(
        rate, counts="all tokens", rounding="nearest", min_masked=1, max_masked=max_masked
    )
    tokens = Pick("tokens", budget, Eligible(unknown=True))
    return Recipe((tokens,), Corruption(corruption, random_ids="vocabulary"))


def token(
    rate: TokenChance = 0.15,
    unknown: Annotated[
        bool,
        Meta(
            description="Whether `[UNK]` is eligible. In the collator, it is eligible only if rows "
            "have a `special_tokens_mask`."
        ),
    ] = False,
    corruption: Shares = "80-10-10",
) -> Recipe:
    """Mask each token independently, as Hugging Face's language modeling collator does.

    Reference: `DataCollatorForLanguageModeling` of transformers 5.23. The distribution is the same,
    the random numbers are not. There is no minimum: a row of n tokens has no target with
    probability `(1 - rate) ** n`, which is 0.197 for 10 tokens at the default rate. Random ids are
    drawn from the whole vocabulary.

    In the collator, the caller decides whether `[UNK]` is masked. Without a `special_tokens_mask`,
    the collator excludes all special ids, and `[UNK]` is one. With the mask of the tokenizer,
    `[UNK]` in running text is an ordinary token and is masked.
    """
    tokens = Pick("tokens", Budget(rate), Eligible(unknown=unknown), Order("bernoulli"))
    return Recipe((tokens,), Corruption(corruption, random_ids="vocabulary"))


def dga(
    rate: TokenChance = 0.15,
    corruption: Shares = "80-10-10",
) -> Recipe:
    """Mask single tokens as `token` does; the rest of DGA acts on the model (Ke et al. 2022).

    Reference: UIC-Liu-Lab/DGA. The method itself is the program `examples/dga.py`. A run with
    these masks alone is the control, not DGA.
    """
    return token(rate, corruption=corruption)


def roberta(
    rate: RoundedAtRandom = 0.15,
    corruption: Shares = "80-10-10",
) -> Recipe:
    """Mask single tokens, `int(rate * n + u)` of each row, as RoBERTa does (Liu et al. 2019).

    Reference: `mask_tokens_dataset.py` of fairseq. u is uniform in `[0, 1)`, so the expected number
    is exactly `rate * n` for rows of any length. `<unk>` is masked like any other token.

    Differences from fairseq:

    * fairseq counts `<s>` and `</s>` in n and may mask them. Here n is the number of non-special
      tokens, and `<s>` and `</s>` are never masked. Other tokens have the same probability.
    * Random ids exclude all special ids. fairseq can draw `<mask>`, which is added to the
      dictionary late.
    """
    budget = Budget(rate, counts="tokens", rounding="random")
    return Recipe((Pick("tokens", budget, Eligible(unknown=True)),), Corruption(corruption))


def wettig(
    rate: RoundedAtRandom = 0.4,
    corruption: Shares = "mask",
) -> Recipe:
    """Mask 40 % of the tokens by `[MASK]` alone, as Wettig et al. 2023 advise for large models.

    Reference: princeton-nlp/DinkyTrain. This is fairseq's masking (see `roberta`) at a higher rate,
    without random or unchanged tokens. The paper studies rates from 0.15 to 0.8. `80-10-10` is
    worse at both 0.15 and 0.4 (README of the code: MNLI 83.7 and 84.3; with `[MASK]` alone 84.2 and
    84.5).
    """
    return roberta(rate, corruption)


def modernbert(
    rate: TokenChance = 0.3,
    corruption: Shares = "80-10-10",
) -> Recipe:
    """Mask each token with probability 0.3, as ModernBERT does (Warner et al. 2024).

    Reference: `sequence_packer.py` of AnswerDotAI/ModernBERT. The rate is 0.3 in training and 0.15
    in evaluation. There is no minimum, and `[UNK]` is masked like any other token.

    Differences from the code:

    * The code masks special tokens too. Here they are never masked.
    * Random ids in the code go up to the largest id of the batch. Here they are drawn from the
      whole vocabulary, because a row's mask must not depend on its batch.
    """
    return token(rate, unknown=True, corruption=corruption)


def electra(
    rate: Annotated[
        Rate,
        Meta(
            description="Number of draws, as a share of the row's tokens. Special tokens are "
            "counted. The paper has 0.25 for the large model."
        ),
    ] = 0.15,
    max_tokens: Annotated[
        Limit,
        Meta(
            description="The model's row length L, which limits the number of draws to `int((rate "
            "+ 0.005) * L)`, or 0 for no limit. Rows of at most L tokens reach the limit only if L "
            "is below 100."
        ),
    ] = 0,
    corruption: Shares = "85-0-15",
) -> Recipe:
    """Mask tokens drawn with replacement, for ELECTRA's generator to fill (Clark et al. 2020).

    Reference: `pretrain_helpers.py` of google-research/electra, also used by BioELECTRA. A row has
    `max(1, min(limit, round(rate * tokens)))` draws:

    * Special tokens are counted but never drawn. `[UNK]` is drawn like any other token.
    * A token drawn twice is masked once. k draws from n tokens mask `n * (1 - (1 - 1 / n) ** k)`
      tokens on average.
    * 85 % of the masked tokens become `[MASK]`, the rest stays.

    Differences from the code:

    * ELECTRA multiplies in single precision. At a rate of 0.15, rows of 190, 350 and 390 tokens
      have one more draw there.
    * ELECTRA decides between `[MASK]` and the original id for each draw, and counts each draw in
      the loss. Here both happen once per masked token.

    The generator's samples belong to the model, not to the mask.
    """
    max_masked = max(1, int((highest_rate(rate) + 0.005) * max_tokens)) if max_tokens else 0
    budget = Budget(
        rate, counts="all tokens", rounding="nearest", min_masked=1, max_masked=max_masked
    )
    tokens = Pick("tokens", budget, Eligible(unknown=True), Order("with_replacement"))
    return Recipe((tokens,), Corruption(corruption))


def unmasked() -> Recipe:
    """Mask nothing: train on the tags and mentions of unchanged rows.

    This is plain fine-tuning for NER. Batches have no masked-language-model target, so Eq. 12 of
    Abaho et al. 2024 keeps only the detection and classification losses. In a `curriculum`, use it
    after the strategies that adapt the model.
    """
    return Recipe((Pick("tokens", Budget(0.0)),))
