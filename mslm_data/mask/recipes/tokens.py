"""Single tokens at random: BERT, Hugging Face, DGA, RoBERTa, Wettig, ModernBERT, ELECTRA; or none.

They differ in the number of masked tokens, in whether `[UNK]` is masked, and in the random ids.
"""

from __future__ import annotations

from typing import Annotated

from mslm_data.mask.budget import Budget
from mslm_data.mask.corruption import Corruption
from mslm_data.mask.orders import Order
from mslm_data.mask.pick import Eligible, Pick
from mslm_data.mask.rate import Limit, Rate, Schedule
from mslm_data.mask.strategy import Recipe
from mslm_data.registry import Help


def bert(
    rate: Annotated[Rate, Help("Share of the row's tokens, special ones included.")] = 0.15,
    max_masked: Annotated[
        Limit,
        Help("Maximum number of masked tokens; 20 is for rows of 128 tokens, 0 for no limit."),
    ] = 20,
    corruption: Annotated[str, Help("`80-10-10` as in the paper; see `Corruption`.")] = "80-10-10",
) -> Recipe:
    """Mask single tokens, a fixed number of each row, as BERT does (Devlin et al. 2019).

    In `create_pretraining_data.py` of google-research/bert the number is `min(max_masked, max(1,
    round(rate * tokens)))`. Python's `round` goes half to even, and special tokens are counted
    though never masked. So more than `rate` of a short row's real tokens are masked, and less of
    rows of 134 tokens or more. `[UNK]` is masked like any other. Random ids come from the whole
    vocabulary, special and unused ones included. BERT drew each mask ten times before training
    (`dupe_factor`): plan with `epoch % 10` for that.
    """
    budget = Budget(
        rate, counts="all tokens", rounding="nearest", min_masked=1, max_masked=max_masked or None
    )
    tokens = Pick("tokens", budget, Eligible(unknown=True))
    return Recipe((tokens,), Corruption(corruption, random_ids="vocabulary"))


def token(
    rate: Annotated[Rate, Help("Probability of each token.")] = 0.15,
    unknown: Annotated[
        bool,
        Help(
            "Whether `[UNK]` can be masked. The collator masks it only if rows have a "
            "`special_tokens_mask`."
        ),
    ] = False,
    corruption: Annotated[str, Help("`80-10-10`; see `Corruption`.")] = "80-10-10",
) -> Recipe:
    """Mask each token independently, as Hugging Face's language modeling collator does.

    This follows `DataCollatorForLanguageModeling` of transformers 5.23 in law, not in random
    numbers. There is no minimum, so a row of n tokens has no target with chance `(1 - rate) ** n`
    (0.197 for 10 tokens at 0.15). Random ids come from the whole vocabulary.

    Whether the collator masks `[UNK]` depends on its caller. If it works out itself which tokens
    are special, it leaves out all special ids, `[UNK]` among them. If rows bring the tokenizer's
    `special_tokens_mask`, `[UNK]` in the text is not marked there and is masked.
    """
    tokens = Pick("tokens", Budget(rate), Eligible(unknown=unknown), Order("bernoulli"))
    return Recipe((tokens,), Corruption(corruption, random_ids="vocabulary"))


def dga(
    rate: Annotated[Rate, Help("Probability of each token.")] = 0.15,
    corruption: Annotated[str, Help("`80-10-10` as in the code; see `Corruption`.")] = "80-10-10",
) -> Recipe:
    """Mask single tokens as `token` does; the rest of DGA acts on the model (Ke et al. 2022).

    What sets DGA apart is in `mslm_data.torch`: `head_importance` finds the attention heads that
    hold general knowledge, `SoftMasks` has the optimizer move them less, and
    `general_knowledge_loss` is its contrastive loss. With these masks alone a run is not DGA, but
    the control that it is to be compared with.
    """
    return token(rate, corruption=corruption)


def roberta(
    rate: Annotated[Rate, Help("Share of the row's tokens, without special ones.")] = 0.15,
    corruption: Annotated[str, Help("`80-10-10` as in the paper; see `Corruption`.")] = "80-10-10",
) -> Recipe:
    """Mask single tokens, `int(rate * n + u)` of each row, as RoBERTa does (Liu et al. 2019).

    In fairseq's `mask_tokens_dataset.py` u is uniform in `[0, 1)`, so the mean number is exactly
    `rate * n`, and short rows have their share. There n counts `<s>` and `</s>`, which can be
    masked. Here these never are, and n counts the other tokens, so each of them keeps its chance.
    `<unk>` is masked like any other. Random ids are those that are not special; fairseq adds
    `<mask>` to its dictionary late and can draw it.
    """
    budget = Budget(rate, counts="tokens", rounding="random")
    return Recipe((Pick("tokens", budget, Eligible(unknown=True)),), Corruption(corruption))


def wettig(
    rate: Annotated[Rate, Help("Share of the row's tokens, without special ones.")] = 0.4,
    corruption: Annotated[str, Help("`mask` as advised; see `Corruption`.")] = "mask",
) -> Recipe:
    """Mask 40 % of the tokens, all behind `[MASK]`, as Wettig et al. 2023 advise for large models.

    In princeton-nlp/DinkyTrain it is fairseq's masking (see `roberta`) at another rate, with no
    random and no kept tokens. The paper studies rates from 0.15 to 0.8. It also studies `80-10-10`,
    which does worse at both 0.15 and 0.4 (its README: MNLI 83.7 and 84.3; without, 84.2 and 84.5).
    """
    return roberta(rate, corruption)


def modernbert(
    rate: Annotated[Rate, Help("Probability of each token.")] = 0.3,
    corruption: Annotated[str, Help("`80-10-10` as in the code; see `Corruption`.")] = "80-10-10",
) -> Recipe:
    """Mask each token with probability 0.3, as ModernBERT does (Warner et al. 2024).

    In `sequence_packer.py` of AnswerDotAI/ModernBERT the rate is 0.3 in training and 0.15 in
    evaluation, with no minimum, and `[UNK]` is masked like any other. The training code masks
    special tokens too; here they never are. Random ids there go up to the largest id in the batch.
    Here, where no row may depend on others, they come from the whole vocabulary.
    """
    return token(rate, unknown=True, corruption=corruption)


def electra(
    rate: Annotated[
        Rate, Help("Share of the row's tokens, special ones counted; 0.25 for the large model.")
    ] = 0.15,
    max_tokens: Annotated[
        Limit,
        Help(
            "The model's row length L, which caps the draws at `int((rate + 0.005) * L)`; 0 for no "
            "cap. Rows of at most L tokens reach it only if L is below 100."
        ),
    ] = None,
    corruption: Annotated[str, Help("`85-0-15` as in the code; see `Corruption`.")] = "85-0-15",
) -> Recipe:
    """Mask tokens drawn with replacement, for ELECTRA's generator to fill (Clark et al. 2020).

    In `pretrain_helpers.py` of google-research/electra, on which BioELECTRA rests, there are
    `max(1, min(cap, round(rate * tokens)))` draws; special tokens are counted but never drawn. A
    token drawn twice is masked once, so k draws from n tokens mask `n * (1 - (1 - 1 / n) ** k)` on
    average. ELECTRA multiplies in single precision: at 0.15, rows of 190, 350 and 390 tokens have
    one draw more there. Of the masked tokens 85 % become `[MASK]` and the rest stay. There each
    draw decides that, and the loss counts it, anew; here each token does so once. `[UNK]` is drawn
    like any other. What the generator writes into the gaps is the model's part.
    """
    max_masked = None
    if max_tokens:
        top = rate.highest if isinstance(rate, Schedule) else rate
        max_masked = int((top + 0.005) * max_tokens)

    budget = Budget(
        rate, counts="all tokens", rounding="nearest", min_masked=1, max_masked=max_masked
    )
    tokens = Pick("tokens", budget, Eligible(unknown=True), Order("with_replacement"))
    return Recipe((tokens,), Corruption(corruption))


def unmasked() -> Recipe:
    """Mask nothing: rows as they are, to train on tags and mentions alone.

    This is plain fine-tuning for NER. Batches have no target for a masked-language-model loss, so
    of Eq. 12 (Abaho et al. 2024) the losses of detection and classification are left. In a
    `curriculum` it comes after the strategies that adapt the model.
    """
    return Recipe((Pick("tokens", Budget(0.0)),))
